"""How several anchors speak together for one place: a card and a batch size.

The model is wrong about a network by a level that is the same everywhere, by something for each
card, and by a curve over the batch size. The level has a flat prior: anchors that are all k times
as slow make every prediction k times as slow (ordinary kriging: Matheron, 1963). The variances
below only weigh anchors against each other; how wide intervals are is calibrated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.performance.anchoring.records import Places
from models.performance.networks import Floats

# Log standard deviations, rounded from held-out ratios (docs/anchors.md): of a card, of the curve
# over the batch size (half of it a card's own), of one measurement; doublings over which the
# curve's error stays alike.
_CARD, _CURVE, _ROW, _DOUBLINGS = 0.08, 0.06, 0.03, 3.0


@dataclass(frozen=True, slots=True)
class Combination:
    """`weights` (targets, anchors) add up to 1 for each target; `sigma` (targets,) is the log
    standard deviation that the variances above leave."""

    weights: Floats
    sigma: Floats


def combine(anchors: Places, targets: Places) -> Combination:
    """What each target takes of each anchor. Needs at least one anchor."""
    count = len(anchors.cards)
    system = np.ones((count + 1, count + 1))
    system[:count, :count] = _covariance(anchors, anchors) + _ROW**2 * np.eye(count)
    system[count, count] = 0.0
    toward = np.ones((count + 1, len(targets.cards)))
    toward[:count] = _covariance(anchors, targets)
    solved = np.linalg.solve(system, toward)
    own = _CARD**2 + _CURVE**2 + _ROW**2
    variance = own - (solved * toward).sum(axis=0)
    weights: Floats = np.asarray(solved[:count].T, dtype=float)
    sigma: Floats = np.sqrt(np.maximum(variance, _ROW**2))
    return Combination(weights, sigma)


def surprises(anchors: Places, errors: Floats) -> tuple[Floats, Floats]:
    """How far each anchor's log error (n,) is from what the others say, and the log standard
    deviation that it may be; zeros and ones for a single anchor."""
    count = len(anchors.cards)
    far, sigma = np.zeros(count), np.ones(count)
    if count < 2:
        return far, sigma
    for i in range(count):
        rest = [j for j in range(count) if j != i]
        told = combine(_some(anchors, rest), _some(anchors, [i]))
        far[i] = errors[i] - float(told.weights[0] @ errors[rest])
        sigma[i] = float(told.sigma[0])
    return far, sigma


def likelihoods(anchors: Places, errors: Floats) -> Floats:
    """Relative likelihood (m,) of log errors (m, n), whatever their level."""
    count = len(anchors.cards)
    inverse = np.linalg.inv(_covariance(anchors, anchors) + _ROW**2 * np.eye(count))
    level = inverse.sum(axis=0) / inverse.sum()
    centred = errors - (errors @ level)[:, None]
    squares = ((centred @ inverse) * centred).sum(axis=1)
    likely: Floats = np.exp(-0.5 * (squares - squares.min()))
    return likely


def usual_sigma(*, same_card: bool) -> float:
    """What `combine` leaves for one anchor: of another card at the same batch size, or of the
    same card two doublings away. Calibrated widths belong to these."""
    there = Places(("a",), np.array([2.0 if same_card else 0.0]))
    here = Places(("a" if same_card else "b",), np.array([0.0]))
    return float(combine(there, here).sigma[0])


def _covariance(one: Places, other: Places) -> Floats:
    same = np.array([[a == b for b in other.cards] for a in one.cards], dtype=float)
    apart = np.abs(one.doublings[:, None] - other.doublings[None, :])
    curve = _CURVE**2 * np.exp(-apart / _DOUBLINGS) * (0.5 + 0.5 * same)
    found: Floats = _CARD**2 * same + curve
    return found


def _some(which: Places, rows: list[int]) -> Places:
    return Places(tuple(which.cards[row] for row in rows), which.doublings[rows])
