import csv
import io
import json

from msgspec.structs import replace

from advisor.domain import Status, Task
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


def test_csv_says_whose_rate_it_is_of_several_gpus():
    row = measurement()
    of_one = replace(row.trial, workload=replace(row.trial.workload, task=Task.INFERENCE))
    of_four = replace(of_one, resources=replace(of_one.resources, gpu_count=4))
    text = to_csv([replace(row, trial=each) for each in (of_one, of_four)])
    one, four = csv.DictReader(io.StringIO(text))
    assert (one["processes"], four["processes"]) == ("1", "4")
    rate = "throughput_samples_per_second"
    assert float(four[rate]) == 4 * float(one[rate])
