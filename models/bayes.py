"""One Gaussian over named parameters, what measured rows make of it, and how wide bounds are.

    y = f(theta) + noise,  theta ~ N(mean, C),  S = df/dtheta

    condition   theta = mean + C S' (S C S' + N)^-1 (y - f - S (mean - theta)),  repeated
    bound       the ceil((n + 1) c)-th smallest residual of n rows that the prediction was not fitted on

Step times of GPUs and CPUs, serving and tuning each have an `f`; all else is here. A residual is
log(observed / predicted). Bounds are split conformal quantiles (Vovk et al.), so n residuals carry
confidences up to n / (n + 1): nine are the fewest for 90 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Means (n,) at parameters (p,), and slopes (n, p).
Linearised = Callable[[Floats], tuple[Floats, Floats]]

# Log parameters that move less than this between two updates stand still.
_STILL = 1e-3
# Degrees of freedom of the Student t that keeps wrong rows from bending the rest.
_DEGREES = 4.0
# Who asks has a host and a way of timing of their own, which only their own rows tell.
UNNAMED = "unnamed"
# Residuals of the smallest group that bounds may stand on.
FEWEST = 9


class Bounds(NamedTuple):
    """Lower bound, median and upper bound of the same number, one of each for every row (n,)."""

    lower: Floats
    median: Floats
    upper: Floats


class Prior(Struct, frozen=True):
    """The Gaussian prior of a parameter."""

    mean: float
    sigma: float


NOTHING = Prior(0.0, 1e-6)


class Parameters:
    """Names of parameters with their priors, in the order in which they were first needed."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}
        self.priors: list[Prior] = []
        self.of("nothing", NOTHING)

    def of(self, name: str, prior: Prior) -> int:
        """The index of the parameter; a new one takes its prior."""
        if name not in self.place:
            self.place[name] = len(self.priors)
            self.priors.append(prior)
        return self.place[name]

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order."""
        return tuple(self.place)

    def values(self, names: Sequence[str], mean: Floats) -> Floats:
        """Each parameter's value where `names` (p,) have it with `mean` (p,), else its prior's."""
        existing = dict(zip(names, mean.tolist(), strict=True))
        priors = zip(self.names, self.priors, strict=True)
        return np.array([existing.get(name, prior.mean) for name, prior in priors])


class Gaussian(Struct, frozen=True):
    """Means (p,) and covariance (p, p) of named parameters."""

    names: tuple[str, ...]
    mean: Floats
    covariance: Floats

    def parameters(self) -> Parameters:
        """Indices of these parameters; what a question needs beside them follows."""
        parameters = Parameters()
        parameters.place = {name: index for index, name in enumerate(self.names)}
        parameters.priors = [NOTHING] * len(self.names)
        return parameters

    def extended(self, parameters: Parameters) -> Gaussian:
        """With the priors of parameters that these `parameters` have beyond the Gaussian's own."""
        known = len(self.names)
        return joined([self, believed(parameters.names[known:], parameters.priors[known:])])

    def updated(
        self,
        linearised: Linearised,
        measured: Floats,
        sigma: Floats,
        *,
        start: Floats | None = None,
        most_updates: int = 3,
    ) -> Gaussian:
        """Once n values are `measured` (n,) with standard errors `sigma` (n,).

        A Gauss-Newton update from `start` (p,), else from the mean, repeated since predictions bend with
        their parameters."""
        theta, white = self.mean if start is None else start, np.zeros((0, len(self.mean)))
        for _ in range(most_updates):
            predicted, slopes = linearised(theta)
            root, white = _whitened(self.covariance, slopes, sigma)
            left = measured - predicted - slopes @ (self.mean - theta)
            after = self.mean + white.T @ np.linalg.solve(root, left)
            moved = float(np.abs(after - theta).max(initial=0.0))
            theta = after
            if moved < _STILL:
                break
        return Gaussian(self.names, theta, self.covariance - white.T @ white)

    def updated_robustly(
        self,
        linearised: Linearised,
        measured: Floats,
        sigma: Floats,
        *,
        rounds: int,
        most_weight: float = math.inf,
        most_updates: int = 3,
    ) -> Gaussian:
        """Updated in rounds that each weigh rows by how far the last one left them off."""
        after: Gaussian = self
        weights = np.ones(len(measured))
        for _ in range(rounds):
            after = self.updated(linearised, measured, sigma / np.sqrt(weights), most_updates=most_updates)
            weights = student_weights((measured - linearised(after.mean)[0]) / sigma, most_weight)
        return after


