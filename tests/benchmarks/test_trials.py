"""Benchmarks that make trials by hand make ones that a sweep could run and store."""

import json
import sys

import pytest

from advisor.domain import Task, Trial
from advisor.sweeps.formats import trial_from_dict, trial_to_dict
from benchmarks.kills import __main__ as kills
from benchmarks.rates import coverage, pairs, stalls
from benchmarks.rates.trials import emulated_trials


def built() -> dict[str, list[Trial]]:
    cells = [*coverage.CELLS, *pairs.cells(vcpus=1.0)]
    return {
        "coverage and pairs": emulated_trials(cells, seconds=1.0, samples=2),
        "stalls": [stalls.stalled_trial()],
    }


def test_every_trial_travels_to_a_worker_and_coverage_has_cells_of_different_kinds():
    """As JSON, with its id: what a record refuses would break the benchmark after minutes."""
    for name, trials in built().items():
        for trial in trials:
            again = trial_from_dict(json.loads(json.dumps(trial_to_dict(trial))))
            assert again == trial, name
            assert again.trial_id == trial.trial_id, name
    # A spread from alike cells would be that of their kind.
    cells = coverage.CELLS
    assert len(set(cells)) == len(cells) >= 12
    assert {cell.task for cell in cells} == {Task.INFERENCE, Task.TRAINING}
    assert min(cell.vcpus for cell in cells) < 1 < max(cell.vcpus for cell in cells)


# A few kills of each kind, as `python -m benchmarks.kills` does by the hundred.
@pytest.mark.night
def test_what_is_killed_leaves_the_same_rows_and_nothing_else(monkeypatch, capsys, postgresql):
    monkeypatch.setattr(kills.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["kills", "--kills", "4", "--seed", "5", "--trials", "20"])
    assert kills.main() == 0
    told = json.loads(capsys.readouterr().out)
    assert told["held"]
    assert told["kills"] == 4
