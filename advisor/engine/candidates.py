"""A request -> the offers that can run it, each with its disks and batch sizes, or with the reason
why nothing can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from advisor.catalog import Catalog, OfferQuery, Rejection, check, is_accelerated, resources_of
from advisor.catalog.disk_orders import LOCAL
from advisor.catalog.support import quota_shortfall
from advisor.domain import (
    Candidate,
    Disk,
    InstanceType,
    MemoryFormat,
    Offer,
    Precision,
    Rejected,
    Request,
    Resources,
    Stack,
    Task,
    Workload,
)
from advisor.errors import NoOfferError, UsageError
from advisor.messages import Message
from advisor.records import dataclass, replace

if TYPE_CHECKING:
    from advisor.engine.model import PerformanceModel

# Powers of two, as users choose them. Above 256 a batch only costs memory and latency.
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SMALLEST_OF_MANY = 8
# Preprocessing has no accelerator to fill: the batch is only the size of a work package.
PREPROCESSING_BATCHES = (32,)


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


def query_of(request: Request) -> OfferQuery:
    """What the catalogue is asked for first: types with an accelerator where it may compute the
    task; `cpu_only_query` asks for the others."""
    accelerated = request.accelerated_only or request.task is not Task.PREPROCESSING
    return OfferQuery(
        cloud=request.cloud,
        region=request.region,
        market=request.market,
        gpus=request.gpus,
        min_gpu_memory_mib=request.min_gpu_memory_mib,
        max_gpu_memory_mib=request.max_gpu_memory_mib,
        compute_capability=request.compute_capability,
        vcpus=request.vcpus,
        memory_mib=request.memory_mib,
        accelerated=True if accelerated else None,
    )


def cpu_only_query(request: Request) -> OfferQuery:
    """The same for types without an accelerator."""
    return replace(query_of(request), accelerated=False)


def offers_of(request: Request, catalog: Catalog, query: OfferQuery | None = None) -> list[Offer]:
    """Offers in the region that is asked for; without one, of each type those in the regions
    where it could be cheapest with a disk."""
    query = query or query_of(request)
    return catalog.offers(query) if request.region else catalog.best_places(query)


def asks_for_gpu(request: Request) -> bool:
    """Whether an instance without a GPU is not what is asked for."""
    return request.accelerated_only or query_of(request).asks_for_gpu


def cpus_may_compete(request: Request) -> bool:
    """Whether a CPU may do what is asked: a network, and nothing that asks for a GPU."""
    return request.task is not Task.PREPROCESSING and not asks_for_gpu(request)


def cpu_rates_are_known(request: Request) -> bool:
    """Whether CPUs were measured with such arithmetic: eager, contiguous, in fp32."""
    eager = request.stack is Stack.EAGER and request.memory_format is MemoryFormat.CONTIGUOUS
    return eager and request.precision is Precision.FP32


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
    gpu_memory = dict.fromkeys(workloads, 0.0)
    if request.task is not Task.PREPROCESSING:
        for workload in workloads:
            gpu_memory[workload] = model.gpu_memory_mib(workload)
    for offer in offers:
        yield _runnable(request, catalog, model, offer, gpu_memory)


def candidate_resources(catalog: Catalog, candidate: Candidate) -> Resources:
    """What a candidate's workload has on one of its instances: as many GPUs as it was predicted
    with."""
    spec = candidate.spec
    return resources_of(catalog, spec.offer, spec.disk, candidate.prediction.gpus_used)


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


def _runnable(
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
        return _rejected(offer, "gpu_memory", Message(
            "needs {needed:mib} of GPU memory, has {available:mib}",
            needed=min(gpu_memory.values()), available=gpu.memory_mib,
        ))  # fmt: skip
    try:
        attached = disks_for(request, catalog, instance, offer.region)
    except (UsageError, NoOfferError) as error:
        return _rejected(offer, "no_disk", str(error))
    if not attached:
        return _rejected(offer, "no_disk", Message(
            "no {kind} of known rate and price holds the data set",
            kind=" or ".join(request.disk_types).replace(LOCAL, "local disk") or "disk",
        ))  # fmt: skip
    resources = resources_of(catalog, instance, attached[0], request.max_gpus)
    hosted = _hosted(model, fitting, resources)
    if not hosted:
        return _rejected(offer, "memory", Message(
            "needs {needed:mib} of RAM, has {available:mib}",
            needed=model.host_memory_mib(fitting[0], resources), available=instance.memory_mib,
        ))  # fmt: skip
    every = request.max_latency_ms is not None or not instance.gpu_count
    worth = tuple(hosted) if every else _worth_predicting(hosted)
    disks = catalog.disks_of(instance.cloud)
    fast = tuple(disk for disk in attached if not disks.is_hard_disk(disk.rate.type))
    if request.disk is not None or not fast:
        return Runnable(offer, attached, worth, verdict.note, max_gpus=request.max_gpus)
    slow = tuple(disk for disk in attached if disk not in fast)
    return Runnable(offer, fast, worth, verdict.note, slow, request.max_gpus)


def _hosted(
    model: PerformanceModel, rising: Sequence[Workload], resources: Resources
) -> Sequence[Workload]:
    """Those that the RAM holds; a larger batch takes no less, so that mostly one look is enough."""
    if model.host_memory_mib(rising[-1], resources) <= resources.memory_mib:
        return rising
    return [w for w in rising if model.host_memory_mib(w, resources) <= resources.memory_mib]


def _worth_predicting(workloads: Sequence[Workload]) -> tuple[Workload, ...]:
    """Batches of 8 and more where any fits: on a GPU smaller ones are never faster, only sooner
    done. Some CPUs train fastest at four."""
    large = tuple(w for w in workloads if w.batch_size >= SMALLEST_OF_MANY)
    return large or tuple(workloads)


def _rejected(offer: Offer, reason: str, detail: Message | str) -> Rejected:
    return Rejected(offer.instance.name, reason, detail, offer.price.usd_per_hour)
