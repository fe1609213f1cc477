"""RAM that a workload needs on the host; first version, conservative."""

from __future__ import annotations

import math

from advisor.domain import Resources, Task, Workload
from models.performance.networks import NetworkFacts

MIB = 2**20
# Anonymous memory of the measured pipeline: a process with torch and torchvision imported, and
# each forked loader process; batches come on top. Measured: 270 to 315 MiB with one loader
# process, 385 to 395 with two, at batches of 32 images of 224 pixels.
BASE_PROCESS_MIB = 200.0
LOADER_PROCESS_MIB = 60.0
_CUDA_HOST_MIB = 1200.0
_PREFETCHED_BATCHES = 2
# Weights, gradients and one momentum buffer.
_TRAINING_COPIES = 3.0


def loader_workers(vcpus: float) -> int:
    """Loader processes of the pipeline that is measured: one a vCPU, at least one."""
    return max(1, math.floor(vcpus))


def host_memory_mib(
    facts: NetworkFacts, workload: Workload, resources: Resources, on_cpu: bool
) -> float:
    """MiB of RAM below which the run dies: processes, batches in flight, CUDA's or the network's.

    An emulated GPU (`gpu` is None and not `on_cpu`) needs neither.
    """
    workers = loader_workers(resources.vcpus)
    batch_mib = facts.input_bytes * workload.batch_size / MIB
    needed = BASE_PROCESS_MIB + workers * LOADER_PROCESS_MIB
    needed += (workers * _PREFETCHED_BATCHES + 2) * batch_mib
    if workload.task is Task.PREPROCESSING:
        return needed
    if resources.gpu is not None:
        return needed + _CUDA_HOST_MIB + facts.weight_mib
    return needed + (_network_on_cpu_mib(facts, workload) if on_cpu else 0.0)


def _network_on_cpu_mib(facts: NetworkFacts, workload: Workload) -> float:
    largest = facts.largest_activation_mib * workload.batch_size
    if workload.task is Task.INFERENCE:
        return facts.weight_mib + 3 * largest
    saved = facts.saved_activation_mib * workload.batch_size
    return _TRAINING_COPIES * facts.weight_mib + saved + 3 * largest
