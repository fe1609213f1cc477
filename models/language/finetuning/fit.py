"""Fits what is believed of tuning rates on measured rows: robust maximum a posteriori, and bounds
from rows whose model or GPU was left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from advisor.models.gaussian import conditioned
from advisor.models.language.bounds import Floats
from advisor.models.language.finetuning.belief import NOISE, OF_SOURCES, Belief, Columns, prior_of, size_of
from advisor.models.language.finetuning.tuning import Run

# Student-t weights: wrong rows of public sources do not bend the rest.
_OF_EACH = 20
_DEGREES, _ROUNDS, _CLOSE = 4.0, 20, 1e-2


class Measured(NamedTuple):
    """A run with the tokens a second that each of its GPUs got through."""

    run: Run
    tokens_per_second_per_gpu: float

    @property
    def log_seconds(self) -> float:
        """Log seconds of a token on each GPU."""
        return -float(np.log(self.tokens_per_second_per_gpu))


def fitted(rows: Sequence[Measured]) -> Belief:
    """The belief that rows leave, without what belongs to their sources."""
    runs = [row.run for row in rows]
    measured = np.array([row.log_seconds for row in rows])
    prior = prior_of(runs)
    columns = Columns(runs, prior.names)
    theta, weights = prior.mean, np.ones(len(rows))
    covariance = prior.covariance
    for _ in range(_ROUNDS):
        before = theta
        theta, covariance = conditioned(
            prior.mean, prior.covariance, columns.linearised, measured, NOISE / np.sqrt(weights), start=theta
        )
        left = (measured - columns.linearised(theta)[0]) / NOISE
        weights = (_DEGREES + 1) / (_DEGREES + left**2)
        if float(np.abs(theta - before).max()) < _CLOSE:
            break
    kept = [place for place, name in enumerate(prior.names) if name.partition("/")[0] not in OF_SOURCES]
    names = tuple(prior.names[place] for place in kept)
    return Belief(names, theta[kept], covariance[np.ix_(kept, kept)])


class LeftOut(Struct, frozen=True):
    """Rows predicted by beliefs that never saw their group: log seconds, each (n,)."""

    predicted: Floats
    deviation: Floats
    measured: Floats

    @property
    def errors(self) -> Floats:
        """Relative errors of the rate, without sign."""
        return np.asarray(np.abs(np.exp(self.measured - self.predicted) - 1))

    @property
    def standardised(self) -> Floats:
        """Residuals of log seconds in predicted deviations."""
        return np.asarray((self.measured - self.predicted) / self.deviation)


def left_out(rows: Sequence[Measured], group_of: Callable[[Run], str]) -> LeftOut:
    """Each row predicted by a fit on the rows of all other groups."""
    groups = np.array([group_of(row.run) for row in rows])
    predicted, deviation = np.empty(len(rows)), np.empty(len(rows))
    for group in np.unique(groups).tolist():
        inside = groups == group
        belief = fitted([row for row, out in zip(rows, inside, strict=True) if not out])
        asked = [row.run for row, out in zip(rows, inside, strict=True) if out]
        estimates = belief.estimates(asked)
        predicted[inside] = estimates.mean
        deviation[inside] = np.sqrt(estimates.variance + NOISE**2)
    return LeftOut(predicted, deviation, np.array([row.log_seconds for row in rows]))


def balanced(standardised: Floats, groups: Sequence[str]) -> tuple[float, ...]:
    """Sorted residuals in which every group counts alike, whatever its rows: `_OF_EACH` evenly
    spaced quantiles of each."""
    levels = (np.arange(_OF_EACH) + 0.5) / _OF_EACH
    labels = np.array(groups)
    quantiles = [np.quantile(standardised[labels == one], levels) for one in np.unique(labels)]
    return tuple(np.sort(np.concatenate(quantiles)).tolist())


def model_of(run: Run) -> str:
    """The group of a run's model: its size, so that copies under other names leave with it."""
    return size_of(run.tuning.model)


def gpu_of(run: Run) -> str:
    """The group of a run's GPU."""
    return run.tuning.gpu.name
