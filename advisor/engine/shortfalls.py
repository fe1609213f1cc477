"""Why a type is turned down: what a row of it misses, said with the number that decided."""

from __future__ import annotations

import numpy as np

from advisor.domain import DataKind, InstanceType, Rejected, Stage, Task, Workload, computes_on_cpu
from advisor.engine.limits import MOST_FIRST_EPOCHS, TOO_SLOW
from advisor.engine.table import Table
from advisor.messages import Message
from advisor.models.performance.pipeline import STAGES
from advisor.questions.network import NetworkQuestion as Request
from advisor.units import ceil_ms, ceil_significant, floor_rate


def turned_down(request: Request, table: Table, at: int, reason: str) -> Rejected:
    """A type as rejected for a reason that its row `at` shows."""
    instance = table.offer(at).instance
    detail = shortfall(request, table, at, reason)
    usd, disk = float(table.usd[at]), str(table.disk[at].choice)
    return Rejected(instance.cloud, instance.name, reason, detail, usd, disk)


def shortfall(request: Request, table: Table, at: int, reason: str) -> Message:
    """What a row misses, with the number that decided."""
    one = table.take(np.array([at]))
    percentile = 100 * (1 - request.confidence)
    if reason == TOO_SLOW:
        return _too_slow(request, one, percentile)
    if reason == "slow_first_epoch":
        return Message(
            "its first epoch, from the disk, takes up to {hours:hours}, more than {most:hours}",
            code=reason,
            hours=_up(request.dataset.samples / float(one.first_lower[0]) / 3600),
            most=most_first_epoch_hours(request, float(one.lower[0])),
        )
    if reason == "latency":
        return Message(
            "p99 latency of a batch of {batch} is up to {ms:,g} ms, above {limit:g} ms",
            code=reason,
            batch=int(one.batch[0]),
            ms=ceil_ms(float(one.p99_seconds[0])),
            limit=request.max_latency_ms,
        )
    if reason == "too_long":
        return Message(
            "its run takes up to {upper:hours}, more than {limit:hours}; median {median:hours}",
            code=reason,
            upper=_up(float(one.run_usd_upper[0] / one.usd[0])),
            limit=request.max_hours,
            median=float(one.run_usd[0] / one.usd[0]),
        )
    if reason == "over_max_cost":
        return Message(
            "its run costs up to {upper:usd}, more than {limit:usd}; median {median:usd}",
            code=reason,
            upper=_up(float(one.run_usd_upper[0])),
            limit=request.max_run_usd,
            median=float(one.run_usd[0]),
        )
    if reason == "over_max_price":
        return Message(
            "{usd:usd}/h is above {limit:usd}/h",
            code=reason,
            usd=float(one.usd[0]),
            limit=request.max_usd_per_hour,
        )
    return Message("no calibrated interval for it (--allow-extrapolation judges it)", code=reason)


def most_first_epoch_hours(request: Request, lower: float) -> float:
    """Hours that the first epoch may take, of a row with that lower bound."""
    if request.max_first_epoch_hours is not None:
        return request.max_first_epoch_hours
    rate = (request.target_throughput or lower) / MOST_FIRST_EPOCHS
    return request.dataset.samples / rate / 3600


def _too_slow(request: Request, one: Table, percentile: float) -> Message:
    target, count = request.target_throughput or 0.0, int(one.count[0])
    instance = one.offer(0).instance
    workload = one.source.predictions.pairs[int(one.row[0])][0]
    parameters = {
        "p": percentile,
        "lower": floor_rate(float(one.lower[0])),
        "target": target,
        "stage": stage_name(_binding(request, one), instance, workload),
    }
    message = Message(
        "p{p:.3g} is {lower:,g}/s, below {target:target}/s; bound by {stage}", code=TOO_SLOW, **parameters
    )
    if float(one.median[0]) >= target:
        message = Message(
            "p{p:.3g} is {lower:,g}/s, below {target:target}/s, which its median reaches; bound by {stage}",
            code=TOO_SLOW,
            **parameters,
        )
    if count > 1:
        return Message("{count} of them: {each}", code=TOO_SLOW, count=count, each=message)
    return message


def _binding(request: Request, one: Table) -> Stage:
    """What binds a row; of nodes that may be their network, which no column has."""
    if request.task is Task.TRAINING and one.count[0] > 1:
        return one.candidates([0], request)[0].prediction.bottleneck
    return STAGES[int(one.bottleneck[0])]


_HOST_NAMES = {
    DataKind.TOKENS: Message("making tokens on the vCPUs"),
    DataKind.TENSOR: Message("copying samples on the vCPUs"),
}
STAGE_NAMES = {
    Stage.ACCELERATOR: Message("the GPU"),
    Stage.HOST: Message("decoding on the vCPUs"),
    Stage.STORAGE: Message("reading the disk"),
    Stage.TRANSFER: Message("copying to the GPU"),
    Stage.NETWORK: Message("the network between nodes"),
}
_ON_CPU = Message("the network on the CPU")


def stage_name(stage: Stage, instance: InstanceType, workload: Workload) -> Message:
    """What binds; on a CPU-only instance the CPU is the accelerator."""
    if stage is Stage.ACCELERATOR and computes_on_cpu(instance, workload):
        return _ON_CPU
    if stage is Stage.HOST:
        return _HOST_NAMES.get(workload.dataset.kind, STAGE_NAMES[stage])
    return STAGE_NAMES[stage]


def _up(value: float) -> float:
    return ceil_significant(value)
