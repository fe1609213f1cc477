"""Chooses the trials of a sweep that settle most of the doubt, and says when none is worth its cost.

The first tell the physical parameters best before anything is known. Bayesian D-optimal design (Chaloner and
Verdinelli 1995, Statistical Science 10:273-304): the determinant of the parameters' posterior precision, the
priors' included, is made as large as it goes by exchanging trials one by one (Fedorov 1972).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from advisor.models.bayes import Floats
from advisor.models.performance.surface import USUAL_NOISE, Belief, Question
from advisor.models.performance.usable import FEWEST_TRIALS

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
        before = list(chosen)
        for position in range(len(chosen)):
            others = chosen[:position] + chosen[position + 1 :]
            swapped = [*others, _best_addition(slopes, others, candidates)[0]]
            if log_determinant(slopes, swapped) > log_determinant(slopes, chosen) + 1e-9:
                chosen = swapped
        if chosen == before:
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
    """The candidate that adds most to the log determinant, and how much (the matrix determinant lemma)."""
    left = [row for row in candidates if row not in chosen]
    rows = slopes[left] / USUAL_NOISE
    spread = np.sum(rows * np.linalg.solve(_precision(slopes, chosen), rows.T).T, axis=1)
    position = int(np.argmax(spread))
    return left[position], float(np.log1p(spread[position]))


# The aims: a surface this well known, a choice that costs this much too much.
ENOUGH_SURFACE, ENOUGH_REGRET = 0.03, 0.01
# Of the doubt that is left, what the next trial must settle.
_WORTH_A_TRIAL = 0.002
# A repeat is considered where a cell's own noise exceeds this share of the model's doubt.
_NOISY = 0.5
_MOST_CANDIDATES = 1000


class Choice(Struct, frozen=True):
    """Rows to measure next, or why no further one; `doubt` is the question's, as a share."""

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
        belief = belief.with_trial(left[best], float(noise[best]))
    if chosen:
        return Choice(tuple(chosen), doubt)
    what = "surface's error" if question.target is None else "doubt about the choice"
    little = f"a further trial would settle less than {_WORTH_A_TRIAL:.1%} of the {what}"
    return Choice((), doubt, little if open_rows else "every trial is done")


def _candidates(question: Question, belief: Belief) -> tuple[list[int], Floats]:
    """The rows that matter and their weights; of very many, an even thousand."""
    weights = question.weights(belief)
    positions = np.flatnonzero(weights > 0)
    if len(positions) > _MOST_CANDIDATES:
        positions = positions[np.linspace(0, len(positions) - 1, _MOST_CANDIDATES).astype(int)]
    return [question.rows[position] for position in positions], weights[positions]


def _settles(
    belief: Belief, rows: list[int], weights: Floats, candidates: list[int], noise: Floats
) -> Floats:
    """The share of the weighted variance that measuring each candidate would take away (c,)."""
    covariance = belief.covariance(rows, candidates)
    variances = belief.variances(candidates) + noise
    total = float(weights @ belief.variances(rows))
    settled: Floats = weights @ (covariance**2 / variances) / total
    return settled
