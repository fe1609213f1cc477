"""How long one batch takes from its samples in memory to its results, nothing else in flight."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain import DiskRate, Latency, Prediction, Resources, Stage, Task, Workload
from advisor.engine.model import PerformanceModel
from advisor.records import replace

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
    found = {
        (workload, has): batch_latency(workload, has.vcpus, prediction)
        for (workload, has), prediction in zip(distinct, predictions, strict=True)
    }
    return [found[pair] for pair in in_memory]


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