def believed(names: Sequence[str], priors: Sequence[Prior]) -> Gaussian:
    """The Gaussian of independent parameters with these priors."""
    sigmas = np.array([prior.sigma for prior in priors])
    return Gaussian(tuple(names), np.array([prior.mean for prior in priors]), np.diag(np.square(sigmas)))


def joined(parts: Sequence[Gaussian]) -> Gaussian:
    """One Gaussian made of independent ones."""
    size = sum(len(part.names) for part in parts)
    covariance, first = np.zeros((size, size)), 0
    for part in parts:
        end = first + len(part.names)
        covariance[first:end, first:end] = part.covariance
        first = end
    names = tuple(name for part in parts for name in part.names)
    return Gaussian(names, np.concatenate([part.mean for part in parts]), covariance)


def variances(rows: Floats, covariance: Floats) -> Floats:
    """Variance of each row's weighted sum (n,), for weights (n, p)."""
    result: Floats = ((rows @ covariance) * rows).sum(axis=1)
    return result


def _whitened(covariance: Floats, slopes: Floats, sigma: Floats) -> tuple[Floats, Floats]:
    """The root of the covariance that the rows are expected to have, (n, n), and the parts of the
    parameters that each whitened row tells, (n, p): a rank-n update."""
    used = np.flatnonzero(slopes.any(axis=0))
    reach = slopes[:, used] @ covariance[used]
    expected = reach[:, used] @ slopes[:, used].T + np.diag(np.square(sigma))
    root: Any = np.linalg.cholesky(expected)
    return np.asarray(root, dtype=float), np.asarray(np.linalg.solve(root, reach), dtype=float)


def student_weights(standardised: Floats, most: float = math.inf) -> Floats:
    """Weights of rows under a Student t, given residuals in standard deviations (n,)."""
    return np.minimum((_DEGREES + 1) / (_DEGREES + standardised**2), most)


class HalfWidths(NamedTuple):
    """Distances in log rate from the prediction down to `lower` and up to `upper`.

    `calibrated` is False where no group has enough residuals for the confidence; the widths then are the
    extremes seen, widened as a Gaussian's would be."""

    lower: float
    upper: float
    calibrated: bool


def half_widths(
    residuals: Mapping[str, Sequence[float]], groups: Sequence[str], confidence: float
) -> HalfWidths:
    """Bounds from the first of `groups`, nearest first, that is large enough.

    `residuals` are sorted lists by group. A bound never lies on the wrong side of the prediction: a group's
    bias widens the far side and does not narrow the near one."""
    enough = max(FEWEST, math.ceil(confidence / (1 - confidence) - 1e-9))
    for group in groups:
        values = residuals.get(group, ())
        if len(values) >= enough:
            rank = math.ceil((len(values) + 1) * confidence - 1e-9) - 1
            return HalfWidths(max(0.0, -values[-1 - rank]), max(0.0, values[rank]), True)
    return _beyond(max((residuals.get(group, ()) for group in groups), key=len), confidence)


def multipliers(standardised: Sequence[float], confidence: float) -> HalfWidths:
    """Bounds in predicted standard deviations of log *seconds*, from sorted residuals in that unit.

    Too few of them for the confidence: half as wide again as a Gaussian's."""
    rank = math.ceil((len(standardised) + 1) * confidence - 1e-9) - 1
    if rank >= len(standardised):
        width = 1.5 * gaussian_multiplier(confidence)
        return HalfWidths(width, width, False)
    # The upper ones are of rates that were lower than predicted.
    lower, upper = standardised[rank], -standardised[-1 - rank]
    return HalfWidths(max(0.0, lower), max(0.0, upper), True)


@lru_cache(maxsize=64)
def gaussian_multiplier(confidence: float) -> float:
    """The one-sided standard normal quantile, for errors that no residuals describe.

    Newton's method on the error function: `statistics.NormalDist` says the same, and takes 4 ms to import
    while somebody waits."""
    z = 0.0
    for _ in range(60):
        excess = 0.5 * (1 + math.erf(z / math.sqrt(2))) - confidence
        step = excess * math.sqrt(2 * math.pi) * math.exp(z * z / 2)
        z -= max(-0.5, min(0.5, step))
        if abs(step) < 1e-12:
            break
    return z


def _beyond(values: Sequence[float], confidence: float) -> HalfWidths:
    """A guess where calibration ends: the spread seen, scaled to the confidence."""
    if len(values) < 2:
        return HalfWidths(math.inf, math.inf, False)
    spread = math.sqrt(sum(value * value for value in values) / len(values))
    width = max(gaussian_multiplier(confidence) * spread, max(map(abs, values)))
    return HalfWidths(width, width, False)
