"""Suite `profet_new_gpu`: pairs with an instance that --train has not measured.

The instance's GPU is known by its data sheet only. With the same directory twice, one instance is
left out at a time; all rows of the scored network leave the training side as well.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np

from benchmarks.accuracy.data_sheets import instance_sheet, read_family_sheets
from benchmarks.accuracy.figures import NothingToScore, SuiteResult, figures
from benchmarks.accuracy.profet_rows import Rows, read_rows
from models.performance.networks import Floats
from models.performance.transfer.cells import Cells
from models.performance.transfer.new_gpu import SheetTransfer, TaughtPair, fit_sheet_transfer
from models.performance.transfer.sheets import Sheet


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    pair: str
    new: str
    cells: Cells
    true_seconds: Floats
    predicted: Floats
    by_bandwidth: Floats
    by_compute: Floats


def run(train: Path, score: Path) -> SuiteResult:
    """Errors of step seconds by ordered pair of instances."""
    taught, asked, sheets = read_rows(train), read_rows(score), read_family_sheets(train)
    unknown = [name for name in asked.instances if name not in taught.instances]
    new = unknown or (asked.instances if train == score else [])
    skipped = [f"{name}: no data sheet" for name in new if not instance_sheet(sheets, name)]
    scored: list[_Scored] = []
    for name in new:
        if instance_sheet(sheets, name):
            scored += _left_out(taught, asked, sheets, name)
    if not scored:
        raise NothingToScore("no pair with an instance that is not under --train and has a sheet")
    return _result(scored, [*skipped, *taught.notes])


def _left_out(taught: Rows, asked: Rows, sheets: dict[str, Sheet], new: str) -> list[_Scored]:
    sys.stderr.write(f"  {new}\n")
    if new in taught.instances:
        taught = taught.without_instance(new)
    others = [name for name in taught.instances if instance_sheet(sheets, name)]
    scored = []
    for network in asked.networks:
        model = _fit(taught.without_networks([network]), others, sheets)
        if model is None:
            continue
        wanted = asked.of_network(network)
        for other in (name for name in others if name in asked.instances):
            for anchor, target in permutations((new, other)):
                scored += _score(model, wanted, sheets, (anchor, target), new)
    return scored


def _fit(rows: Rows, instances: list[str], sheets: dict[str, Sheet]) -> SheetTransfer | None:
    pairs = [
        TaughtPair(rows.pair(anchor, target), sheets_of)
        for anchor, target in permutations(instances, 2)
        if (sheets_of := _sheets(sheets, anchor, target))
    ]
    pairs = [pair for pair in pairs if pair.usable]
    return fit_sheet_transfer(pairs)


def _sheets(sheets: dict[str, Sheet], anchor: str, target: str) -> tuple[Sheet, Sheet] | None:
    ends = instance_sheet(sheets, anchor), instance_sheet(sheets, target)
    return (ends[0], ends[1]) if ends[0] and ends[1] else None


def _score(
    model: SheetTransfer, wanted: Rows, sheets: dict[str, Sheet], ends: tuple[str, str], new: str
) -> list[_Scored]:
    both = _sheets(sheets, *ends)
    if both is None or not set(ends) <= set(wanted.instances):
        return []
    pair = wanted.pair(*ends)
    if pair.anchor.profiles is None:
        return []
    pair = pair.rows(pair.anchor.profiles.known)
    if not len(pair.anchor):
        return []
    here, there = both
    return [
        _Scored(
            pair=" -> ".join(ends),
            new=new,
            cells=pair.anchor,
            true_seconds=pair.seconds,
            predicted=np.exp(model.predict(pair.anchor, both)),
            by_bandwidth=pair.anchor.seconds
            * (here.memory_gb_per_second / there.memory_gb_per_second),
            by_compute=pair.anchor.seconds * (here.fp32_tflops / there.fp32_tflops),
        )
    ]


def _result(scored: list[_Scored], skipped: list[str]) -> SuiteResult:
    true = np.concatenate([one.true_seconds for one in scored])
    pairs = [one.pair for one in scored for _ in one.true_seconds]
    networks = np.concatenate([one.cells.network for one in scored])
    predicted = np.concatenate([one.predicted for one in scored])
    main = figures("data_sheet", predicted, true, pairs)
    by_network = figures("network", predicted, true, list(networks))
    baselines = [
        figures("bandwidth_ratio", np.concatenate([one.by_bandwidth for one in scored]), true),
        figures("fp32_ratio", np.concatenate([one.by_compute for one in scored]), true),
    ]
    return SuiteResult(
        suite="profet_new_gpu",
        main=main,
        baselines=baselines,
        extra={
            "by_pair": {name: round(value, 2) for name, value in main.groups.items()},
            "by_network": {name: round(value, 2) for name, value in by_network.groups.items()},
        },
        skipped=list(dict.fromkeys(skipped)),
    )
