"""What suite `gpu_memory` is compared with, computed on the same rows."""

from __future__ import annotations

import numpy as np

from models.performance.memory.rows import StepRows


def baselines(
    known: StepRows, measured: np.ndarray, scored: StepRows, raw: np.ndarray
) -> dict[str, np.ndarray]:
    """Predicted MiB of the scored rows by name; `raw` are their fake peaks."""
    fake = known.sample + known.fixed + known.backward
    line = _relative_least_squares(np.column_stack([np.ones(len(fake)), fake]), measured)
    columns = np.column_stack([np.ones(len(known)), known.sample, known.fixed, known.small])
    lines = _relative_least_squares(columns, measured)
    straight = np.column_stack([np.ones(len(scored)), scored.sample, scored.fixed, scored.small])
    boosted = _boosted(known, np.log(measured / (columns @ lines)))
    return {
        "raw fake tensors": raw,
        "A4's rule: twice the activations": 2 * (scored.sample + scored.fixed),
        "affine in the fake peak": line[0] + line[1] * raw,
        "affine in three parts": straight @ lines,
        "affine in three parts and boosted trees": straight
        @ lines
        * np.exp(boosted.predict(scored.features())),
    }


def _relative_least_squares(columns: np.ndarray, measured: np.ndarray) -> np.ndarray:
    from scipy.optimize import nnls

    solution, _ = nnls(columns / measured[:, None], np.ones(len(measured)))
    return np.asarray(solution)


def _boosted(known: StepRows, log: np.ndarray):  # type: ignore[no-untyped-def]
    from sklearn.ensemble import GradientBoostingRegressor

    trees = GradientBoostingRegressor(
        loss="absolute_error", n_estimators=300, max_depth=3, subsample=0.7, random_state=0
    )
    return trees.fit(known.features(), log)
