"""Requests and trials as named columns: the one feature function of fit and predict.

GPU steps have their own features in `step_work`; here are those of the input pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.domain import CacheState, Resources, Task, Workload
from models.performance.memory import host_memory_mib, loader_workers
from models.performance.networks import Floats, NetworkTable

MIB = 2**20
_DEFAULT_LATENCY_SECONDS = 2e-4
# What the second thread of a core adds where nobody says: the median CPU of SpareCores' marks
# (infra/catalog_build/second_threads.py, docs/vcpus.md).
USUAL_SECOND_THREAD_YIELD = 0.33
# PCIe 3.0 x16 as clouds of that generation deliver it (g4dn: 6.3 GB/s).
ASSUMED_COPY_GB_PER_SECOND = 6.0


@dataclass(frozen=True, slots=True)
class PipelineColumns:
    """One row a request, every column of shape (n,).

    `cores` counts physical cores, `second_threads` what their second threads add, in cores;
    `score` is PassMark's single-thread mark (nan: unknown); `cached_share` is the part of the
    data set that lies in the page cache; `disk_operations_per_second` is limited by IOPS and by
    the latency that each loader process waits out; `copy_bytes_per_second`
    is infinite where no batch crosses a bus.
    """

    cores: Floats
    second_threads: Floats
    vcpus: Floats
    score: Floats
    stored_bytes: Floats
    decoded_pixels: Floats
    output_pixels: Floats
    batch_size: Floats
    cached_share: Floats
    disk_bytes_per_second: Floats
    disk_operations_per_second: Floats
    copy_bytes_per_second: Floats
    input_bytes: Floats
    on_cpu: Floats


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """What the columns are made of; `on_cpu` says that the network runs on the CPU."""

    workload: Workload
    resources: Resources
    on_cpu: bool
    cache: CacheState = CacheState.WARM


def pipeline_columns(
    requests: Sequence[PipelineRequest], networks: NetworkTable
) -> PipelineColumns:
    """Columns for all requests, in their order; needs at least one."""
    rows = [_row(request, networks) for request in requests]
    return PipelineColumns(*np.array(rows, dtype=float).T)


def _row(request: PipelineRequest, networks: NetworkTable) -> tuple[float, ...]:
    workload, resources = request.workload, request.resources
    facts = networks[workload.network]
    dataset = workload.dataset
    cpu = resources.cpu
    score = cpu.single_thread_score if cpu and cpu.single_thread_score else np.nan
    copy = resources.host_to_gpu_gb_per_second or ASSUMED_COPY_GB_PER_SECOND
    crosses = resources.gpu is not None and workload.task != Task.PREPROCESSING
    return (
        min(resources.vcpus, resources.physical_cores),
        second_threads(resources),
        resources.vcpus,
        score,
        dataset.bytes_per_sample,
        dataset.pixels,
        facts.input_pixels**2,
        workload.batch_size,
        cached_share(request, networks),
        (resources.disk.read_mib_per_second or np.inf) * MIB,
        disk_operations_per_second(resources),
        copy * 1e9 if crosses else np.inf,
        facts.input_bytes,
        request.on_cpu,
    )


def second_threads(resources: Resources) -> float:
    """What second hardware threads add, in whole cores; 0 where each vCPU is a core."""
    known = resources.cpu.second_thread_yield if resources.cpu else 0.0
    threads = max(0.0, resources.vcpus - resources.physical_cores)
    return (known or USUAL_SECOND_THREAD_YIELD) * threads


def cached_share(request: PipelineRequest, networks: NetworkTable) -> float:
    """The part of the data set that the page cache holds once an epoch has passed, 0..1.

    What the processes need comes first; the rest of the memory caches files.
    """
    if request.cache is CacheState.COLD:
        return 0.0
    facts = networks[request.workload.network]
    needed = host_memory_mib(facts, request.workload, request.resources, request.on_cpu)
    free = request.resources.memory_mib - needed
    return min(1.0, max(0.0, free / request.workload.dataset.total_mib))


def disk_operations_per_second(resources: Resources) -> float:
    """min(IOPS, queue depth / latency): each loader process waits for its own read."""
    disk = resources.disk
    latency = disk.read_latency_seconds or _DEFAULT_LATENCY_SECONDS
    return min(disk.read_iops or np.inf, loader_workers(resources.vcpus) / latency)
