"""What a sweep is run for: all of its surface, or the cheapest spec that reaches a target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from advisor.models.bayes import Floats
from advisor.models.performance.surface.belief import Belief

_DRAWS = 400
_CONFIDENCE = 0.9
# A choice that misses its target was paid for in vain.
_MISSED = 1.0


class Question(Struct, frozen=True):
    """Rows asked about. With a target: `usd_per_hour` (r,) of each, and `groups` (r,), one for
    each network and task whose cheapest row is wanted."""

    rows: tuple[int, ...]
    target: float | None = None
    usd_per_hour: Floats | None = None
    groups: tuple[str, ...] = ()

    def doubt(self, belief: Belief) -> float:
        """With a target the expected price regret, as a share of the price; else the expected
        error of the surface, as a share of the rate."""
        if self.target is None:
            deviations = np.sqrt(belief.variances(self.rows))
            return float(np.sqrt(2 / np.pi) * deviations.mean())
        return float(np.mean([_regret(*entry) for entry in self._drawn(belief)]))

    def weights(self, belief: Belief) -> Floats:
        """How much each row's doubt matters (r,): alike without a target; with one, how contested
        it is whether the row reaches it, among rows cheap enough to be chosen."""
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
        """Of each group: whether its rows reach the target (draws, m), and their prices (m,)."""
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
    """What today's choice is expected to cost beyond the cheapest that truly reaches."""
    chance = reaches.mean(axis=0)
    sure = np.flatnonzero(chance >= _CONFIDENCE)
    chosen = sure[np.argmin(prices[sure])] if len(sure) else int(np.argmax(chance))
    cheapest = np.where(reaches, prices, np.inf).min(axis=1)
    possible = np.isfinite(cheapest)
    if not possible.any():
        return 0.0
    over = np.where(reaches[:, chosen], prices[chosen] / cheapest - 1, _MISSED)
    return float(np.where(possible, over, 0.0).mean())
