"""The next trials: those that settle most of the doubt about the question; or none, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from advisor.models.bayes import Floats
from advisor.models.performance.surface.belief import USUAL_NOISE, Belief
from advisor.models.performance.surface.question import Question
from advisor.models.performance.usable import FEWEST_TRIALS

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
        return Choice((), doubt, _settled(question, doubt))
    rows, weights = _candidates(question, belief)
    if enough_measured and not weights.any():
        return Choice((), doubt, "no measurement can change the answer any more")
    if not weights.any():
        rows, weights = _candidates(Question(question.rows), belief)
    chosen: list[int] = []
    open_rows = [*candidates, *(row for row in repeats if _is_noisy(belief, row, repeats[row]))]
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
    return Choice((), doubt, "every trial is done" if not open_rows else _exhausted(question))


def _settled(question: Question, doubt: float) -> str:
    if question.target is None:
        return f"the surface is known to {doubt:.1%} on average"
    return f"the choice is expected to cost {doubt:.1%} too much at most"


def _exhausted(question: Question) -> str:
    what = "surface's error" if question.target is None else "doubt about the choice"
    return f"a further trial would settle less than {_WORTH_A_TRIAL:.1%} of the {what}"


def _candidates(question: Question, belief: Belief) -> tuple[list[int], Floats]:
    """The rows that matter and their weights; of very many, an even thousand."""
    weights = question.weights(belief)
    at = np.flatnonzero(weights > 0)
    if len(at) > _MOST_CANDIDATES:
        at = at[np.linspace(0, len(at) - 1, _MOST_CANDIDATES).astype(int)]
    return [question.rows[place] for place in at], weights[at]


def _is_noisy(belief: Belief, row: int, noise: float) -> bool:
    return bool(noise > _NOISY**2 * belief.variances([row])[0])


def _settles(
    belief: Belief, rows: list[int], weights: Floats, candidates: list[int], noise: Floats
) -> Floats:
    """The share of the weighted variance that measuring each candidate would take away (c,)."""
    covariance = belief.covariance(rows, candidates)
    variances = belief.variances(candidates) + noise
    total = float(weights @ belief.variances(rows))
    settled: Floats = weights @ (covariance**2 / variances) / total
    return settled
