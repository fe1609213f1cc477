"""Transfers between instances that both occur under --train, one scored network at a time.

All rows of the scored network leave the training side first, whatever the directories are; so the
same directory twice means leave one network out. Suites that need the same runs share them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from pathlib import Path

import numpy as np

from benchmarks.accuracy.data_sheets import instance_sheet, read_family_sheets
from benchmarks.accuracy.figures import NothingToScore
from benchmarks.accuracy.profet_rows import Rows, read_rows
from models.performance.networks import Floats
from models.performance.transfer.across_gpus import TrainingPair, fit_across_gpus
from models.performance.transfer.cells import Cells
from models.performance.transfer.conformal import HeldOut, hold_out
from models.performance.transfer.regression import Transferred


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One scored network from one anchor to one target; `pair` is what was trained on."""

    anchor: str
    target: str
    network: str
    cells: Cells
    true_seconds: Floats
    answer: Transferred
    held_out: HeldOut | None
    pair: TrainingPair

    @property
    def pair_name(self) -> str:
        """'g4dn.xlarge -> p3.2xlarge'."""
        return f"{self.anchor} -> {self.target}"


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs, and what could not be run, in words."""

    runs: tuple[Run, ...]
    skipped: tuple[str, ...]


@lru_cache(maxsize=4)
def transfer_runs(train: Path, score: Path, *, profiled: bool) -> Runs:
    """Runs of all ordered pairs and scored networks; with profiles also their held-out rows."""
    taught, scored = read_rows(train), read_rows(score)
    sheets = read_family_sheets(train)
    runs, skipped = [], [*taught.notes, *(scored.notes if score != train else ())]
    known = [name for name in scored.instances if name in taught.instances]
    new = [name for name in scored.instances if name not in known]
    skipped += [f"{name}: not under --train (see profet_new_gpu)" for name in new]
    for network in scored.networks:
        rest, wanted = taught.without_networks([network]), scored.of_network(network)
        sys.stderr.write(f"  {network}\n")
        for anchor, target in permutations(known, 2):
            ends = instance_sheet(sheets, anchor), instance_sheet(sheets, target)
            pair = rest.pair(anchor, target, (ends[0], ends[1]) if ends[0] and ends[1] else None)
            run = _run(pair, wanted, (anchor, target, network), profiled)
            if isinstance(run, str):
                skipped.append(run)
            elif run is not None:
                runs.append(run)
    if not runs:
        raise NothingToScore("no network was measured on two instances that --train knows")
    return Runs(tuple(runs), tuple(dict.fromkeys(skipped)))


def _run(
    pair: TrainingPair, wanted: Rows, names: tuple[str, str, str], profiled: bool
) -> Run | str | None:
    anchor, target, network = names
    asked = wanted.pair(anchor, target)
    if profiled:
        if asked.anchor.profiles is None or pair.anchor.profiles is None:
            return f"{anchor} as anchor with profile: no profiles of its operations"
        asked = asked.rows(asked.anchor.profiles.known)
    else:
        asked, pair = asked.without_profiles(), pair.without_profiles()
    if not len(asked.anchor):
        return None
    try:
        model = fit_across_gpus(pair)
        held_out = hold_out(model) if profiled else None
    except ValueError as reason:
        return f"{network}, {anchor} -> {target}: {reason}"
    return Run(
        anchor=anchor,
        target=target,
        network=network,
        cells=asked.anchor,
        true_seconds=asked.seconds,
        answer=model.predict(asked.anchor),
        held_out=held_out,
        pair=pair,
    )


def by_pair(runs: tuple[Run, ...]) -> Iterator[tuple[str, list[Run]]]:
    """Runs of each ordered pair of instances."""
    for name in sorted({run.pair_name for run in runs}):
        yield name, [run for run in runs if run.pair_name == name]


def joined_rows(runs: tuple[Run, ...], values: list[Floats]) -> tuple[Floats, Floats, list[str]]:
    """Given values, true seconds and pair names of all rows, one below the other."""
    names = [run.pair_name for run in runs for _ in run.true_seconds]
    return np.concatenate(values), np.concatenate([run.true_seconds for run in runs]), names
