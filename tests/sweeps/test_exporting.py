import csv
import io
import json

import pytest

from advisor.domain import Status
from advisor.errors import DataError
from sweeps.exporting import SUMMARY_COLUMNS, to_csv, to_jsonl, write_whole
from sweeps.serialization import measurement_from_dict
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


def test_a_file_is_written_whole(tmp_path):
    write_whole(tmp_path / "out.csv", "text")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.csv", "text")]


def test_a_place_that_cannot_be_written_changes_nothing(tmp_path):
    with pytest.raises(DataError, match="nothing was changed"):
        write_whole(tmp_path / "missing" / "out.csv", "text")
