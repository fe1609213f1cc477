"""The first trials: those that tell the physical parameters best, before anything is known.

Bayesian D-optimal design (Chaloner and Verdinelli 1995, Statistical Science 10:273-304): the
determinant of the parameters' posterior precision, the priors' included, is made as large as it
goes by exchanging trials one by one (Fedorov 1972).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.models.bayes import Floats
from advisor.models.performance.surface.belief import USUAL_NOISE

FEWEST, MOST = 6, 8
# Halving one parameter's doubt adds log 2 to the determinant's logarithm twice; a further anchor
# that adds less than this tells hardly more than any trial would.
_WORTH_AN_ANCHOR = 1.0
_PASSES = 10


def anchor_trials(slopes: Floats, candidates: Sequence[int]) -> list[int]:
    """6 to 8 rows of `slopes` (n, p) among the `candidates`; all of them where there are fewer."""
    if len(candidates) <= FEWEST:
        return sorted(candidates)
    chosen: list[int] = []
    while len(chosen) < min(MOST, len(candidates)):
        best, gain = _best_addition(slopes, chosen, candidates)
        if len(chosen) >= FEWEST and gain < _WORTH_AN_ANCHOR:
            break
        chosen.append(best)
    for _ in range(_PASSES):
        if not _exchanged(slopes, chosen, candidates):
            break
    return sorted(chosen)


def log_determinant(slopes: Floats, chosen: Sequence[int]) -> float:
    """Log determinant of the parameters' precision (in prior units) after the `chosen` trials."""
    return float(np.linalg.slogdet(_precision(slopes, chosen))[1])


def _precision(slopes: Floats, chosen: Sequence[int]) -> Floats:
    rows = slopes[list(chosen)] / USUAL_NOISE
    precision: Floats = np.eye(slopes.shape[1]) + rows.T @ rows
    return precision


def _best_addition(slopes: Floats, chosen: Sequence[int], candidates: Sequence[int]) -> tuple[int, float]:
    """The candidate that adds most to the log determinant, and how much (the matrix
    determinant lemma)."""
    left = [row for row in candidates if row not in chosen]
    rows = slopes[left] / USUAL_NOISE
    spread = np.sum(rows * np.linalg.solve(_precision(slopes, chosen), rows.T).T, axis=1)
    place = int(np.argmax(spread))
    return left[place], float(np.log1p(spread[place]))


def _exchanged(slopes: Floats, chosen: list[int], candidates: Sequence[int]) -> bool:
    """Whether one of the chosen gave way to a better trial."""
    better = False
    for place in range(len(chosen)):
        others = chosen[:place] + chosen[place + 1 :]
        best, _ = _best_addition(slopes, others, candidates)
        swapped = [*others, best]
        if log_determinant(slopes, swapped) > log_determinant(slopes, chosen) + 1e-9:
            chosen[:] = swapped
            better = True
    return better
