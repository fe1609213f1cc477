"""Rows as documents and tables, there and back."""

import csv
import io
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import Cpu, DiskRate, Gpu, Stack, Status, Task
from advisor.errors import DataError
from advisor.models.bundled import FOLDER
from advisor.runs.stored_rows import spread_document
from advisor.sweeps import formats
from tests.rows import table
from tests.sweeps.builders import measurement, resources, trial

CASES = table("sweeps_cases")


def through_json(document):
    return json.loads(json.dumps(document))


def full_trial():
    gpu = Gpu(
        name="T4",
        vendor="NVIDIA",
        architecture="Turing",
        compute_capability="7.5",
        memory_mib=15360,
        memory_gb_per_second=320.0,
        fp32_tflops=8.1,
    )
    held = resources(
        disk=DiskRate(type="slow", read_mib_per_second=20.0, read_iops=500.0),
        cpu=Cpu(model="EPYC", architecture="x86_64"),
        gpu=gpu,
    )
    return trial(resources=held, accelerator="emulated:T4", emulated_step_seconds=0.03)


@pytest.mark.parametrize("entry", [trial(), full_trial()])
def test_a_trial_keeps_its_id_through_json(entry):
    back = formats.trial_from_dict(through_json(formats.trial_to_dict(entry)))
    assert back == entry
    assert back.trial_id == entry.trial_id


def test_what_ships_keeps_its_ids_and_workloads_and_another_stack_is_another_trial():
    """What ships was measured before a workload had a stack."""
    for line in (FOLDER / "measurements.jsonl").read_text().splitlines():
        document = json.loads(line)
        entry = formats.measurement_from_dict(document)
        again = formats.measurement_to_dict(entry)
        assert again["trial_id"] == document["trial_id"] == entry.trial.trial_id
        assert again["trial"]["workload"] == document["trial"]["workload"]
    other = replace(entry.trial, workload=replace(entry.trial.workload, stack=Stack.COMPILE, input="3x96x96"))
    assert other.trial_id != entry.trial.trial_id
    assert formats.trial_from_dict(through_json(formats.trial_to_dict(other))) == other


@given(st.lists(st.floats(1e-6, 1e4), max_size=20))
def test_raw_values_come_back_unrounded(steps):
    row = measurement(step_seconds=tuple(steps), warmup_step_seconds=(1.25,))
    assert formats.measurement_from_dict(through_json(formats.measurement_to_dict(row))) == row


def test_a_newer_format_is_refused_with_the_way_out():
    document = formats.measurement_to_dict(measurement()) | {"schema": 99}
    with pytest.raises(DataError, match="update the advisor"):
        formats.measurement_from_dict(document)


@pytest.mark.parametrize("damage", CASES["damage_is_told_as_a_data_error"])
def test_damage_is_told_as_a_data_error(damage):
    with pytest.raises(DataError, match="not a measurement"):
        formats.measurement_from_dict(formats.measurement_to_dict(measurement()) | damage)


def test_csv_says_whose_rate_it_is_of_several_gpus():
    row = measurement()
    of_one = replace(row.trial, workload=replace(row.trial.workload, task=Task.INFERENCE))
    of_four = replace(of_one, resources=replace(of_one.resources, gpu_count=4))
    text = formats.to_csv(
        [*(replace(row, trial=each) for each in (of_one, of_four)), measurement(step_seconds=())]
    )
    entry, four, without = csv.DictReader(io.StringIO(text))
    assert tuple(entry) == formats.SUMMARY_COLUMNS
    assert (entry["processes"], four["processes"]) == ("1", "4")
    rate = "throughput_samples_per_second"
    assert float(four[rate]) == 4 * float(entry[rate]) > 0
    assert without[rate] == ""


# Lines in, measurements out: every line is taken, or refused with its number and reason.


def line(**changes):
    return json.dumps(formats.measurement_to_dict(measurement(**changes))).encode()


def test_good_lines_are_read_whole_bad_ones_have_numbers_and_of_a_trials_the_best_counts():
    other = measurement(trial=full_trial(), status=Status.FAILED, step_seconds=(), reason="it broke")
    good = formats.to_jsonl([other]).encode().rstrip()
    read = formats.read_lines([line(), b"", b"nonsense", b"[1]", b'{"schema": 99}', line()[:80], good])
    assert read.measurements == (measurement(), other)
    assert [refused.line for refused in read.refused] == [3, 4, 5, 6]
    assert all(refused.reason for refused in read.refused)
    with pytest.raises(DataError, match="cannot read"):
        formats.read_file(Path("none.jsonl"))
    spoiled = line(status=Status.CONTAMINATED)
    better, latest = line(started_at="2026-07-21"), line(started_at="2026-07-22")
    assert formats.read_lines([spoiled, better]).measurements[0].status is Status.OK
    assert formats.read_lines([better, spoiled]).measurements[0].status is Status.OK
    read = formats.read_lines([spoiled, better, latest])
    assert read.measurements[0].started_at == "2026-07-22"
    assert read.repeated == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"step_seconds": [0.1, -0.1]},
        {"step_seconds": [0.0]},
        {"step_seconds": []},
        {"step_seconds": [math.nan]},
        {"stage_rates": {"accelerator": math.inf}},
        {"stage_rates": {"accelerator": 0}},
        {"status": "failed", "step_seconds": []},
        {"repeats": [{}]},
        {"repeats": [{"step_seconds": ["x"]}]},
        {"read_bytes": 2**64},
        {"reason": "half of a pair: \ud800"},
        {"reason": "nothing: \0"},
        {"trial": {**formats.measurement_to_dict(measurement())["trial"], "plan": {"loader_workers": "x"}}},
        {"trial": {**formats.measurement_to_dict(measurement())["trial"], "plan": {"samples_per_row": []}}},
    ],
)
def test_what_cannot_have_been_measured_is_refused(changes):
    document = formats.measurement_to_dict(measurement()) | changes
    assert formats.read_lines([json.dumps(document).encode()]).refused


@given(st.binary(max_size=200))
def test_any_bytes_are_told_never_raised(content):
    read = formats.read_lines(content.split(b"\n"))
    assert not read.measurements


ODD_NUMBERS = [True, -1, 1.5, 10**400, -(10**30), 1e308, 5e-324, 2**63]
ODD_WORDS = [None, "", "x", "\0", "\ud800"]
ODD = st.sampled_from([*ODD_NUMBERS, *ODD_WORDS, [], [[1]], {}, [None], ["x"], [1e308, 1e308]])


def places_in(document, path=()):
    pairs = document.items() if isinstance(document, dict) else ()
    pairs = enumerate(document[:2]) if isinstance(document, list) else pairs
    for name, value in pairs:
        yield (*path, name)
        yield from places_in(value, (*path, name))


WHOLE = json.loads(line(step_seconds=(0.1, 0.2) * 8, repeats=({"step_seconds": [0.1, 0.2]},)))


@given(st.sampled_from(list(places_in(WHOLE))), ODD)
def test_whatever_is_taken_can_be_told(path, odd):
    document = json.loads(json.dumps(WHOLE))
    part = document
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = odd
    for row in formats.read_lines([json.dumps(document).encode()]).measurements:
        expected = json.dumps([formats.summary_row(row), spread_document(row)], ensure_ascii=False)
        assert "\0" not in expected.encode().decode()
        assert formats.to_csv([row]).encode()
        assert formats.read_lines([formats.to_jsonl([row]).encode()]).measurements == (row,)
