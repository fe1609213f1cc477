"""Beliefs about the rates of all cells of a sweep, after some of them were measured.

Log rates are a Gaussian process: the physical form, linear around its likeliest parameters, plus a smooth
misfit that physics does not explain, and that neighbouring cells share. The trials chosen, even the first
ones, are those that reduce the uncertainty most; a trial that is not worth its cost is not run. See
internals/search.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.models.bayes import Floats
from advisor.models.performance.physical_form import PhysicalForm, Trials
from advisor.models.performance.usable import FEWEST_TRIALS


def matern52(left: Floats, right: Floats, lengths: Floats | float) -> Floats:
    """Correlations (n, m); Rasmussen and Williams, Gaussian Processes, equation 4.17."""
    far = scaled_distance(((left[:, None, :] - right[None, :, :]) / lengths) ** 2)
    correlations: Floats = (1 + far + far**2 / 3) * np.exp(-far)
    return correlations


def scaled_distance(squares: Floats) -> Floats:
    """Distances (n, m) of squared differences (n, m, d), as the Matern kernel takes them."""
    far: Floats = np.sqrt(5.0 * squares.sum(axis=-1))
    return far


# Log standard deviation of a trial repeated on a quiet machine (1 to 3 %: docs/how-to/sweeps.md).
USUAL_NOISE = 0.03
# Misfits of the physical form that are tried; the likeliest one is taken. None below 3 %: a dozen
# trials cannot prove physics exact.
_MISFITS = (0.03, 0.06, 0.12, 0.24)
_LENGTH = 0.7


class Surface(Struct, frozen=True):
    """All rows that a question is about or that may be measured, and the form that describes them.

    `places` (n, d) are the coordinates of the `trials` (n rows) for the misfit."""

    trials: Trials
    form: PhysicalForm
    places: Floats

    @classmethod
    def of(cls, trials: Trials) -> Surface:
        """The surface over the trials' workloads and resources."""
        return cls(trials, PhysicalForm.of(trials), _places(trials))


class Belief(Struct, frozen=True):
    """Log rates: prior `mean` (n,), `slopes` (n, p) of unit-normal parameters, `misfit` (a log
    standard deviation) over `places`, and what was measured `at` rows with variances `noise`."""

    mean: Floats
    slopes: Floats
    misfit: float
    places: Floats
    at: tuple[int, ...] = ()
    log_rates: Floats = field(default_factory=lambda: np.empty(0))
    noise: Floats = field(default_factory=lambda: np.empty(0))

    @classmethod
    def before(cls, surface: Surface) -> Belief:
        """The belief before anything is measured."""
        form, trials = surface.form, surface.trials
        units = np.zeros(len(form.names))
        return cls(form.log_rates(trials, units), form.slopes(trials, units), _MISFITS[1], surface.places)

    @classmethod
    def after(cls, surface: Surface, cells: Sequence[int], log_rates: Floats, noise: Floats) -> Belief:
        """The belief given measured rows `cells`; `noise` are the variances of their `log_rates`."""
        if not cells:
            return cls.before(surface)
        form, trials = surface.form, surface.trials
        units = form.fitted(trials.take(cells), log_rates)
        slopes = form.slopes(trials, units)
        mean = form.log_rates(trials, units) - slopes @ units
        beliefs = [
            cls(mean, slopes, misfit, surface.places, tuple(cells), log_rates, noise) for misfit in _MISFITS
        ]
        return max(beliefs, key=lambda belief: belief.log_likelihood())

    def covariance(self, rows: Sequence[int], others: Sequence[int]) -> Floats:
        """Posterior covariances (r, o) of log rates."""
        prior = self._prior(rows, others)
        if not self.at:
            return prior
        left, right = self._white(rows), self._white(others)
        posterior: Floats = prior - left.T @ right
        return posterior

    def variances(self, rows: Sequence[int]) -> Floats:
        """Posterior variances (r,) of log rates."""
        slopes = self.slopes[list(rows)]
        prior = np.sum(slopes**2, axis=1) + self.misfit**2
        explained = np.sum(self._white(rows) ** 2, axis=0) if self.at else 0.0
        variances: Floats = np.maximum(prior - explained, 1e-12)
        return variances

    def means(self, rows: Sequence[int]) -> Floats:
        """Posterior means (r,) of log rates."""
        if not self.at:
            return self.mean[list(rows)]
        lower = self._lower()
        answer = np.linalg.solve(lower, self.log_rates - self.mean[list(self.at)])
        means: Floats = self.mean[list(rows)] + self._white(rows).T @ answer
        return means

    def log_likelihood(self) -> float:
        """Log likelihood of the measurements under this misfit."""
        lower = self._lower()
        white = np.linalg.solve(lower, self.log_rates - self.mean[list(self.at)])
        return float(-0.5 * white @ white - np.log(np.diag(lower)).sum())

    def _prior(self, rows: Sequence[int], others: Sequence[int]) -> Floats:
        entry, other = list(rows), list(others)
        near = matern52(self.places[entry], self.places[other], _LENGTH)
        prior: Floats = self.slopes[entry] @ self.slopes[other].T + self.misfit**2 * near
        return prior

    def _lower(self) -> Floats:
        lower = np.linalg.cholesky(self._prior(self.at, self.at) + np.diag(self.noise))
        return np.asarray(lower, dtype=float)

    def _white(self, rows: Sequence[int]) -> Floats:
        return np.asarray(np.linalg.solve(self._lower(), self._prior(self.at, rows)), dtype=float)


