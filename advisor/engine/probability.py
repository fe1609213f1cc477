"""The chance that a spec does what is asked, what a miss costs, and the latency of a batch.

A bound at confidence c is a quantile: a rate lies above `lower` with probability c, above `upper`
with 1 - c, above `median` with a half. The logarithm of the rate is taken to be normal on either
side of the median, with a width of its own below and above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec.structs import replace

from advisor.domain import DiskRate, Latency, Prediction, Resources, Stage, Task, Workload
from advisor.domain.decision import MISS_COST
from advisor.domain.results import P99_OVER_P50
from advisor.models.bayes import Floats, gaussian_multiplier

if TYPE_CHECKING:
    from advisor.engine.model import PerformanceModel

N = TypeVar("N", float, Floats)
# Beyond so many standard deviations nothing is left of a chance.
_CERTAIN = 6.0


def chances_of_reaching(
    lower: Floats, median: Floats, upper: Floats, confidence: float, target: Floats | float
) -> Floats:
    """Probabilities (n,) that rates are `target` or more; they never rise with the target. A rate that
    is known exactly, as one with bounds at confidence 0.5 is, reaches it or does not."""
    z = gaussian_multiplier(confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.log(median / target)
        width = np.where(distance >= 0, np.log(median / lower), np.log(upper / median))
        exactly = np.where(distance >= 0, np.inf, -np.inf)
        points = np.where((width > 0) & (z > 0), z * distance / width, exactly)
    return _normal(np.where(median > 0, points, -np.inf))


# Lower bounds, medians and upper bounds (3, n) of rates, and the rate that they have to reach.
Aim = tuple[Sequence[Floats] | Floats, float]


def lowest_chances(aims: Sequence[Aim], confidence: float, count: int) -> Floats:
    """The chance of each of `count` rows to reach all of its aims: these follow one rate, and are missed
    together, so that the one with the lowest chance decides."""
    lowest = np.ones(count)
    for (lower, median, upper), target in aims:
        lowest = np.minimum(lowest, chances_of_reaching(lower, median, upper, confidence, target))
    return lowest


def expected_cost(cost: N, chance: N) -> N:
    """The cost of a spec, or of several, with what a miss is expected to cost."""
    return cost * (1 + MISS_COST * (1 - chance))


def _normal(points: Floats) -> Floats:
    """The standard normal distribution function (n,)."""
    chances = (points > 0).astype(float)
    near = np.flatnonzero(np.abs(points) < _CERTAIN)
    roots = (points[near] / -math.sqrt(2)).tolist()
    chances[near] = 0.5 * np.fromiter(map(math.erfc, roots), float, len(roots))
    return chances


# A disk that limits nothing: a slow one would hide how unsure the other stages are.
NO_LIMIT = DiskRate(type="memory", read_mib_per_second=None, read_iops=None)


def batch_latencies(
    pairs: Sequence[tuple[Workload, Resources]], model: PerformanceModel, confidence: float
) -> list[Latency | None]:
    """The latency of each pair, in order: on one GPU, since a batch is never split."""
    if not any(workload.task is Task.INFERENCE for workload, _ in pairs):
        return [None] * len(pairs)
    in_memory = [(workload, replace(has, disk=NO_LIMIT, gpu_count=1)) for workload, has in pairs]
    distinct = list(dict.fromkeys(in_memory))
    predictions = model.predict(distinct, confidence=confidence)
    latency_of = {
        (workload, has): batch_latency(workload, has.vcpus, prediction)
        for (workload, has), prediction in zip(distinct, predictions, strict=True)
    }
    return [latency_of[pair] for pair in in_memory]


def batch_latency(workload: Workload, vcpus: float, prediction: Prediction) -> Latency | None:
    """Decoding, copying and the network one after the other; None for what nobody waits for.

    A sample is decoded on one vCPU, so that a batch smaller than the vCPUs takes as long as one
    sample. Reading the disk does not count: requests arrive in memory. p99 is jitter times the
    median latency, at the pace of the lower bound of a prediction without a disk.
    """
    if workload.task is not Task.INFERENCE:
        return None
    batch, rates = float(workload.batch_size), prediction.stage_rates
    seconds = batch / rates[Stage.ACCELERATOR]
    if Stage.TRANSFER in rates:
        seconds += batch / rates[Stage.TRANSFER]
    if Stage.HOST in rates:
        seconds += max(batch, vcpus) / rates[Stage.HOST]
    doubt = prediction.median / prediction.lower if prediction.lower > 0 else float("inf")
    return Latency(p50_seconds=seconds, p99_seconds=P99_OVER_P50 * doubt * seconds)
