"""Instances without an accelerator, for a network that their CPU computes: few of thousands are
worth a record.

A bound decides which: the network alone on a CPU, everything else for nothing, is never slower
than what is predicted for the whole, and no disk is cheaper than none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from advisor.catalog import Catalog, CpuOnly
from advisor.domain import Candidate, Offer, Precision, Rejected, Request
from advisor.recommend.candidates import PerformanceModel, Runnable, runnable, workloads_of
from advisor.recommend.judging import Judge
from advisor.recommend.pareto import wants_front
from advisor.recommend.querying import cpu_only_query, cpus_may_compete, offers_of
from advisor.records import dataclass, field, replace
from advisor.units import format_hours, format_rate, format_usd

# The first types that are looked at whole; each further group is twice as large.
_FIRST_GROUP = 8

Judged = tuple[Offer, Runnable | Rejected]


def options_of(judged: Iterable[Judged]) -> list[Runnable]:
    """Those that can run what is asked."""
    return [one for _, one in judged if isinstance(one, Runnable)]


@dataclass(slots=True)
class CpuOnlyFound:
    """What became of the types: turned down by the bound, judged whole, predicted, the best of
    each; how many offers there were, and the Pareto front with them."""

    front: tuple[Candidate, ...]
    rejected: list[Rejected] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    best: list[Candidate] = field(default_factory=list)
    considered: int = 0


class _Worth(NamedTuple):
    """A type that may answer: the least that it could rank by and cost, the most it could reach."""

    rank: float
    name: str
    usd_per_hour: float
    rate: float


@dataclass(frozen=True, slots=True)
class CpuOnlySearch:
    """The types that could be shown beside other answers, or lie on the front of price and rate.

    `shown` is how many types are shown, `predict` gives every candidate of judged offers, with
    fitted disks where they could rank before the last that is shown, `front_of` the Pareto front of
    judged offers and candidates. What could not be shown however well it did is neither judged nor
    predicted.
    """

    judge: Judge
    shown: int
    catalog: Catalog
    model: PerformanceModel
    predict: Callable[[Sequence[Judged], float], list[Candidate]]
    front_of: Callable[[Sequence[Judged], Sequence[Candidate]], tuple[Candidate, ...]]

    @property
    def request(self) -> Request:
        """What is asked."""
        return self.judge.request

    def beside(self, best: Iterable[Candidate], front: tuple[Candidate, ...]) -> CpuOnlyFound:
        """What is found beside the `best` of other types and their `front`."""
        found = CpuOnlyFound(front)
        if not cpus_may_compete(self.request) or self.request.precision is not Precision.FP32:
            return found
        types = self.catalog.cpu_only(cpu_only_query(self.request))
        found.considered = len(types)
        worth = sorted(_worth_a_look(self.request, self.model, types, found))
        costs, at, size = self._costs(best), 0, _FIRST_GROUP
        while at < len(worth):
            limit = _last_shown(costs, self.shown)
            group = [
                one.name
                for one in worth[at : at + size]
                if one.rank <= limit or self._may_lead(one, found.front)
            ]
            at, size = at + size, 2 * size
            if group:
                costs += self._look_at(group, limit, found)
        return found

    def _look_at(self, names: Sequence[str], limit: float, found: CpuOnlyFound) -> list[float]:
        """Judge and predict types whole; what those that answer rank by."""
        query = replace(cpu_only_query(self.request), instances=tuple(names))
        offers = offers_of(self.request, self.catalog, query)
        verdicts = runnable(self.request, self.catalog, self.model, offers)
        judged = list(zip(offers, verdicts, strict=True))
        candidates = self.predict(judged, limit)
        found.judged += judged
        found.candidates += candidates
        found.front = self.front_of(judged, [*found.front, *candidates])
        best = self.judge.best_of_each(candidates)
        found.best += best
        return self._costs(best)

    def _costs(self, best: Iterable[Candidate]) -> list[float]:
        return [self.judge.rank(one)[0] for one in best if self.judge.answers(one)]

    def _may_lead(self, one: _Worth, front: Iterable[Candidate]) -> bool:
        """Whether it could lie on the front: nothing there is as cheap and as fast as it."""
        return wants_front(self.request) and not any(
            other.spec.total_usd_per_hour <= one.usd_per_hour and other.prediction.lower >= one.rate
            for other in front
        )


def _worth_a_look(
    request: Request, model: PerformanceModel, types: Sequence[CpuOnly], found: CpuOnlyFound
) -> Iterator[_Worth]:
    """Types that may answer; the others are rejected."""
    if not types:
        return
    most = model.most_on_cpu(
        workloads_of(request),
        np.array([one.cores for one in types]),
        np.array([one.mark for one in types]),
        [one.cpu_model for one in types],
    ).tolist()
    if not any(most):
        found.considered = 0  # what the network computes is not known: no CPU can be judged
        return
    target, bound = request.target_throughput, _Bound(request)
    for one, rate in zip(types, most, strict=True):
        missed = bound.missed(one, rate)
        if missed is not None:
            found.rejected.append(_rejected(one, *missed))
            continue
        usd, all_of_it = one.usd_per_hour, rate * request.max_count
        if target is not None:
            yield _Worth(usd * max(1, math.ceil(target / rate)), one.name, usd, all_of_it)
        else:
            yield _Worth(bound.usd_per_run(one, rate), one.name, usd, all_of_it)


class _Bound:
    """What a type misses however well it does, in the order in which limits are judged."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._too_slow = _SlowWords(request)

    def missed(self, one: CpuOnly, rate: float) -> tuple[str, str] | None:
        """Reason and detail; None where it may answer."""
        request = self._request
        if rate * request.max_count < (request.target_throughput or 0.0):
            return "too_slow", self._too_slow.of(one.cores, rate)
        hours = (request.run_samples or 0.0) / (rate * request.max_count * 3600)
        if hours > (request.max_hours or math.inf):
            least, most = format_hours(hours), format_hours(request.max_hours or 0.0)
            return "too_long", f"its run takes {least} or more likely, above {most}"
        usd = self.usd_per_run(one, rate)
        if request.run_samples and usd > (request.max_run_usd or math.inf):
            least, most = format_usd(usd), format_usd(request.max_run_usd or 0.0)
            return "over_max_cost", f"its run costs {least} or more likely, above {most}"
        if one.usd_per_hour > (request.max_usd_per_hour or math.inf):
            most = format_usd(request.max_usd_per_hour or 0.0)
            return "over_max_price", f"{format_usd(one.usd_per_hour)}/h is above {most}/h"
        return None

    def usd_per_run(self, one: CpuOnly, rate: float) -> float:
        """The least that a run, or a million samples, costs."""
        return one.usd_per_hour / (rate * 3600) * (self._request.run_samples or 1e6)


class _SlowWords:
    """Why types are too slow: thousands of them, with few different CPUs and sizes."""

    def __init__(self, request: Request) -> None:
        self._count = request.max_count
        self._wanted = format_rate((request.target_throughput or 0.0) / request.max_count)
        self._told: dict[tuple[float, float], str] = {}

    def of(self, cores: float, rate: float) -> str:
        """'its 2 cores compute 3.4/s likely, without decoding, not 500'."""
        if (cores, rate) not in self._told:
            each = " each" if self._count > 1 else ""
            does = "core computes" if cores == 1 else "cores compute"
            likely = f"{format_rate(rate)}/s likely, without decoding"
            self._told[cores, rate] = f"its {cores:g} {does} {likely}, not {self._wanted}{each}"
        return self._told[cores, rate]


def _last_shown(costs: Sequence[float], count: int) -> float:
    return sorted(costs)[count - 1] if len(costs) >= count else math.inf


def _rejected(one: CpuOnly, reason: str, detail: str) -> Rejected:
    return Rejected(
        instance_type=one.name, reason=reason, detail=detail, usd_per_hour=one.usd_per_hour
    )