def _places(trials: Trials) -> Floats:
    """Coordinates (n, d) in which cells one apart have little in common: log batch, log vCPUs,
    cached share, log disk rate (scaled to 0..1), and one column a network and task."""
    columns = trials.columns
    disk = np.minimum(columns.disk_bytes_per_second / columns.stored_bytes, 1e5)
    numbers = [np.log(columns.batch_size), np.log(columns.vcpus), columns.cached_share, np.log(disk)]
    scaled = [(number - number.min()) / (np.ptp(number) or 1.0) for number in numbers]
    kinds = sorted({*zip(trials.cells, columns.on_cpu.tolist(), strict=True)})
    cells = list(zip(trials.cells, columns.on_cpu.tolist(), strict=True))
    named = [np.array([cell == kind for cell in cells], dtype=float) for kind in kinds]
    return np.column_stack([*scaled, *named])


_DRAWS = 400
_CONFIDENCE = 0.9
# The regret of a choice that misses its target: all of its price.
_MISSED = 1.0


class Question(Struct, frozen=True):
    """The rows (r) that a question is about. With a target: `usd_per_hour` (r,) of each row, and `groups`
    (r,), each of which is a network and task whose cheapest row is wanted."""

    rows: tuple[int, ...]
    target: float | None = None
    usd_per_hour: Floats | None = None
    groups: tuple[str, ...] = ()

    def doubt(self, belief: Belief) -> float:
        """The expected price regret as a share of the price; without a target, the expected error."""
        if self.target is None:
            deviations = np.sqrt(belief.variances(self.rows))
            return float(np.sqrt(2 / np.pi) * deviations.mean())
        return float(np.mean([_regret(*entry) for entry in self._drawn(belief)]))

    def weights(self, belief: Belief) -> Floats:
        """The weight of each row's variance (r,): equal without a target; with one, p (1 - p), where p is the
        chance that the row reaches it, and 0 for rows too expensive to be chosen."""
        if self.target is None:
            return np.ones(len(self.rows))
        weights = np.zeros(len(self.rows))
        for members, (reaches, prices) in zip(self._members(), self._drawn(belief), strict=True):
            chance = reaches.mean(axis=0)
            sure = prices[chance >= _CONFIDENCE]
            dearest = sure.min() if len(sure) else np.inf
            weights[members] = np.where(prices <= dearest, chance * (1 - chance), 0.0)
        return weights

    def _members(self) -> list[np.typing.NDArray[np.intp]]:
        groups = np.array(self.groups)
        return [np.flatnonzero(groups == name) for name in sorted(set(self.groups))]

    def _drawn(self, belief: Belief) -> list[tuple[np.typing.NDArray[np.bool_], Floats]]:
        """For each group, whether its rows reach the target (draws, m), and their prices (m,)."""
        assert self.target is not None
        assert self.usd_per_hour is not None
        result = []
        for members in self._members():
            rows = [self.rows[member] for member in members]
            drawn = _draws(belief, rows)
            result.append((drawn >= np.log(self.target), self.usd_per_hour[members]))
        return result


def _draws(belief: Belief, rows: Sequence[int]) -> Floats:
    """Log rates (draws, m), the same at every call."""
    covariance = belief.covariance(rows, rows)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = np.random.default_rng(0).standard_normal((_DRAWS, len(rows)))
    draws: Floats = belief.means(rows) + normal @ root.T
    return draws


