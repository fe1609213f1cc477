"""Lines in, measurements out: every line is taken, or refused with its number and reason."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Status
from advisor.errors import DataError
from sweeps.importing import read_file, read_lines
from sweeps.serialization import measurement_to_dict
from tests.sweeps.builders import measurement, resources, trial


def line(**changes):
    return json.dumps(measurement_to_dict(measurement(**changes))).encode()


def test_good_lines_are_read_whole_and_bad_ones_have_their_numbers():
    found = read_lines([line(), b"", b"nonsense", b"[1]", b'{"schema": 99}', line()[:80]])
    assert found.measurements == (measurement(),)
    assert [refused.line for refused in found.refused] == [3, 4, 5, 6]
    assert all(refused.reason for refused in found.refused)


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
    ],
)
def test_what_cannot_have_been_measured_is_refused(changes):
    document = measurement_to_dict(measurement()) | changes
    assert read_lines([json.dumps(document).encode()]).refused


def test_of_a_trials_lines_one_that_ended_well_counts_then_the_later():
    spoiled = line(status=Status.CONTAMINATED)
    better, latest = line(started_at="2026-07-21"), line(started_at="2026-07-22")
    assert read_lines([spoiled, better]).measurements[0].status is Status.OK
    assert read_lines([better, spoiled]).measurements[0].status is Status.OK
    found = read_lines([spoiled, better, latest])
    assert found.measurements[0].started_at == "2026-07-22"
    assert found.repeated == 2


@given(st.binary(max_size=200))
def test_any_bytes_are_told_never_raised(content):
    found = read_lines(content.split(b"\n"))
    assert not found.measurements


def test_other_trials_stay_apart_and_a_missing_file_is_told(tmp_path):
    other = line(trial=trial(resources=resources(memory_mib=4096.0)))
    assert len(read_lines([line(), other]).measurements) == 2
    with pytest.raises(DataError, match="cannot read"):
        read_file(tmp_path / "none.jsonl")
