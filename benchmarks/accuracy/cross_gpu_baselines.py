"""What others do to go from one GPU to another, fitted on the same rows."""

from __future__ import annotations

import numpy as np

from benchmarks.accuracy.transfer_runs import Run
from models.performance.networks import Floats
from models.performance.transfer.cells import Cells

_TREES, _SEED = 60, 1


def baseline_seconds(run: Run) -> dict[str, Floats]:
    """Predicted seconds by baseline: one ratio, a forest, PROFET's median of learners."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import LinearRegression

    taught, asked = _inputs(run.pair.anchor), _inputs(run.cells)
    known = np.isfinite(taught).all(axis=1)
    taught, seconds = taught[known], run.pair.seconds[known]
    anchor_seconds = run.pair.anchor.seconds[known]
    ratio = float(np.median(seconds / anchor_seconds))
    forest = RandomForestRegressor(_TREES, random_state=_SEED).fit(taught, seconds).predict(asked)
    linear = LinearRegression().fit(taught, seconds).predict(asked)
    curve = np.polynomial.Polynomial.fit(anchor_seconds, seconds, 2)(run.cells.seconds)
    logs = RandomForestRegressor(_TREES, random_state=_SEED)
    logs.fit(taught, np.log(seconds / anchor_seconds))
    return {
        "one_ratio": ratio * run.cells.seconds,
        "random_forest": forest,
        "profet_style_median": np.median([forest, linear, curve], axis=0),
        "log_ratio_forest": run.cells.seconds * np.exp(logs.predict(asked)),
    }


def _inputs(cells: Cells) -> Floats:
    columns = [cells.seconds, cells.batch, cells.image_px]
    if cells.profiles is not None:
        columns += [*cells.profiles.operations.T, cells.profiles.idle]
    return np.column_stack(columns)