def _regret(reaches: np.typing.NDArray[np.bool_], prices: Floats) -> float:
    """The expected extra cost, as a share, of today's choice over the cheapest row that is fast enough."""
    chance = reaches.mean(axis=0)
    sure = np.flatnonzero(chance >= _CONFIDENCE)
    chosen = sure[np.argmin(prices[sure])] if len(sure) else int(np.argmax(chance))
    cheapest = np.where(reaches, prices, np.inf).min(axis=1)
    possible = np.isfinite(cheapest)
    if not possible.any():
        return 0.0
    over = np.where(reaches[:, chosen], prices[chosen] / cheapest - 1, _MISSED)
    return float(np.where(possible, over, 0.0).mean())


# Measuring stops at this expected error of the surface, or at this expected regret of the choice.
ENOUGH_SURFACE, ENOUGH_REGRET = 0.03, 0.01
# The share of the remaining variance that a further trial must remove.
_WORTH_A_TRIAL = 0.002
# A repeat is considered where a cell's own noise exceeds this share of the model's doubt.
_NOISY = 0.5
_MOST_CANDIDATES = 1000


class Choice(Struct, frozen=True):
    """Rows to measure next, or why there are none; `doubt` is that of the question, as a share."""

    rows: tuple[int, ...]
    doubt: float
    stopped: str = ""


def next_trials(
    belief: Belief, question: Question, candidates: Sequence[int], *, repeats: Mapping[int, float], count: int
) -> Choice:
    """Up to `count` rows of the `candidates`, best first; `repeats` are rows measured already that
    may be measured again, with the variance of one more run. It does not stop before there are
    enough trials to fit a model on (`usable.FEWEST_TRIALS`)."""
    doubt = question.doubt(belief)
    enough = ENOUGH_SURFACE if question.target is None else ENOUGH_REGRET
    enough_measured = len(belief.at) >= FEWEST_TRIALS
    if enough_measured and doubt <= enough:
        surface, choice = (
            "the surface is known to {:.1%} on average",
            "the choice is expected to cost {:.1%} too much at most",
        )
        return Choice((), doubt, (surface if question.target is None else choice).format(doubt))
    rows, weights = _candidates(question, belief)
    if enough_measured and not weights.any():
        return Choice((), doubt, "no measurement can change the answer any more")
    if not weights.any():
        rows, weights = _candidates(Question(question.rows), belief)
    chosen: list[int] = []
    noisy = (row for row, noise in repeats.items() if noise > _NOISY**2 * belief.variances([row])[0])
    open_rows = [*candidates, *noisy]
    for _ in range(count):
        left = [row for row in open_rows if row not in chosen]
        if not left:
            break
        noise = np.array([repeats.get(row, USUAL_NOISE**2) for row in left])
        settled = _settles(belief, rows, weights, left, noise)
        best = int(np.argmax(settled))
        if enough_measured and settled[best] < _WORTH_A_TRIAL:
            break
        chosen.append(left[best])
        # The doubt that would be left if the row were measured at its mean.
        rates = np.append(belief.log_rates, belief.means([left[best]]))
        noise = np.append(belief.noise, noise[best])
        belief = replace(belief, at=(*belief.at, left[best]), log_rates=rates, noise=noise)
    if chosen:
        return Choice(tuple(chosen), doubt)
    what = "surface's error" if question.target is None else "doubt about the choice"
    little = f"a further trial would settle less than {_WORTH_A_TRIAL:.1%} of the {what}"
    return Choice((), doubt, little if open_rows else "every trial is done")


def _candidates(question: Question, belief: Belief) -> tuple[list[int], Floats]:
    """The rows of non-zero weight, and their weights; at most `_MOST_CANDIDATES`, evenly chosen."""
    weights = question.weights(belief)
    positions = np.flatnonzero(weights > 0)
    if len(positions) > _MOST_CANDIDATES:
        positions = positions[np.linspace(0, len(positions) - 1, _MOST_CANDIDATES).astype(int)]
    return [question.rows[position] for position in positions], weights[positions]


def _settles(
    belief: Belief, rows: list[int], weights: Floats, candidates: list[int], noise: Floats
) -> Floats:
    """The share (c,) of the rows' weighted variance that measuring each candidate would remove."""
    covariance = belief.covariance(rows, candidates)
    variances = belief.variances(candidates) + noise
    total = float(weights @ belief.variances(rows))
    settled: Floats = weights @ (covariance**2 / variances) / total
    return settled
