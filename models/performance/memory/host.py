"""RAM that a workload needs on the host; first version, conservative."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from advisor.domain import MIB, Resources, Task, Workload
from models.performance.networks import Floats, NetworkFacts

# Formulas that hold for one machine and for columns of them.
Numbers = TypeVar("Numbers", float, Floats)
# Anonymous memory of the measured pipeline: a process with torch and torchvision imported, and
# each forked loader process; batches come on top. Measured: 270 to 315 MiB with one loader
# process, 385 to 395 with two, at batches of 32 images of 224 pixels.
BASE_PROCESS_MIB = 200.0
LOADER_PROCESS_MIB = 60.0
_CUDA_HOST_MIB = 1200.0
_PREFETCHED_BATCHES = 2
# Weights, gradients and one momentum buffer.
_TRAINING_COPIES = 3.0


def loader_workers(vcpus: Numbers) -> Numbers:
    """Loader processes of the pipeline that is measured: one a vCPU, at least one."""
    workers: Numbers = np.maximum(1.0, np.floor(vcpus))
    return workers


def host_memory_mib(
    facts: NetworkFacts, workload: Workload, resources: Resources, on_cpu: bool
) -> float:
    """MiB of RAM below which the run dies: processes, batches in flight, CUDA's or the network's.

    An emulated GPU (`gpu` is None and not `on_cpu`) needs neither.
    """
    batch_mib = facts.input_bytes * workload.batch_size / MIB
    on_gpu = resources.gpu is not None
    device_mib = device_host_mib(facts, workload, on_gpu=on_gpu, on_cpu=on_cpu)
    pipeline_mib = float(pipeline_host_mib(loader_workers(resources.vcpus), batch_mib))
    return pipeline_mib + device_mib * resources.gpu_count  # a process for each GPU


def pipeline_host_mib(workers: Numbers, batch_mib: Numbers) -> Numbers:
    """MiB of the processes and of their batches in flight."""
    needed = BASE_PROCESS_MIB + workers * LOADER_PROCESS_MIB
    return needed + (workers * _PREFETCHED_BATCHES + 2) * batch_mib


def device_host_mib(
    facts: NetworkFacts, workload: Workload, *, on_gpu: bool, on_cpu: bool
) -> float:
    """MiB of host memory that the network takes, on a GPU or on the CPU."""
    if workload.task is Task.PREPROCESSING:
        return 0.0
    if on_gpu:
        return _CUDA_HOST_MIB + facts.weight_mib
    return _network_on_cpu_mib(facts, workload) if on_cpu else 0.0


def _network_on_cpu_mib(facts: NetworkFacts, workload: Workload) -> float:
    largest = facts.largest_activation_mib * workload.batch_size
    if workload.task is Task.INFERENCE:
        return facts.weight_mib + 3 * largest
    saved = facts.saved_activation_mib * workload.batch_size
    return _TRAINING_COPIES * facts.weight_mib + saved + 3 * largest
