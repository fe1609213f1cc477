"""Close calls: where the prediction decides narrowly, and one trial would settle it.

Three kinds. A cheaper spec whose upper bound reaches the target though its lower bound does not;
the chosen one, when it only just answers and a little dearer one is much safer; the nearest one,
when nothing is sure enough. A trial is worth the chance that the prediction decides wrongly, times
what that costs. It is told only where it is worth more than it costs. What is recommended does not
depend on any of this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from advisor.domain import (
    Candidate,
    CloseCall,
    CloseCallKind,
    DiskChoice,
    Prediction,
    Request,
)
from advisor.engine.chances import CLOSE_LOOK, chance_of_reaching
from advisor.records import dataclass
from models.performance.networks import Floats
from models.zoo.networks import can_be_run

# Assumed, not measured: 8 to start an instance, install torch and make the sample, 2 to measure.
TRIAL_MINUTES = 10.0
# AWS bills Linux on demand, and its volumes, by the second, and for a minute at least.
BILLING_MINIMUM_MINUTES = 1.0
# A smaller chance to be wrong is no close call, whatever is at stake.
LEAST_CHANCE = 0.05
# A much safer spec misses at most this part as often as the chosen one.
MUCH_SAFER = 0.25
MOST_CALLS = 3
_AT_A_TIME = 8

# Predictions of the same candidates at another confidence.
PredictAt = Callable[[Sequence[Candidate], float], list[Prediction]]


@dataclass(frozen=True, slots=True)
class _Judged:
    """A candidate that is worth a close look, and its chance of reaching the target."""

    candidate: Candidate
    chance: float

    @property
    def usd_per_hour(self) -> float:
        return self.candidate.spec.total_usd_per_hour


def close_calls(
    request: Request,
    turned_down: Iterable[Candidate],
    ranked: Iterable[Candidate],
    predict_at: PredictAt,
) -> tuple[CloseCall, ...]:
    """The close calls of an answer, the one whose trial is worth most first; at most three.

    `ranked` are the specs that answer, by price, the chosen one first; `turned_down` those that
    would do but for a lower bound below the target. Empty without a target, and where no trial can
    run what is asked.
    """
    measurable = request.can_be_measured and can_be_run(request.network)
    if request.target_throughput is None or not measurable:
        return ()
    by_price = iter(ranked)
    chosen = next(by_price, None)
    tempting = _tempting(request, turned_down, chosen)
    judged = _judged(request, [*tempting, *([chosen] if chosen else [])], predict_at)
    found = [_cheaper(request, one, chosen) for one in judged[: len(tempting)]]
    if chosen is not None and _can_be_tried(chosen):
        found.append(_chosen(request, judged[-1], by_price, predict_at))
    told = [one for one in found if one is not None and one.worth_usd > one.trial_usd]
    return tuple(sorted(told, key=_least_urgent)[:MOST_CALLS])


def worth_of_trials(chances: Floats, taken: NDArray[np.bool_], usd_per_hour: Floats) -> Floats:
    """What one trial of each candidate is expected to save, in units of its price, (q, c).

    q questions about c candidates by price: `chances` (q, c) are those of reaching the target,
    `taken` (q, c) says whose prediction is enough to be chosen, `usd_per_hour` (c,) does not fall.
    A candidate that is taken costs its price where it misses; one that is turned down what the
    next taken one costs more, or its own price where none is taken: then it is the answer that
    is missed.
    """
    worth = np.zeros(chances.shape)
    wrong = np.where(taken, 1.0 - chances, chances)
    # What is taken when all from here on are turned down: nothing, which costs the answer.
    dearer = np.full(len(chances), np.nan)
    for candidate in reversed(range(len(usd_per_hour))):
        usd = usd_per_hour[candidate]
        overspend = np.where(np.isnan(dearer), 1.0, dearer / usd - 1.0)
        here = taken[:, candidate]
        worth[:, candidate] = wrong[:, candidate] * np.where(here, 1.0, overspend)
        dearer = np.where(here, usd, dearer)
    return worth


def trial_cost_usd(usd_per_hour: float, minutes: float = TRIAL_MINUTES) -> float:
    """What a trial costs, instance and disk, rounded up to the least that is billed."""
    return usd_per_hour * max(BILLING_MINIMUM_MINUTES, minutes) / 60


def _tempting(
    request: Request, turned_down: Iterable[Candidate], chosen: Candidate | None
) -> list[Candidate]:
    """Of each type the spec that promises most, of those whose upper bound reaches the target at
    less money than the chosen one; few, since each gets a close look."""
    target = request.target_throughput or 0.0
    limit = chosen.spec.total_usd_per_hour if chosen else float("inf")
    specs: dict[tuple[str, DiskChoice, int], list[_Judged]] = defaultdict(list)
    for one in turned_down:
        within = one.prediction.lower < target <= one.prediction.upper
        if within and one.spec.total_usd_per_hour < limit and _can_be_tried(one):
            key = one.spec.offer.instance.name, one.spec.disk.choice, one.spec.count
            specs[key].append(_Judged(one, chance_of_reaching([one.prediction], target)))
    best: dict[str, _Judged] = {}
    for (name, *_), group in specs.items():
        offered = _with_good_batch(group)
        if name not in best or _promise(offered, limit) > _promise(best[name], limit):
            best[name] = offered
    order = sorted(best.values(), key=lambda one: -_promise(one, limit))
    return [one.candidate for one in order[: 2 * MOST_CALLS]]


def _can_be_tried(one: Candidate) -> bool:
    """A trial is one process on one GPU, and settles nothing of several."""
    return one.prediction.gpus_used == 1


def _with_good_batch(same_spec: Sequence[_Judged]) -> _Judged:
    """The smallest batch that is about as likely to reach the target as any."""
    likely = 0.95 * max(one.chance for one in same_spec)
    near = [one for one in same_spec if one.chance >= likely]
    return min(near, key=lambda one: one.candidate.workload.batch_size)


def _promise(one: _Judged, limit: float) -> float:
    """The chance that a spec reaches the target times what that saves; without a chosen one, the
    chance for each dollar."""
    if limit == float("inf"):
        return one.chance / one.usd_per_hour
    return one.chance * (limit - one.usd_per_hour)


def _judged(
    request: Request, candidates: Sequence[Candidate], predict_at: PredictAt
) -> list[_Judged]:
    """Each candidate with its chance, by bounds at several confidences."""
    if not candidates:
        return []
    looks = [predict_at(candidates, confidence) for confidence in CLOSE_LOOK]
    target = request.target_throughput or 0.0
    return [
        _Judged(one, chance_of_reaching([one.prediction, *others], target))
        for one, *others in zip(candidates, *looks, strict=True)
    ]


def _cheaper(request: Request, one: _Judged, chosen: Candidate | None) -> CloseCall | None:
    """A spec that is turned down, against the chosen one or against no answer at all."""
    if one.chance < LEAST_CHANCE:
        return None
    if chosen is None:
        worth = _worth(request, [one], [False])
        return _call(CloseCallKind.NEAREST_MAY_REACH, one, None, worth)
    worth = _worth(request, [one, _Judged(chosen, 1.0)], [False, True])
    return _call(CloseCallKind.CHEAPER_MAY_REACH, one, chosen, worth)


def _chosen(
    request: Request, first: _Judged, dearer: Iterator[Candidate], predict_at: PredictAt
) -> CloseCall | None:
    """The chosen spec, where it may well miss and a dearer one hardly does."""
    miss = 1 - first.chance
    if miss < LEAST_CHANCE:
        return None
    # By price, a few at a time: often one of the first is safe, and the list may be long.
    while some := list(islice(dearer, _AT_A_TIME)):
        for one in _judged(request, some, predict_at):
            if 1 - one.chance <= MUCH_SAFER * miss:
                worth = _worth(request, [first], [True])
                return _call(CloseCallKind.CHOSEN_MAY_MISS, first, one.candidate, worth)
    return None


def _worth(request: Request, by_price: Sequence[_Judged], taken: Sequence[bool]) -> float:
    """What a trial of the first is expected to save over the horizon, in US dollars."""
    shares = worth_of_trials(
        np.array([[one.chance for one in by_price]]),
        np.array([taken]),
        np.array([one.usd_per_hour for one in by_price]),
    )
    return float(shares[0, 0]) * by_price[0].usd_per_hour * request.horizon_hours


def _call(
    kind: CloseCallKind, one: _Judged, instead: Candidate | None, worth_usd: float
) -> CloseCall:
    saves = instead.spec.total_usd_per_hour - one.usd_per_hour if instead else None
    return CloseCall(
        kind=kind,
        candidate=one.candidate,
        instead=instead,
        probability=one.chance,
        saves_usd_per_hour=saves,
        trial_minutes=max(BILLING_MINIMUM_MINUTES, TRIAL_MINUTES),
        # One instance tells what all of them reach.
        trial_usd=trial_cost_usd(one.candidate.spec.usd_per_hour_each),
        worth_usd=worth_usd,
    )


def _least_urgent(one: CloseCall) -> float:
    """Sort key: by what a trial saves beyond its cost; where nothing answers, by how little money
    a chance of an answer takes."""
    if one.instead is None:
        return -one.probability / one.trial_usd
    return one.trial_usd - one.worth_usd
