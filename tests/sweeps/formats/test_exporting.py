import csv
import io
import json

from advisor.domain import Status
from advisor.sweeps.formats.exporting import SUMMARY_COLUMNS, to_csv, to_jsonl
from advisor.sweeps.formats.serialization import measurement_from_dict
from tests.sweeps.builders import measurement


def test_jsonl_has_every_measurement_whole():
    rows = [measurement(), measurement(status=Status.FAILED, step_seconds=(), reason="it broke")]
    lines = to_jsonl(rows).splitlines()
    assert [measurement_from_dict(json.loads(line)) for line in lines] == rows


def test_csv_has_one_row_a_measurement_and_a_missing_rate_is_empty():
    text = to_csv([measurement(), measurement(step_seconds=())])
    first, second = csv.DictReader(io.StringIO(text))
    assert tuple(first) == SUMMARY_COLUMNS
    assert float(first["throughput_samples_per_second"]) > 0
    assert second["throughput_samples_per_second"] == ""
