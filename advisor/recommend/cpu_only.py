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
from advisor.domain import Candidate, Offer, Precision, Rejected, Request, Task
from advisor.recommend.candidates import PerformanceModel, Runnable, runnable, workloads_of
from advisor.recommend.pareto import wants_front
from advisor.recommend.querying import cpu_only_query, offers_of, query_of
from advisor.records import dataclass, field, replace
from advisor.units import format_rate, format_usd

# The first types that are looked at whole; each further group is twice as large.
_FIRST_GROUP = 8
LEFT_OUT_FORMAT = "CPU-only instances left out: their rates are known in fp32 alone"

Judged = tuple[Offer, Runnable | Rejected]


def options_of(judged: Iterable[Judged]) -> list[Runnable]:
    """Those that can run what is asked."""
    return [one for _, one in judged if isinstance(one, Runnable)]


def may_compete(request: Request) -> bool:
    """Whether a CPU may do what is asked: a network, and nothing that asks for a GPU."""
    return request.task is not Task.PREPROCESSING and not asks_for_gpu(request)


def asks_for_gpu(request: Request) -> bool:
    """Whether an instance without a GPU is not what is asked for."""
    return request.accelerated_only or query_of(request).asks_for_gpu


@dataclass(slots=True)
class CpuOnlyFound:
    """What became of the types: turned down by the bound, judged whole, predicted; how many
    offers there were, and the Pareto front with them."""

    front: tuple[Candidate, ...]
    rejected: list[Rejected] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
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

    `predict` gives every candidate of judged offers, with fitted disks where they could rank before
    the last that is shown, `costs_of` the rank of each type among
    candidates that answers, `front_of` the Pareto front of judged offers and candidates. What
    could not be shown however well it did is neither judged nor predicted.
    """

    request: Request
    catalog: Catalog
    model: PerformanceModel
    predict: Callable[[Sequence[Judged], float], list[Candidate]]
    costs_of: Callable[[Sequence[Candidate]], list[float]]
    front_of: Callable[[Sequence[Judged], Sequence[Candidate]], tuple[Candidate, ...]]

    def beside(self, costs: Sequence[float], front: tuple[Candidate, ...]) -> CpuOnlyFound:
        """What is found beside answers that rank by `costs` and have this `front`."""
        found = CpuOnlyFound(front)
        if not may_compete(self.request) or self.request.precision is not Precision.FP32:
            return found
        types = self.catalog.cpu_only(cpu_only_query(self.request))
        found.considered = len(types)
        worth = sorted(_worth_a_look(self.request, self.model, types, found))
        costs, at, size = list(costs), 0, _FIRST_GROUP
        while at < len(worth):
            limit = _last_shown(costs, self.request.max_results)
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
        return self.costs_of(candidates)

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
    target, limit = request.target_throughput, request.max_usd_per_hour or math.inf
    for one, rate in zip(types, most, strict=True):
        usd, all_of_it = one.usd_per_hour, rate * request.max_count
        if target is not None and all_of_it < target:
            detail = _too_slow(one, rate, request.max_count, target)
            found.rejected.append(_rejected(one, "too_slow", detail))
        elif usd > limit:
            detail = f"{format_usd(usd)}/h is above {format_usd(limit)}/h"
            found.rejected.append(_rejected(one, "over_max_price", detail))
        elif target is not None:
            yield _Worth(usd * max(1, math.ceil(target / rate)), one.name, usd, all_of_it)
        else:
            per_run = usd / (rate * 3600) * (request.run_samples or 1e6)
            yield _Worth(per_run, one.name, usd, all_of_it)


def _too_slow(one: CpuOnly, rate: float, count: int, target: float) -> str:
    several = f"with {count} of it, " if count > 1 else ""
    does = "core computes" if one.cores == 1 else "cores compute"
    likely = f"{format_rate(rate)}/s likely, without decoding"
    return f"{several}its {one.cores:g} {does} {likely}, not {format_rate(target / count)}"


def _last_shown(costs: Sequence[float], count: int) -> float:
    return sorted(costs)[count - 1] if len(costs) >= count else math.inf


def _rejected(one: CpuOnly, reason: str, detail: str) -> Rejected:
    return Rejected(
        instance_type=one.name, reason=reason, detail=detail, usd_per_hour=one.usd_per_hour
    )
