"""Which specs can run a request, and what is predicted for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Catalog, Rejection, check, is_accelerated, resources_of
from advisor.catalog.local_disks import LOCAL
from advisor.catalog.quotas import quota_shortfall
from advisor.domain import (
    CacheState,
    Candidate,
    Disk,
    DiskRate,
    InstanceType,
    Offer,
    Prediction,
    Rejected,
    Request,
    Resources,
    Task,
    Workload,
)
from advisor.errors import NoOfferError, UsageError
from advisor.records import dataclass, replace
from advisor.units import format_mib
from models.performance.machines import DiskTable

Floats = NDArray[np.float64]

# Powers of two, as users choose them. Above 256 a batch only costs memory and latency.
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SMALLEST_OF_MANY = 8
# Preprocessing has no accelerator to fill: the batch is only the size of a work package.
PREPROCESSING_BATCHES = (32,)


class PreparedRows(Protocol):
    """Workloads on machines, predicted but for their disks."""

    def with_disks(self, rows: Sequence[int], disks: Sequence[DiskRate]) -> list[Prediction]:
        """Predictions of some rows, each with a disk of its own."""

    def log_lowers(self, rows: NDArray[np.intp], disks: DiskTable) -> Floats:
        """Logarithms of the lower bounds of some rows, each with a disk of its own, of the shape of
        `rows`; they follow the scarcer of the disk's bandwidth and IOPS, and more of either is
        never slower."""


class PerformanceModel(Protocol):
    """What the decision needs of a performance model."""

    def predict(
        self,
        requests: Sequence[tuple[Workload, Resources]],
        *,
        confidence: float,
        cache: CacheState | None = None,
    ) -> list[Prediction]:
        """One prediction for each workload on its resources; `cache` None: as the task has it."""

    def prepare(
        self, requests: Sequence[tuple[Workload, Resources]], *, confidence: float
    ) -> PreparedRows:
        """The same requests, of which disks are to be changed; one at least."""

    def gpu_memory_mib(self, workload: Workload) -> float:
        """GPU memory the workload takes."""

    def host_memory_mib(self, workload: Workload, resources: Resources) -> float:
        """RAM below which the workload dies."""

    def most_on_cpu(
        self, workloads: Sequence[Workload], cores: Floats, marks: Floats, cpus: Sequence[str]
    ) -> Floats:
        """More samples per second than this no prediction's median says of any of the workloads on
        CPUs of these whole cores, single-thread marks (nan: unknown) and names, each (n,); 0 where
        nothing tells."""


@dataclass(frozen=True, slots=True)
class Runnable:
    """An offer that can run the request: its disks, and the workloads that fit its GPU.

    `slow_disks` are hard disks: they can only be enough where the others are too fast.
    """

    offer: Offer
    disks: tuple[Disk, ...]
    workloads: tuple[Workload, ...]
    note: str
    slow_disks: tuple[Disk, ...] = ()
    max_gpus: int | None = None


def workloads_of(request: Request) -> tuple[Workload, ...]:
    """The request at each batch size that is worth a look, smallest first."""
    sizes: Sequence[int] = BATCH_SIZES
    if request.batch_size is not None:
        sizes = (request.batch_size,)
    elif request.task is Task.PREPROCESSING:
        sizes = PREPROCESSING_BATCHES
    first = Workload(
        network=request.network,
        task=request.task,
        batch_size=sizes[0],
        precision=request.precision,
        dataset=request.dataset,
        stack=request.stack,
        memory_format=request.memory_format,
        tf32=request.tf32,
        input=request.input,
    )
    return tuple(replace(first, batch_size=size) for size in sizes)


def runnable(
    request: Request, catalog: Catalog, model: PerformanceModel, offers: Sequence[Offer]
) -> Iterator[Runnable | Rejected]:
    """Each offer as what can run on it, or as the reason why nothing can."""
    workloads = workloads_of(request)
    gpu_memory = {workload: _gpu_memory_mib(model, workload) for workload in workloads}
    for offer in offers:
        yield _judge(request, catalog, model, offer, gpu_memory)


def candidate_resources(catalog: Catalog, one: Candidate) -> Resources:
    """What a candidate's workload has on one of its instances: as many GPUs as it was predicted
    with."""
    return resources_of(catalog, one.spec.offer, one.spec.disk, one.prediction.gpus_used)


def disks_for(
    request: Request, catalog: Catalog, instance: InstanceType, region: str | None = None
) -> tuple[Disk, ...]:
    """The disk that was asked for, or those worth a look on this instance, cheapest first; priced
    in the region (of the request, where none is named).

    Empty where no disk with a known price holds the data set; `UsageError` where the disk that
    was asked for is not to be had on this instance, `NoOfferError` where its price is not known.
    """
    disks, region = catalog.disks_of(instance.cloud), region or request.region or ""
    dataset_gib = request.dataset.total_mib / 1024
    choice = request.disk
    if choice is None:
        return tuple(disks.candidate_disks(instance, dataset_gib, region, request.disk_types))
    size_gib = choice.size_gib or disks.fitting_size(choice.type, dataset_gib, choice.iops)
    return (
        disks.attach(
            instance,
            choice.type,
            size_gib,
            region,
            iops=choice.iops,
            mib_per_second=choice.mib_per_second,
        ),
    )


def _gpu_memory_mib(model: PerformanceModel, workload: Workload) -> float:
    return 0.0 if workload.task is Task.PREPROCESSING else model.gpu_memory_mib(workload)


def _judge(
    request: Request,
    catalog: Catalog,
    model: PerformanceModel,
    offer: Offer,
    gpu_memory: dict[Workload, float],
) -> Runnable | Rejected:
    instance = offer.instance
    gpu = catalog.gpu_of(instance)
    verdict = check(
        instance,
        gpu,
        needs_gpu=request.task is not Task.PREPROCESSING and is_accelerated(instance),
        offered=catalog.is_offered(instance.name, offer.region, instance.cloud),
    )
    if isinstance(verdict, Rejection):
        return Rejected(
            offer.instance.name, verdict.reason, verdict.detail, offer.price.usd_per_hour
        )
    too_many = quota_shortfall(offer, request.vcpu_quota)
    if too_many:
        return _rejected(offer, "quota", too_many)
    fitting = [w for w, mib in gpu_memory.items() if gpu is None or mib <= gpu.memory_mib]
    if not fitting:
        assert gpu is not None
        needed = format_mib(min(gpu_memory.values()))
        have = format_mib(gpu.memory_mib)
        return _rejected(offer, "gpu_memory", f"needs {needed} of GPU memory, has {have}")
    try:
        attached = disks_for(request, catalog, instance, offer.region)
    except (UsageError, NoOfferError) as error:
        return _rejected(offer, "no_disk", str(error))
    if not attached:
        kind = " or ".join(request.disk_types).replace(LOCAL, "local disk") or "disk"
        return _rejected(offer, "no_disk", f"no {kind} of known rate and price holds the data set")
    resources = resources_of(catalog, instance, attached[0], request.max_gpus)
    hosted = _hosted(model, fitting, resources)
    if not hosted:
        needed = format_mib(model.host_memory_mib(fitting[0], resources))
        have = format_mib(instance.memory_mib)
        return _rejected(offer, "memory", f"needs {needed} of RAM, has {have}")
    worth = hosted if request.max_latency_ms else _worth_predicting(hosted)
    disks = catalog.disks_of(instance.cloud)
    fast = tuple(disk for disk in attached if not disks.is_hard_disk(disk.rate.type))
    if request.disk is not None or not fast:
        return Runnable(offer, attached, tuple(worth), verdict.note, max_gpus=request.max_gpus)
    slow = tuple(disk for disk in attached if disk not in fast)
    return Runnable(offer, fast, tuple(worth), verdict.note, slow, request.max_gpus)


def _hosted(
    model: PerformanceModel, rising: Sequence[Workload], resources: Resources
) -> Sequence[Workload]:
    """Those that the RAM holds; a larger batch takes no less, so that mostly one look is enough."""
    if model.host_memory_mib(rising[-1], resources) <= resources.memory_mib:
        return rising
    return [w for w in rising if model.host_memory_mib(w, resources) <= resources.memory_mib]


def _worth_predicting(workloads: Sequence[Workload]) -> tuple[Workload, ...]:
    """Batches of 8 and more where any fits: smaller ones are never faster, only sooner done."""
    large = tuple(one for one in workloads if one.batch_size >= SMALLEST_OF_MANY)
    return large or tuple(workloads)


def _rejected(offer: Offer, reason: str, detail: str) -> Rejected:
    return Rejected(
        instance_type=offer.instance.name,
        reason=reason,
        detail=detail,
        usd_per_hour=offer.price.usd_per_hour,
    )
