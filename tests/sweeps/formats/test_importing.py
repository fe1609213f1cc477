"""Lines in, measurements out: every line is taken, or refused with its number and reason."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Status
from advisor.errors import DataError
from advisor.runs.stored.documents import spread_document
from advisor.sweeps.formats.exporting import csv_rows, summary_row, to_jsonl
from advisor.sweeps.formats.importing import read_file, read_lines
from advisor.sweeps.formats.serialization import measurement_to_dict
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
        {"repeats": [{}]},
        {"repeats": [{"step_seconds": ["x"]}]},
        {"read_bytes": 2**64},
        {"reason": "half of a pair: \ud800"},
        {"reason": "nothing: \0"},
        {"trial": {**measurement_to_dict(measurement())["trial"], "plan": {"loader_workers": "x"}}},
        {"trial": {**measurement_to_dict(measurement())["trial"], "plan": {"samples_per_row": []}}},
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


ODD_NUMBERS = [True, -1, 1.5, 10**400, -(10**30), 1e308, 5e-324, 2**63]
ODD_WORDS = [None, "", "x", "\0", "\ud800"]
ODD = st.sampled_from([*ODD_NUMBERS, *ODD_WORDS, [], [[1]], {}, [None], ["x"], [1e308, 1e308]])


def places_in(document, place=()):
    """Where something stands in it."""
    pairs = document.items() if isinstance(document, dict) else ()
    pairs = enumerate(document[:2]) if isinstance(document, list) else pairs
    for name, value in pairs:
        yield (*place, name)
        yield from places_in(value, (*place, name))


WHOLE = json.loads(line(step_seconds=(0.1, 0.2) * 8, repeats=({"step_seconds": [0.1, 0.2]},)))


@given(st.sampled_from(list(places_in(WHOLE))), ODD)
def test_whatever_is_taken_can_be_told(place, odd):
    document = json.loads(json.dumps(WHOLE))
    part = document
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = odd
    for row in read_lines([json.dumps(document).encode()]).measurements:
        told = json.dumps([summary_row(row), spread_document(row)], ensure_ascii=False)
        assert "\0" not in told.encode().decode()
        assert csv_rows([summary_row(row)]).encode()
        assert read_lines([to_jsonl([row]).encode()]).measurements == (row,)
