"""Instances without an accelerator, for a network that their CPU computes: few of thousands are
worth a record.

A bound decides which: the network alone on a CPU, everything else for nothing, is never slower
than what is predicted for the whole, and no disk is cheaper than none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from advisor.catalog import Catalog, CpuOnly, OfferQuery
from advisor.domain import Candidate, Precision, Rejected, Request, Task
from advisor.recommend.candidates import PerformanceModel, Runnable, runnable, workloads_of
from advisor.units import format_rate, format_usd

# The first types that are looked at whole; each further group is twice as large.
_FIRST_GROUP = 8
LEFT_OUT_FORMAT = "CPU-only instances left out: their rates are known in fp32 alone"


@dataclass(slots=True)
class CpuOnlyFound:
    """What became of the types: judged ones, predicted ones, and how many offers there were."""

    judged: list[Runnable | Rejected] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    considered: int = 0


def may_compete(request: Request) -> bool:
    """Whether a CPU may do what is asked: a network, and nothing that asks for a GPU."""
    asks_for_gpu = bool(request.gpus) or request.min_gpu_memory_mib is not None
    return request.task is not Task.PREPROCESSING and not (asks_for_gpu or request.accelerated_only)


def cpu_only_found(
    request: Request,
    catalog: Catalog,
    model: PerformanceModel,
    costs: Sequence[float],
    predict: Callable[[Sequence[Runnable]], list[Candidate]],
    costs_of: Callable[[Sequence[Candidate]], list[float]],
) -> CpuOnlyFound:
    """Types that could be shown beside those of the other answers' `costs`, with predictions.

    `predict` gives every candidate of the options, `costs_of` the rank of each type among them
    that answers. What could not be shown however well it did is neither judged nor predicted.
    """
    found = CpuOnlyFound()
    if not may_compete(request) or request.precision is not Precision.FP32:
        return found
    types = catalog.cpu_only(
        OfferQuery(cloud=request.cloud, region=request.region, market=request.market)
    )
    found.considered = len(types)
    worth = list(_worth_a_look(request, model, types, found))
    worth.sort(key=lambda pair: (pair[0], pair[1].name))
    costs, at, size = list(costs), 0, _FIRST_GROUP
    while at < len(worth):
        limit = _last_shown(costs, request.max_results)
        group = [one for least, one in worth[at : at + size] if least <= limit]
        if not group:
            break
        at, size = at + size, 2 * size
        offers = [catalog.offer_of(one) for one in group]
        judged = list(runnable(request, catalog, model, offers))
        found.judged += judged
        candidates = predict([one for one in judged if isinstance(one, Runnable)])
        found.candidates += candidates
        costs += costs_of(candidates)
    return found


def _worth_a_look(
    request: Request, model: PerformanceModel, types: Sequence[CpuOnly], found: CpuOnlyFound
) -> Iterator[tuple[float, CpuOnly]]:
    """Types that may answer, with the least that they could rank by; the others are rejected."""
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
        if one.usd_per_hour > limit:
            detail = f"{format_usd(one.usd_per_hour)}/h is above {format_usd(limit)}/h"
            found.judged.append(_rejected(one, "over_max_price", detail))
        elif target is not None and rate < target:
            found.judged.append(_rejected(one, "too_slow", _too_slow(one, rate, target)))
        elif target is not None:
            yield one.usd_per_hour, one
        else:
            yield one.usd_per_hour / (rate * 3600) * (request.run_samples or 1e6), one


def _too_slow(one: CpuOnly, rate: float, target: float) -> str:
    does = "core computes" if one.cores == 1 else "cores compute"
    likely = f"{format_rate(rate)}/s likely, without decoding"
    return f"its {one.cores:g} {does} {likely}, not {format_rate(target)}"


def _last_shown(costs: Sequence[float], count: int) -> float:
    return sorted(costs)[count - 1] if len(costs) >= count else math.inf


def _rejected(one: CpuOnly, reason: str, detail: str) -> Rejected:
    return Rejected(
        instance_type=one.name, reason=reason, detail=detail, usd_per_hour=one.usd_per_hour
    )
