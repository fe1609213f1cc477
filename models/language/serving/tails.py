"""Percentiles of a request's times, from their means and from what requests differ in.

A first token waits for prompts of others. In a closed loop those who start together wait for up to all the
others' prompts, each as likely as another, and who does not wait before its first token waits between its
tokens: so that the mean tells how many do, and the longest wait is known. Requests that arrive by themselves
queue, which has an exponential tail. Lengths are log-normal around their means.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.domain.words import PERCENTILES
from advisor.models.bayes import Floats
from advisor.models.language.serving.seconds import RequestSeconds

# The normal distribution's quantile of each percentile.
_NORMAL = np.array([0.0, 1.2816, 1.6449, 2.3263])[:, None]
_BELOW = np.array(PERCENTILES)[:, None] / 100
# One request's own scatter around the mean of its like: engines schedule and sample beside it.
_SCATTER = 0.03
_LITTLE = 1e-12


class Tails(NamedTuple):
    """Times at each of `PERCENTILES` over their means, each (4, n)."""

    ttft: Floats
    tpot: Floats
    e2e: Floats


def length_factors(sigma: Floats) -> Floats:
    """Lengths over their mean, (4, n), for the deviation of their logarithm (n,)."""
    return np.asarray(np.exp(_NORMAL * sigma - sigma**2 / 2))


def tails_of(
    seconds: RequestSeconds, first_token: Floats, prompts: Floats, output_tokens: Floats, sigma: Floats
) -> Tails:
    """With means of `first_token` (n,), which may count a wait for a place; `prompts` (4, n) are seconds of
    prompts at each percentile of their lengths, `sigma` (n,) is of the answers'."""
    waited, most, chance = seconds.waited, seconds.most, np.maximum(seconds.chance, _LITTLE)
    closed = np.isfinite(most)
    longest = np.where(closed, most, 0.0)
    least = np.maximum(2 * waited - longest, 0.0)

    def waits(above: Floats) -> Floats:
        """The wait that a share `above` (4, 1) of all requests exceeds."""
        uniform = np.maximum(longest - above / chance * (longest - least), 0.0)
        # Who finds one prompt alone before its own waits for the rest of it; many are as a queue's.
        queue = waited / chance * (1 + chance) / 2 * np.log(np.maximum(chance / above, 1.0))
        return np.asarray(np.where(closed, uniform, queue))

    gaps, each = output_tokens - 1, seconds.each_token
    step = each - seconds.slowed * seconds.between
    # A request that comes finds a step under way.
    coming = (_BELOW - 0.5) * step
    first = _of_sum(waits(1 - _BELOW) - waited, prompts - seconds.prompt, coming, _NORMAL * _SCATTER * step)
    # Who waited least has most prompts of others between its tokens; they hit short answers harder.
    of_others = np.where(closed, waited - waits(_BELOW), 0.0) / np.maximum(seconds.prompt, _LITTLE)
    by_chance = _NORMAL * np.sqrt(seconds.between) * np.exp(sigma**2 / 2)
    slower = _of_sum(seconds.slowed * of_others, seconds.slowed * by_chance, _NORMAL * _SCATTER * each)
    whole = first_token + gaps * each
    longer = gaps * each * (length_factors(sigma) - 1)
    of_whole = _of_sum(longer, np.where(closed, 0.0, first), gaps * seconds.slowed * by_chance)
    return Tails(1 + first / first_token, 1 + slower / each, 1 + of_whole / np.maximum(whole, _LITTLE))


def _of_sum(*deviations: Floats) -> Floats:
    """The deviation of a sum from its mean, by those of its independent parts."""
    squares = np.asarray(sum(deviation * np.abs(deviation) for deviation in deviations))
    return np.asarray(np.sign(squares) * np.sqrt(np.abs(squares)))
