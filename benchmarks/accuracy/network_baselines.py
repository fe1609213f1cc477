"""What whole-network numbers reach: the baselines of `network_transfer`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.accuracy.network_prediction import Known
from models.performance.layerwise import OperationTable
from models.performance.networks import Floats

_FEWEST = 8


def whole_network_features(rows: Sequence[Known], table: OperationTable) -> Floats:
    """Logs of batch, FLOPs, bytes a sample, bytes of weights and kernels, shape (n, 5)."""
    features = []
    for known in rows:
        step = table.step(known.key, compiled=known.row.setting.compiled)
        totals = [
            known.row.batch_size,
            step.flops @ step.count,
            step.sample_bytes @ step.count,
            step.fixed_bytes @ step.count,
            step.count.sum(),
        ]
        features.append(np.log(np.maximum(totals, 1.0)))
    return np.array(features)


def linear_seconds(learn: Sequence[Known], rows: Sequence[Known], table: OperationTable) -> Floats:
    """Ridge regression of log seconds on the logs of whole-network numbers."""
    from sklearn.linear_model import Ridge

    return _learnt(Ridge(alpha=1e-3), learn, rows, table)


def forest_seconds(learn: Sequence[Known], rows: Sequence[Known], table: OperationTable) -> Floats:
    """A forest on the same numbers, of the logarithm of samples per second and GFLOP."""
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(60, min_samples_leaf=2, random_state=0)
    return _learnt(forest, learn, rows, table)


def _learnt(
    estimator: object, learn: Sequence[Known], rows: Sequence[Known], table: OperationTable
) -> Floats:
    if len(learn) < _FEWEST:
        return np.full(len(rows), np.nan)
    features, asked = (whole_network_features(known, table) for known in (learn, rows))
    seconds = np.array([known.row.seconds for known in learn])
    # Seconds per FLOP lie closer together than seconds, and trees cannot continue a line.
    work, asked_work = (f[:, 0] + f[:, 1] for f in (features, asked))
    estimator.fit(features, np.log(seconds) - work)  # type: ignore[attr-defined]
    return np.asarray(np.exp(estimator.predict(asked) + asked_work))  # type: ignore[attr-defined]


def ratio_seconds(
    learn: Sequence[tuple[Known, Known]], probes: Sequence[Known], rows: Sequence[Known]
) -> Floats:
    """The probe's seconds a sample times the usual ratio of the two settings."""
    each = np.array([probe.row.seconds / probe.row.batch_size for probe in probes])
    ratios = [
        (row.row.seconds / row.row.batch_size) / (probe.row.seconds / probe.row.batch_size)
        for row, probe in learn
    ]
    usual = float(np.median(ratios)) if ratios else 1.0
    return each * usual * np.array([known.row.batch_size for known in rows])
