"""Repeats of a trial: their order, and how they come together in the trial's one row."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest

from msgspec.structs import replace

from advisor.domain import Measurement, Status, Trial
from advisor.sweeps.formats.serialization import run_facts


def wanted_runs(trial: Trial) -> int:
    """The number of runs that the trial is to have."""
    return int(trial.plan.get("repeats", 1))


def rounds(
    trials: Sequence[Trial], done: Mapping[str, int], runs_of: Callable[[Trial], int] = wanted_runs
) -> list[list[Trial]]:
    """The runs that are left to measure, in rounds: each trial at most once in each. `done` has the runs
    that stay, by trial_id.

    Between two runs of a trial lie all the others, in another random order every round (always
    the same ones), so that a slow drift of the machine shows as a spread of repeats.
    """
    named = [(trial, trial.trial_id) for trial in trials]
    left = {name: runs_of(trial) - done.get(name, 0) for trial, name in named}
    number, all_rounds = 0, []
    while chosen := [(trial, name) for trial, name in named if left[name] > 0]:
        for _, name in chosen:
            left[name] -= 1
        if number:
            random.Random(number).shuffle(chosen)
        all_rounds.append([trial for trial, _ in chosen])
        number += 1
    return all_rounds


def runs_made(row: Measurement) -> int:
    """The good runs of a trial's row, those on another CPU among them."""
    return 1 + len(row.repeats) + len([run for run in row.attempts if run["status"] == Status.OK.value])


def merged(row: Measurement | None, fresh: Measurement) -> Measurement:
    """The trial's row after a further run: good runs count, others are kept as attempts. So is a
    good one on another CPU than the first one's: their spread would be that of two machines."""
    if row is None:
        return fresh
    if fresh.status is not Status.OK or (row.status is Status.OK and _cpu(row) != _cpu(fresh)):
        return replace(row, attempts=(*row.attempts, *fresh.attempts, run_facts(fresh)))
    if row.status is not Status.OK:
        return replace(fresh, attempts=(*row.attempts, run_facts(row), *fresh.attempts))
    return replace(row, repeats=(*row.repeats, run_facts(fresh)), attempts=(*row.attempts, *fresh.attempts))


def _cpu(row: Measurement) -> str:
    return str(row.environment.get("cpu_model", ""))


def by_turns(trials: Sequence[Trial]) -> list[Trial]:
    """One trial of each accelerator after the other, so that nodes of every kind are asked for, and
    have work, from the beginning."""
    queues = defaultdict(list)
    for trial in trials:
        queues[trial.accelerator].append(trial)
    return [trial for turn in zip_longest(*queues.values()) for trial in turn if trial]


def in_order(all_rounds: Sequence[Sequence[Trial]]) -> Iterator[Trial]:
    """The trials of all rounds, one after the other."""
    for round_ in all_rounds:
        yield from round_
