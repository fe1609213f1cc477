"""Suite `batch_curve`: step seconds of PROFET's networks over batch, from two or three trials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.accuracy.curves.batch import (
    BatchCell,
    BatchCurves,
    affine_seconds,
    fit_batch_curves,
)
from benchmarks.accuracy.figures import Figures, NothingToScore, SuiteResult, figures

_FILE = Path("perfmodel/profet/profet_training_latency.csv")
_CELL = ["instance_name", "model", "image_px"]
_NEEDED = {*_CELL, "batch_size", "batch_latency_s"}
Rows = list[tuple[str, float, float, float]]


def run(train: Path, score: Path) -> SuiteResult:
    """The scored networks' rows are dropped from the training side, whatever instance."""
    fitted, _ = _cells(train)
    scored, dropped = _cells(score)
    results = {
        "2 trials": _score(fitted, scored, 2, None),
        "3 trials": _score(fitted, scored, 3, None),
        "2 trials at both ends": _score(fitted, scored, 2, "ends"),
    }
    if not results["2 trials"]:
        raise NothingToScore(f"no cell of {score / _FILE} has three batch sizes")
    named = {name: _figures(name, rows, 2) for name, rows in results.items() if rows}
    return SuiteResult(
        suite="batch_curve",
        main=named.pop("2 trials"),
        variants=list(named.values()),
        baselines=[_figures(f"affine, {name}", rows, 3) for name, rows in results.items() if rows],
        skipped=[text for text in [dropped] if text],
    )


def _score(
    fitted: Sequence[BatchCell], scored: Sequence[BatchCell], trials: int, placement: str | None
) -> Rows:
    """Network, true seconds, predicted, affine; one row a batch that was not a trial."""
    rows: Rows = []
    for network in sorted({cell.network for cell in scored}):
        others = [cell for cell in fitted if cell.network != network]
        curves = fit_batch_curves(others, trials, placement=placement)
        for cell in scored:
            if cell.network == network:
                rows.extend(_cell_rows(curves, cell))
    return rows


def _cell_rows(curves: BatchCurves, cell: BatchCell) -> Rows:
    places = curves.places(cell)
    if places is None:
        return []
    # The curve sees the trials and nothing else.
    seconds = np.full(len(cell.batches), np.nan)
    seconds[places] = cell.seconds[places]
    seen = BatchCell(
        network=cell.network, pixels=cell.pixels, batches=cell.batches, seconds=seconds
    )
    predicted, affine = curves.predict(seen, places), affine_seconds(seen, places)
    left = np.setdiff1d(np.arange(len(cell.batches)), places)
    return [(cell.network, cell.seconds[i], predicted[i], affine[i]) for i in left]


def _figures(name: str, rows: Rows, column: int) -> Figures:
    return figures(
        name, [row[column] for row in rows], [row[1] for row in rows], [row[0] for row in rows]
    )


def _cells(folder: Path) -> tuple[list[BatchCell], str]:
    """Median seconds over repeats, and in words which rows were dropped."""
    path = folder / _FILE
    if not path.is_file():
        raise NothingToScore(f"no {path}")
    rows = pd.read_csv(path)
    if not set(rows.columns) >= _NEEDED:
        raise NothingToScore(f"{path} lacks columns {sorted(_NEEDED - set(rows.columns))}")
    numbers = ["image_px", "batch_size", "batch_latency_s"]
    rows[numbers] = rows[numbers].apply(pd.to_numeric, errors="coerce").astype(float)
    usable = (np.isfinite(rows[numbers]) & (rows[numbers] > 0)).all(axis=1)
    usable &= rows[["instance_name", "model"]].notna().all(axis=1)
    kept = rows[usable]
    settings = [*_CELL, *(name for name in ["optimizer"] if name in kept)]
    cells = []
    for key, cell in kept.groupby(settings, dropna=False):
        medians = cell.groupby("batch_size")["batch_latency_s"].median().sort_index()
        cells.append(
            BatchCell(
                network=str(key[1]),
                pixels=float(key[2]),
                batches=medians.index.to_numpy(float),
                seconds=medians.to_numpy(float),
            )
        )
    dropped = int((~usable).sum())
    return cells, f"{dropped} rows without positive numbers or names" if dropped else ""
