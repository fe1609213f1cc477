"""Where the prediction decides narrowly, and one trial of an endpoint would settle it.

As for networks (`advisor.engine.borderline`): a cheaper spec that may meet target and limits, the
chosen one where a dearer one is much safer, the nearest one where nothing is sure enough. Rates and
times of one way are wrong together, since all follow its step time: the chance that it keeps
everything is the least of the chances that it keeps each limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from advisor.domain import CloseCall, CloseCallKind
from advisor.domain.language import GenerationRequest
from advisor.engine.borderline import (
    LEAST_CHANCE,
    MOST_CALLS,
    MUCH_SAFER,
    TRIAL_MINUTES,
    trial_cost_usd,
    worth_of_trials,
)
from advisor.engine.language.prepared import Prepared
from advisor.engine.language.rates import Level
from advisor.engine.language.table import ServingTable
from advisor.engine.model import Floats, Integers
from advisor.engine.probability import Bounds, chance_of_reaching


class _Contender(NamedTuple):
    """A row of a table with its price an hour and the chance that it meets target and limits."""

    table: ServingTable
    at: int
    usd: float
    chance: float

    @property
    def trial_minutes(self) -> float:
        """Until the engine serves, and the trial."""
        return TRIAL_MINUTES + self.table.ways[self.at].ready.seconds / 60

    @property
    def trial_usd(self) -> float:
        """A trial on one instance settles it for all of them."""
        return trial_cost_usd(float(self.table.usd_each[self.at]), self.trial_minutes)


class _Narrow(NamedTuple):
    """A contender, what it is held against, and what its trial is expected to save."""

    kind: CloseCallKind
    contender: _Contender
    instead: _Contender | None
    worth_usd: float

    @property
    def urgency(self) -> float:
        """What a trial saves beyond its cost; where nothing answers, how much of a chance of an
        answer a dollar buys."""
        if self.instead is None:
            return self.contender.chance / self.contender.trial_usd
        return self.worth_usd - self.contender.trial_usd


def close_calls(
    request: GenerationRequest, prepared: Prepared, table: ServingTable, ranked: Integers
) -> tuple[CloseCall, ...]:
    """The borderline candidates, the one whose trial is worth most first; none without a target.
    `ranked` are the rows that answer."""
    if not request.targets:
        return ()
    chosen = _contender(table, int(ranked[0])) if len(ranked) else None
    found = [
        _cheaper(request, one, chosen)
        for one in _contenders(request, prepared, table, chosen)
        if one.chance >= LEAST_CHANCE
    ]
    if chosen is not None:
        found += _chosen(request, chosen, (_contender(table, int(at)) for at in ranked[1:]))
    worth = [one for one in found if one.worth_usd > one.contender.trial_usd]
    worth.sort(key=lambda one: -one.urgency)
    return tuple(_record(prepared, one) for one in worth[:MOST_CALLS])


def _contenders(
    request: GenerationRequest, prepared: Prepared, table: ServingTable, chosen: _Contender | None
) -> list[_Contender]:
    """Of each type the spec with the greatest expected saving, of those that would answer by their
    medians or by what may be hoped for, are not sure to, and cost less than the chosen one."""
    limit = np.inf if chosen is None else chosen.usd
    sure, cheap = table.answering(), np.flatnonzero(table.usd_each < limit)
    best: dict[tuple[str, str], _Contender] = {}
    for level in (Level.MEDIAN, Level.HOPED):
        hoped = prepared.table(request, level, [table.ways[at] for at in cheap.tolist()])
        if hoped is None:
            return []
        fewer = ~sure[cheap] | (hoped.count < table.count[cheap])
        for at in np.flatnonzero(hoped.answering() & fewer & (hoped.usd < limit)).tolist():
            one, kind = _contender(hoped, at), hoped.ways[at].kind
            if kind not in best or _saving(one, limit) > _saving(best[kind], limit):
                best[kind] = one
    return sorted(best.values(), key=lambda one: -_saving(one, limit))[: 2 * MOST_CALLS]


def _saving(one: _Contender, limit: float) -> float:
    """The chance times what it saves; without a chosen one, the chance for each dollar."""
    return one.chance / one.usd if limit == np.inf else one.chance * (limit - one.usd)


def _contender(table: ServingTable, at: int) -> _Contender:
    return _Contender(table, at, float(table.usd[at]), _chance(table, at))


def _chance(table: ServingTable, at: int) -> float:
    """That a row keeps target and limits of times."""
    request, rates, most = table.request, table.solved.rates, table.solved.most
    replicas = float(table.at_once[at])
    reached = [
        (replicas * rates.output[:, at], request.target_output_tokens_per_second),
        (replicas * most.output[:, at] / request.output_tokens, request.target_requests_per_second),
    ]
    kept = [
        (1000 * rates.ttft[:, at], request.max_ttft_ms),
        (1000 * rates.tpot[:, at], request.tpot_limit_ms),
        (rates.e2e(request.output_tokens)[:, at], request.max_e2e_seconds),
    ]
    pairs = [(values, wanted) for values, wanted in reached if wanted is not None]
    pairs += [(1 / values, 1 / limit) for values, limit in kept if limit is not None]
    return min((_reaching(request, *pair) for pair in pairs), default=1.0)


def _reaching(request: GenerationRequest, values: Floats, target: float) -> float:
    """Of a rate (3,) by `Level`; none where it is not known."""
    lower, median, upper = values.tolist()
    if not median > 0:
        return 0.0
    lower = lower if lower > 0 else 0.0  # nan, too: beyond what can be answered
    return chance_of_reaching([Bounds(lower, median, upper, request.confidence, True)], target)


def _cheaper(request: GenerationRequest, contender: _Contender, chosen: _Contender | None) -> _Narrow:
    """A spec that is turned down, against the chosen one or against no answer at all."""
    if chosen is None:
        worth = _worth(request, [contender], [False])
        return _Narrow(CloseCallKind.NEAREST_MAY_REACH, contender, None, worth)
    worth = _worth(request, [contender, chosen._replace(chance=1.0)], [False, True])
    return _Narrow(CloseCallKind.CHEAPER_MAY_REACH, contender, chosen, worth)


def _chosen(request: GenerationRequest, first: _Contender, dearer: Iterator[_Contender]) -> list[_Narrow]:
    """The chosen spec, where it may well miss and a dearer one hardly does."""
    miss = 1 - first.chance
    if miss < LEAST_CHANCE:
        return []
    safer = next((one for one in dearer if 1 - one.chance <= MUCH_SAFER * miss), None)
    if safer is None:
        return []
    return [_Narrow(CloseCallKind.CHOSEN_MAY_MISS, first, safer, _worth(request, [first], [True]))]


def _worth(request: GenerationRequest, by_rank: list[_Contender], taken: list[bool]) -> float:
    """What a trial of the first is expected to save over the horizon, in USD."""
    shares = worth_of_trials(
        np.array([[one.chance for one in by_rank]]), np.array([taken]), np.array([one.usd for one in by_rank])
    )
    return float(shares[0, 0]) * by_rank[0].usd * request.horizon_hours


def _record(prepared: Prepared, one: _Narrow) -> CloseCall:
    contender, instead = one.contender, one.instead
    return CloseCall(
        kind=one.kind,
        candidate=contender.table.candidate(contender.at, prepared.predictor),
        instead=instead and instead.table.candidate(instead.at, prepared.predictor),
        probability=contender.chance,
        saves_usd_per_hour=instead.usd - contender.usd if instead else None,
        trial_minutes=contender.trial_minutes,
        trial_usd=contender.trial_usd,
        worth_usd=one.worth_usd,
    )
