"""The likeliest parameters of what ships, and what rows say of others that were held out.

fit         least |W (y - f(theta))|^2 + |(theta - prior) / sigma|^2,  W of a Student t, damped
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.models.bayes import Floats, Gaussian, Prior

Rows = NDArray[np.bool_]
# The longest step of a parameter in a search.
_LONGEST = 1.0


class Form(Protocol):
    """The rows of a fit as functions of its parameters."""

    def log_seconds(self, theta: Floats) -> Floats:
        """Log seconds (n,) for parameters (p,)."""

    def linearised(self, theta: Floats) -> tuple[Floats, Floats]:
        """Log seconds (n,), and their slopes (n, p)."""


class Noise(Protocol):
    """The scatter of the rows of a fit about the form, and how much each counts."""

    def whitened(self, columns: Floats) -> Floats:
        """Columns (n, m) of the rows with unit covariance."""

    def learn(self, residuals: Floats) -> None:
        """Weigh the rows anew, by residuals (n,)."""


class Search(NamedTuple):
    """A damped search that ends at gains below `close`; a step without gain is damped `more` times."""

    steps: int
    close: float
    damping: float
    least_damping: float
    most_damping: float
    more: float


class Maximum(NamedTuple):
    """The likeliest parameters (p,), residuals (n,), and precision (p, p) at the last step."""

    theta: Floats
    residuals: Floats
    precision: Floats


def most_likely(
    priors: Sequence[Prior], form: Form, log_measured: Floats, noise: Noise, start: Floats, search: Search
) -> Maximum:
    """The maximum a posteriori by damped Gauss-Newton steps; `noise` learns after each."""
    prior = np.array([entry.mean for entry in priors])
    spread = np.array([entry.sigma for entry in priors])

    def misfit(white: Floats, theta: Floats) -> float:
        return float((white**2).sum() + (((theta - prior) / spread) ** 2).sum())

    theta, damping = start, search.damping
    residuals, precision = log_measured, np.diag(spread**-2.0)
    for _ in range(search.steps):
        mean, slopes = form.linearised(theta)
        white = noise.whitened(np.column_stack([log_measured - mean, slopes]))
        gradient = white[:, 1:].T @ white[:, 0] - (theta - prior) / spread**2
        precision = white[:, 1:].T @ white[:, 1:] + np.diag(spread**-2.0)
        before = misfit(white[:, 0], theta)
        while True:
            step = np.linalg.solve(precision + damping * np.diag(np.diag(precision)), gradient)
            after = theta + np.clip(step, -_LONGEST, _LONGEST)
            residuals = log_measured - form.log_seconds(after)
            now = misfit(noise.whitened(residuals[:, None])[:, 0], after)
            if now <= before or damping > search.most_damping:
                break
            damping *= search.more
        damping = max(damping / 5, search.least_damping)
        theta = after
        noise.learn(residuals)
        if before - now < search.close * before:
            break
    return Maximum(theta, residuals, precision)


def held_out(groups: Sequence[str] | NDArray[Any], told_without: Callable[[Rows], Any]) -> Floats:
    """Values of each row (n, ..) as `told_without` the rows of its own group (a mask) has them."""
    labels = np.asarray(groups)
    result: Floats | None = None
    for label in np.unique(labels):
        out = labels == label
        values = np.asarray(told_without(out), dtype=float)
        if result is None:
            result = np.empty((len(labels), *values.shape[1:]))
        result[out] = values
    return np.zeros(0) if result is None else result


def kept(whole: Gaussian, chosen: Callable[[str], bool]) -> Gaussian:
    """The Gaussian of the named parameters, with the others integrated out."""
    rows = [row for row, name in enumerate(whole.names) if chosen(name)]
    names = tuple(whole.names[row] for row in rows)
    return Gaussian(names, whole.mean[rows], whole.covariance[np.ix_(rows, rows)])
