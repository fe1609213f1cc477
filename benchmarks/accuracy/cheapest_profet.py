"""The cheapest of the PROFET instances, from a workload measured on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.aws_prices import on_demand_prices
from benchmarks.accuracy.cheapest_questions import Asked, Workloads, answers
from benchmarks.accuracy.figures import NothingToScore
from benchmarks.accuracy.transfer_runs import Run, transfer_runs
from models.performance.networks import Floats
from models.performance.transfer.cells import Cells

# By key of a workload: log rate predicted, deviation, log rate true.
Table = dict[str, tuple[float, float, float]]


def profet_answers(train: Path, score: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Percentages by anchor and policy, and what was left out."""
    done = transfer_runs(train, score, profiled=True)
    prices = on_demand_prices(train)
    names = sorted({run.anchor for run in done.runs} | {run.target for run in done.runs})
    priced = sorted((name for name in names if name in prices), key=lambda name: prices[name])
    if len(priced) < 2:
        raise NothingToScore("fewer than two PROFET instances have a price under --train")
    skipped = [f"{name}: no price in the catalogue" for name in names if name not in prices]
    by_anchor = {}
    for anchor in priced:
        asked = [
            _asked(runs, anchor, priced, prices) for runs in _by_network(done.runs, anchor, priced)
        ]
        if asked:
            by_anchor[anchor] = answers(asked)
    return by_anchor, [*skipped, *done.skipped]


def _by_network(runs: Sequence[Run], anchor: str, priced: list[str]) -> list[list[Run]]:
    mine = [run for run in runs if run.anchor == anchor and run.target in priced]
    return [[r for r in mine if r.network == name] for name in sorted({r.network for r in mine})]


def _asked(runs: list[Run], anchor: str, priced: list[str], prices: dict[str, float]) -> Asked:
    usd = np.array([prices[name] for name in priced])
    scored = _workloads({r.target: _scored(r) for r in runs}, _anchor(runs), anchor, priced, usd)
    held = {r.target: _held_out(r) for r in runs if r.held_out is not None}
    if len(held) < len(runs):
        return scored, None
    taught = _workloads(held, _held_out_anchor(runs), anchor, priced, usd)
    return scored, taught


def _workloads(
    tables: dict[str, Table], measured: Table, anchor: str, priced: list[str], usd: Floats
) -> Workloads:
    keys = sorted(measured)
    columns = {**tables, anchor: measured}
    nothing = (np.nan, np.nan, np.nan)
    values = np.array(
        [[columns.get(name, {}).get(key, nothing) for name in priced] for key in keys]
    )
    return Workloads(
        predicted=values[..., 0],
        deviations=values[..., 1],
        true=values[..., 2],
        usd_per_hour=usd,
    )


def _scored(run: Run) -> Table:
    work = np.log(run.cells.batch)
    held_out = run.held_out
    deviations = run.answer.spread if held_out is None else held_out.deviations(run.answer.doubt)
    return _table(
        run.cells, work - run.answer.log_seconds, deviations, work - np.log(run.true_seconds)
    )


def _held_out(run: Run) -> Table:
    held_out = run.held_out
    if held_out is None:
        return {}
    true = np.log(held_out.cells.batch) - np.log(held_out.seconds)
    deviations = held_out.deviations(held_out.doubt)
    return _table(held_out.cells, true + held_out.residuals, deviations, true)


def _anchor(runs: list[Run]) -> Table:
    return _measured([run.cells for run in runs])


def _held_out_anchor(runs: list[Run]) -> Table:
    return _measured([run.held_out.cells for run in runs if run.held_out is not None])


def _measured(parts: list[Cells]) -> Table:
    table: Table = {}
    for cells in parts:
        rates = np.log(cells.batch) - np.log(cells.seconds)
        table.update(_table(cells, rates, np.zeros(len(cells)), rates))
    return table


def _table(cells: Cells, predicted: Floats, deviations: Floats, true: Floats) -> Table:
    keys = [
        f"{network}/{px:g}/{batch:g}"
        for network, px, batch in zip(cells.network, cells.image_px, cells.batch, strict=True)
    ]
    return dict(zip(keys, zip(predicted, deviations, true, strict=True), strict=True))
