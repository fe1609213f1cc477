"""The probability that a target is reached, from bounds at several confidences.

A bound at confidence c is a quantile: the rate lies above `lower` with probability c, above
`upper` with 1 - c, above `median` with a half. Between two quantiles the logarithm of the rate
is taken to be linear in the normal quantile of its probability, so that one interval alone
gives a normal distribution that is split at the median (another width below than above). Beyond
the outermost quantiles the last slope goes on.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from advisor.domain import DiskRate, Latency, Prediction, Resources, Stage, Task, Workload
from advisor.models.bayes import Floats, gaussian_multiplier

if TYPE_CHECKING:
    from advisor.engine.model import PerformanceModel


class Bounds(NamedTuple):
    """A predicted rate at one confidence."""

    lower: float
    median: float
    upper: float
    confidence: float
    calibrated: bool


# Confidences that a close look asks the performance model for, beside the request's own. Higher
# ones are rarely calibrated (19 held-out residuals are needed for 0.95). Nine of them instead moved
# 76 chances by 0.005 in the median and 0.03 at most, and somebody waits.
CLOSE_LOOK = (0.6, 0.8, 0.95)
# (normal quantile, log rate)
_QuantilePoint = tuple[float, float]


def chance_of_reaching(predictions: Sequence[Bounds], target: float) -> float:
    """Probability, 0 to 1, that the rate is `target` or more; it never rises with the target.

    `predictions` are those of one workload on one spec, at one confidence or several. The first
    one is at the confidence that decides: a target of its `lower` has just that chance.
    """
    first = predictions[0]
    used = [first, *(b for b in predictions[1:] if b.calibrated)]
    used.sort(key=lambda bounds: bounds.confidence)
    middle = (0.0, math.log(first.median))
    below, above = _side(first, used, -1), _side(first, used, 1)
    points = [*reversed(below), middle, *above]
    return _above(points, math.log(target))


def chances_of_reaching(
    lower: Floats, median: Floats, upper: Floats, confidence: float, target: float
) -> list[float]:
    """The same of many rates (n,) with bounds at one confidence alone, each of which has the target
    above its lower bound and not above its upper one."""
    if confidence <= 0.5 or not ((lower > 0) & (upper < np.inf)).all():
        rows = zip(lower.tolist(), median.tolist(), upper.tolist(), strict=True)
        return [
            chance_of_reaching([Bounds(low, middle, high, confidence, True)], target)
            for low, middle, high in rows
        ]
    z = gaussian_multiplier(confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs, wanted = np.log(median), math.log(target)
        below = z * (wanted - logs) / (logs - np.log(lower))
        above = z * (wanted - logs) / (np.log(upper) - logs)
        points = np.where(wanted <= logs, below, above)
    return [_normal_above(point) for point in points.tolist()]


def _side(first: Bounds, used: Sequence[Bounds], sign: int) -> list[_QuantilePoint]:
    """Quantiles on one side of the median, outwards; where bounds contradict each other, the
    one that decides is right."""
    farthest, decides = math.log(first.median), _bound(first, sign)
    points: list[_QuantilePoint] = []
    for bounds in used:
        bound, z = _bound(bounds, sign), gaussian_multiplier(bounds.confidence)
        if bound is None or decides is None or bounds.confidence <= 0.5:
            continue
        nearer = bounds.confidence < first.confidence
        clamp = min if nearer == (sign > 0) else max
        outwards = max if sign > 0 else min
        farthest = outwards(farthest, clamp(bound, decides))
        points.append((sign * z, farthest))
    return points


def _bound(bounds: Bounds, sign: int) -> float | None:
    bound = bounds.lower if sign < 0 else bounds.upper
    return math.log(bound) if 0 < bound < math.inf else None


def _above(points: Sequence[_QuantilePoint], wanted: float) -> float:
    """Probability above the quantile that `asked` is; a rate known exactly is a step."""
    logs = [log for _, log in points]
    right = bisect_left(logs, wanted)
    if right < len(logs) and logs[right] == wanted:
        return _normal_above(points[right][0])
    outside = right in (0, len(logs))
    left = min(max(right - 1, 0), max(len(logs) - 2, 0))
    (z0, log0), (z1, log1) = points[left], points[min(left + 1, len(points) - 1)]
    if outside and log0 == log1:
        return 1.0 if right == 0 else 0.0
    return _normal_above(z0 + (z1 - z0) * (wanted - log0) / (log1 - log0))


def _normal_above(z: float) -> float:
    return 0.5 * math.erfc(z / math.sqrt(2))


# A disk that limits nothing: a slow one would hide how unsure the other stages are.
NO_LIMIT = DiskRate(type="memory", read_mib_per_second=None, read_iops=None)

# p99 over p50 of a step's time, which nine in ten of 60 raw series of 50 PyTorch inference steps
# stay below (five GPUs, two precisions, six networks; internals/model.md). MLPerf single streams
# on NVIDIA GPUs have p99 over p90 below 1.31 in nine of ten.
P99_OVER_P50 = 1.35


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
