"""Requests and trials as named columns: the one feature function of fit and predict.

GPU steps have their own features in `step_work`; here are those of the input pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from advisor.domain import CacheState, Resources, Task, Workload
from advisor.records import dataclass
from models.performance.memory import device_host_mib, loader_workers, pipeline_host_mib
from models.performance.networks import Floats, NetworkTable
from models.performance.resource_table import DiskTable, Integers, ResourceTable

MIB = 2**20
# PCIe 3.0 x16 as clouds of that generation deliver it (g4dn: 6.3 GB/s).
ASSUMED_COPY_GB_PER_SECOND = 6.0


@dataclass(frozen=True, slots=True)
class PipelineColumns:
    """One row a request, every column of shape (n,).

    `cores` counts physical cores, `second_threads` what their second threads add, in cores;
    `score` is PassMark's single-thread mark (nan: unknown); `cached_share` is the part of the
    data set that lies in the page cache; `disk_operations_per_second` is limited by IOPS and by
    the latency that each loader process waits out; `copy_bytes_per_second` is infinite where no
    batch crosses a bus; `workers` are loader processes.
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
    workers: Floats

    def with_disks(self, rows: Integers, disks: DiskTable) -> PipelineColumns:
        """Some of the requests, each with another disk; `rows` and `disks` are of one length."""
        taken = {name: getattr(self, name)[rows] for name in self.__slots__}
        taken["disk_bytes_per_second"] = disks.mib_per_second * MIB
        taken["disk_operations_per_second"] = _operations(
            disks.iops, taken["workers"], disks.latency_seconds
        )
        return PipelineColumns(**taken)


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """What the columns are made of; `on_cpu` says that the network runs on the CPU."""

    workload: Workload
    resources: Resources
    on_cpu: bool
    cache: CacheState = CacheState.WARM


class Load(NamedTuple):
    """What machines are asked to do, apart from which machine it is."""

    workload: Workload
    on_cpu: bool
    on_gpu: bool
    cache: CacheState


def pipeline_columns(
    requests: Sequence[PipelineRequest], networks: NetworkTable
) -> PipelineColumns:
    """Columns for all requests, in their order; needs at least one."""
    loads, which = loads_of(requests)
    return columns_of(loads, which, ResourceTable.of([r.resources for r in requests]), networks)


def loads_of(requests: Sequence[PipelineRequest]) -> tuple[list[Load], Integers]:
    """The distinct loads, and which of them each request has."""
    # Hashing a workload takes a while, and most requests share the same record.
    places: dict[tuple[int, bool, bool, CacheState], int] = {}
    loads: list[Load] = []
    which = []
    for workload, resources, on_cpu, cache in (
        (r.workload, r.resources, r.on_cpu, r.cache) for r in requests
    ):
        key = (id(workload), on_cpu, resources.gpu is not None, cache)
        if key not in places:
            places[key] = len(loads)
            loads.append(Load(workload, on_cpu, resources.gpu is not None, cache))
        which.append(places[key])
    return loads, np.array(which, dtype=np.intp)


def columns_of(
    loads: Sequence[Load], which: Integers, machines: ResourceTable, networks: NetworkTable
) -> PipelineColumns:
    """Columns of `machines` (n rows) under `loads[which]`, `which` of shape (n,)."""
    (stored, total_mib, decoded, output, batch, input_bytes, device_mib, on_cpu, crosses, warm) = (
        np.array([_numbers(load, networks) for load in loads], dtype=float)[which].T
    )
    vcpus = machines.vcpus
    workers = loader_workers(vcpus)
    copy = machines.host_to_gpu_gb_per_second
    copy = np.where(np.isnan(copy), ASSUMED_COPY_GB_PER_SECOND, copy) * 1e9
    # What the processes need comes first; the rest of the memory caches files.
    needed = pipeline_host_mib(workers, input_bytes * batch / MIB)
    needed = needed + device_mib * machines.gpu_count
    return PipelineColumns(
        cores=np.minimum(vcpus, machines.physical_cores),
        second_threads=machines.second_thread_yield
        * np.maximum(0.0, vcpus - machines.physical_cores),
        vcpus=vcpus,
        score=machines.score,
        stored_bytes=stored,
        decoded_pixels=decoded,
        output_pixels=output,
        batch_size=batch,
        cached_share=warm * np.clip((machines.memory_mib - needed) / total_mib, 0.0, 1.0),
        disk_bytes_per_second=machines.disk_mib_per_second * MIB,
        disk_operations_per_second=_operations(
            machines.disk_iops, workers, machines.disk_latency_seconds
        ),
        # Each GPU has a link of its own.
        copy_bytes_per_second=np.where(crosses > 0, copy * machines.gpu_count, np.inf),
        input_bytes=input_bytes,
        on_cpu=on_cpu,
        workers=workers,
    )


def _operations(iops: Floats, workers: Floats, latency_seconds: Floats) -> Floats:
    """What a disk answers in a second: each loader process waits for its own read."""
    return np.minimum(iops, workers / latency_seconds)


def _numbers(load: Load, networks: NetworkTable) -> tuple[float, ...]:
    workload, dataset = load.workload, load.workload.dataset
    facts = networks[workload.network]
    return (
        dataset.bytes_per_sample,
        dataset.total_mib,
        dataset.pixels,
        facts.input_pixels**2,
        workload.batch_size,
        facts.input_bytes,
        device_host_mib(facts, workload, on_gpu=load.on_gpu, on_cpu=load.on_cpu),
        load.on_cpu,
        load.on_gpu and workload.task != Task.PREPROCESSING,
        load.cache is not CacheState.COLD,
    )
