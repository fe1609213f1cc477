"""How well fits predict measurements that they have not seen: for choosing between two of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.domain import Measurement
from models.performance.fit_pipeline import FOLDS, fit_pipeline, log_residuals, trials_of
from models.performance.intervals import half_widths
from models.performance.networks import Floats, NetworkTable
from models.performance.pipeline import ALL_TRIALS, Pipeline, ReferenceCpu


def residuals_of(
    pipeline: Pipeline, measurements: Sequence[Measurement], networks: NetworkTable
) -> Floats:
    """log(observed / predicted) of usable measurements (see `usable.sort_out`), shape (n,)."""
    return log_residuals(trials_of(measurements, networks), pipeline, networks)


def unseen_residuals(
    fitted_on: Sequence[Measurement],
    scored: Sequence[Measurement],
    networks: NetworkTable,
    reference: ReferenceCpu,
    *,
    remainder: bool,
) -> Floats:
    """log(observed / predicted) of each `scored` measurement, shape (n,), under a fit on those
    `fitted_on` that are of other trials: a measurement of the same trial on another day tells as
    much as the measurement itself.

    Trials are dealt to the same folds whatever was fitted on, so that two fits are scored alike.
    All measurements are usable ones.
    """
    names = [row.trial.trial_id for row in scored]
    trials = sorted(set(names))
    deal = np.random.default_rng(0).permutation(len(trials)) % FOLDS
    fold_of = dict(zip(trials, deal.tolist(), strict=True))
    residuals = np.empty(len(scored))
    for fold in set(fold_of.values()):
        held = {name for name, number in fold_of.items() if number == fold}
        rest = [row for row in fitted_on if row.trial.trial_id not in held]
        places = [place for place, name in enumerate(names) if name in held]
        pipeline = fit_pipeline(trials_of(rest, networks), networks, reference, remainder=remainder)
        residuals[places] = residuals_of(pipeline, [scored[one] for one in places], networks)
    return residuals


def outside_interval(residuals: Floats, pipeline: Pipeline, confidence: float) -> int:
    """How many of these log(observed / predicted) lie outside of the model's interval; by chance
    2 (1 - `confidence`) of them do."""
    widths = half_widths(pipeline.residuals, (ALL_TRIALS,), confidence)
    return int(np.sum((residuals < -widths.lower) | (residuals > widths.upper)))
