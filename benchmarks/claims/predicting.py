"""Short questions to the bundled performance model, for rows that are modelled."""

from __future__ import annotations

from advisor.catalog import load_catalog
from advisor.domain import Gpu, Precision, Task, Workload
from advisor.models.performance import PerformanceModel, load_model
from advisor.models.performance.pacing import paced_gpu

MIB_A_GIB = 1024
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def needed_mib(network: str, batch_size: int, task: Task = Task.TRAINING) -> float:
    """GPU memory of a workload in fp32."""
    return _model().gpu_memory_mib(Workload(network=network, task=task, batch_size=batch_size))


def largest_batch(network: str, memory_gib: float) -> int:
    """Largest power of two that trains in so much GPU memory; 0 where none does."""
    fitting = [b for b in BATCHES if needed_mib(network, b) <= memory_gib * MIB_A_GIB]
    return max(fitting, default=0)


def gpu_rate(
    network: str, gpu: str, batch_size: int, task: Task = Task.TRAINING, precision: Precision = Precision.FP32
) -> float:
    """Samples per second of a GPU alone."""
    workload = Workload(network=network, task=task, precision=precision, batch_size=batch_size)
    return batch_size / _model().published_step_seconds(workload, data_sheet(gpu))


def data_sheet(name: str) -> Gpu:
    """The catalogue's, or that of a short name (`V100`); `UsageError` for an unknown GPU."""
    return load_catalog().gpus.get(name) or paced_gpu(name)


def _model() -> PerformanceModel:
    return load_model()
