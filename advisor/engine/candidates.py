"""Finds the offers that can run a request, with disks and batch sizes, and the reasons against others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog, OfferQuery, Rejection, check, is_accelerated, resources_of
from advisor.catalog.disk_orders import LOCAL
from advisor.catalog.support import most_startable, quota_shortfall
from advisor.domain import (
    FREE,
    Candidate,
    Disk,
    Gpu,
    InstanceType,
    Market,
    MemoryFormat,
    Offer,
    Precision,
    Price,
    Rejected,
    Resources,
    Stack,
    Task,
    Workload,
)
from advisor.domain.money import is_wanted
from advisor.errors import NoOfferError, UsageError
from advisor.messages import Message
from advisor.models.performance.memory.peak import usable_mib
from advisor.models.performance.model import PerformanceModel
from advisor.models.performance.settings import OVERFLOWS_IN_FP16
from advisor.questions.network import NetworkQuestion
from advisor.questions.spec import SpecQuestion as SpecRequest

DATA_SET = Message("the data set")
DISKS_OF_YOUR_OWN = Message(
    "`advisor catalog import` takes local disks of your own, and prices of a cloud's disks"
)
# Attributes of a question that filter offers; its price limit is for instance and disk together.
_OF_QUERIES = (
    *("cloud", "region", "market", "price_kinds", "listed_on", "fresh_on", "price_spread", "gpus", "vcpus"),
    *("min_gpu_memory_mib", "max_gpu_memory_mib", "compute_capability", "memory_mib"),
)


def place_query(request: SpecRequest, *, accelerated: bool | None) -> OfferQuery:
    """The catalogue query of a request; `accelerated` None keeps types with and without a GPU."""
    return OfferQuery(accelerated=accelerated, **{name: getattr(request, name) for name in _OF_QUERIES})


def offers_in(catalog: Catalog, query: OfferQuery) -> list[Offer]:
    """Offers in the query's region; without one, each type's offers where it may be cheapest."""
    return catalog.offers(query) if query.region else catalog.best_places(query)


def judged_offer(
    request: SpecRequest, catalog: Catalog, offer: Offer, *, needs_gpu: bool
) -> tuple[Message, ...] | Rejected:
    """The warnings about an offer that can run (with CUDA where `needs_gpu`), or why it is rejected."""
    instance = offer.instance
    verdict = check(instance, catalog.gpu_of(instance), needs_gpu=needs_gpu, closed=offer.closed)
    if isinstance(verdict, Rejection):
        return rejected_offer(offer, verdict.reason, verdict.detail)
    too_many = quota_shortfall(offer, request.vcpu_quota)
    return rejected_offer(offer, "quota", too_many) if too_many else verdict.notes


def offer_named(
    request: SpecRequest, catalog: Catalog, name: str, today: date | None, *, needs_gpu: bool
) -> tuple[Offer, Price | None, tuple[Message, ...] | Rejected]:
    """A named type's offer in the request's region or its cheapest, its price, and its warnings or why it
    cannot run. Without a known price, the offer's is 0, and the price is None."""
    instance = catalog.instance(name, catalog.cloud_of(name, request.cloud))
    region = request.region if instance.cloud == request.cloud else None
    query = OfferQuery(cloud=instance.cloud, region=region, market=request.market, instances=(name,))
    known, _ = catalog.cheapest(query, 1)
    if known:
        offer, price = known[0], known[0].price
    else:
        price = None
        free = Price(usd_per_hour=0.0, kind=FREE, as_of=today or date.min, source="")
        where = region or next(iter(catalog.regions_of(name, instance.cloud)), "")
        market = request.market or Market.ON_DEMAND
        closed = catalog.restriction(instance, market, where)
        offer = Offer(instance=instance, region=where, market=market, price=free, closed=closed)
    notes = judged_offer(request, catalog, offer, needs_gpu=needs_gpu)
    if isinstance(notes, Rejected) and notes.reason == "not_offered":
        return offer, price, (notes.detail,)
    return offer, price, notes


def rejected_offer(offer: Offer, reason: str, detail: Message | str) -> Rejected:
    """The record of a rejected offer."""
    instance = offer.instance
    return Rejected(instance.cloud, instance.name, reason, detail, offer.price.usd_per_hour)


def attached_disks(
    request: SpecRequest, catalog: Catalog, offer: Offer, data_gib: float, data: Message = DATA_SET
) -> tuple[Disk, ...] | Rejected:
    """The disks of `disks_holding` for an offer, or why none of them holds `data`."""
    try:
        attached = disks_holding(request, catalog, offer.instance, data_gib, offer.region)
    except (UsageError, NoOfferError) as error:
        return rejected_offer(offer, "no_disk", str(error))
    return attached or rejected_offer(
        offer,
        "no_disk",
        Message(
            "no {kind} of known rate and price holds {data}",
            kind=" or ".join(request.disk_types).replace(LOCAL, "local disk") or "disk",
            data=data,
        ),
    )


def disks_holding(
    request: SpecRequest,
    catalog: Catalog,
    instance: InstanceType,
    data_gib: float,
    region: str,
    *,
    unpriced: bool = False,
) -> tuple[Disk, ...]:
    """The request's disk, or those that the catalogue proposes for this instance, cheapest first, with the
    prices of the region. Empty where no disk with a known price holds so much. Raises `UsageError` where the
    instance cannot have the request's disk, and `NoOfferError` where its price is not known, unless it may be
    `unpriced`."""
    disks, choice = catalog.disks_of(instance.cloud), request.disk
    if choice is None:
        choices = disks.candidate_disks(instance, data_gib, region, request.disk_types)
    else:
        size_gib = choice.size_gib or disks.fitting_size(choice.type, data_gib, choice.iops)
        choices = [disks.attach(instance, replace(choice, size_gib=size_gib), region, unpriced=unpriced)]
    # The request's price kinds are for instances only, since few clouds list every disk.
    day = request.listed_on
    return tuple(disk for disk in choices if disk.price is None or is_wanted(disk.price, (), day))


# Powers of two, as users choose them. Above 256 a batch only costs memory and latency.
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# The smallest batch on a GPU, unless a sample's gmacs reach `_FILLING_GMACS`, so that a single one fills it.
SMALLEST_OF_MANY, _FILLING_GMACS = 8, 30.0
# The batch without a choice, and of preprocessing, which has no accelerator to fill.
USUAL_BATCH = 32
# Numbers of nodes beyond one: all up to eight, then in steps of a quarter at most; and the most
# that may be.
NODE_COUNTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)


class Attached(Struct, frozen=True):
    """An offer with its warnings and its disks, for any work; or why it is rejected."""

    offer: Offer
    notes: tuple[Message, ...] | Rejected
    disks: tuple[Disk, ...] | Rejected = ()


class Runnable(Struct, frozen=True):
    """An offer that can run the request, with its disks and workloads; `nodes` instances train together."""

    offer: Offer
    disks: tuple[Disk, ...]
    workloads: tuple[Workload, ...]
    notes: tuple[Message, ...]
    max_gpus: int | None = None
    nodes: int = 1


def query_of(request: NetworkQuestion) -> OfferQuery:
    """The catalogue query of a question: only types with an accelerator, unless the task is preprocessing."""
    accelerated = request.accelerated_only or request.task is not Task.PREPROCESSING
    return place_query(request, accelerated=True if accelerated else None)


def asks_for_gpu(request: NetworkQuestion) -> bool:
    """True if the request excludes instances without a GPU."""
    return request.accelerated_only or query_of(request).asks_for_gpu


def cpus_may_compete(request: NetworkQuestion) -> bool:
    """True if types without a GPU may compute the network: the request does not exclude them."""
    return request.task is not Task.PREPROCESSING and not asks_for_gpu(request)


def cpu_rates_are_known(request: NetworkQuestion) -> bool:
    """True if CPUs were measured with the request's settings: eager, contiguous, in fp32."""
    eager = request.stack is Stack.EAGER and request.memory_format in (None, MemoryFormat.CONTIGUOUS)
    return eager and request.precision in (None, Precision.FP32)


def plain_workload(request: NetworkQuestion) -> Workload:
    """The request at one batch size, in fp32 and contiguous where it leaves these to the advisor."""
    return Workload(
        network=request.network,
        task=request.task,
        batch_size=request.batch_size or USUAL_BATCH,
        precision=request.precision or Precision.FP32,
        dataset=request.dataset,
        stack=request.stack,
        memory_format=request.memory_format or MemoryFormat.CONTIGUOUS,
        tf32=request.tf32,
        input=request.input,
        protocol=request.protocol,
    )


def workloads_on(
    request: NetworkQuestion, model: PerformanceModel, gpus: Iterable[Gpu | None]
) -> dict[str, tuple[Workload, ...]]:
    """The request's workloads by GPU name ('' for a CPU, given as None), with the usual settings there, at
    each batch size, smallest first. With a latency limit, those without casts follow."""
    plain, known = plain_workload(request), {gpu.name: gpu for gpu in gpus if gpu is not None}
    settings = {"": plain} | dict.fromkeys(known, plain)
    is_open = {"precision": request.precision is None, "memory_format": request.memory_format is None}
    if known and any(is_open.values()) and request.task is not Task.PREPROCESSING:
        # Without a batch size, settings are chosen for one that keeps the GPU busy.
        busy = replace(plain, batch_size=request.batch_size or BATCH_SIZES[-1])
        least = request.batch_size or BATCH_SIZES[0]
        taken = model.usual_settings(busy, list(known.values()), smallest_batch=least, **is_open)
        settings |= zip(known, taken, strict=True)
    batches = {name: batches_of(request, workload) for name, workload in settings.items()}
    if request.max_latency_ms is not None:
        # With few samples, kernel launches take most of the time, and casts add some: all in fp16 is faster.
        in_fp16 = request.precision is None and not request.network.startswith(OVERFLOWS_IN_FP16)
        half = batches_of(request, replace(plain, precision=Precision.FP16)) if in_fp16 else batches[""]
        for name, each in list(batches.items()):
            second = half if each[0].precision is not plain.precision else batches[""]
            batches[name] = tuple(dict.fromkeys((*each, *second)))
    return batches


def batches_of(request: NetworkQuestion, workload: Workload) -> tuple[Workload, ...]:
    """The workload at each batch size to compare, smallest first."""
    if request.batch_size is not None or request.task is Task.PREPROCESSING:
        return (workload,)
    return tuple(replace(workload, batch_size=size) for size in BATCH_SIZES)


def attached(request: NetworkQuestion, catalog: Catalog, offer: Offer) -> Attached:
    """An offer with the disks that hold the request's data."""
    needs_gpu = request.task is not Task.PREPROCESSING and is_accelerated(offer.instance)
    notes = judged_offer(request, catalog, offer, needs_gpu=needs_gpu)
    if isinstance(notes, Rejected):
        return Attached(offer, notes)
    return Attached(offer, notes, attached_disks(request, catalog, offer, request.dataset.total_mib / 1024))


def runnable(
    request: NetworkQuestion, catalog: Catalog, model: PerformanceModel, offers: Sequence[Attached]
) -> Iterator[Runnable | Rejected]:
    """For each offer what can run on it, or the reason why nothing can."""
    gpus = [catalog.gpu_of(attached.offer.instance) for attached in offers]
    workloads = workloads_on(request, model, gpus)
    distinct = dict.fromkeys(workload for batches in workloads.values() for workload in batches)
    computes = request.task is not Task.PREPROCESSING
    gpu_memory = {workload: model.gpu_memory_mib(workload) if computes else 0.0 for workload in distinct}
    gmacs = model.table.of(plain_workload(request)).gmacs if request.task is Task.INFERENCE else 0.0
    for attached, gpu in zip(offers, gpus, strict=True):
        small = (
            gmacs >= _FILLING_GMACS
            or request.max_latency_ms is not None
            or not attached.offer.instance.gpu_count
        )
        on_it = workloads[gpu.name if gpu else ""]
        yield _runnable(request, catalog, model, attached, {w: gpu_memory[w] for w in on_it}, small=small)


def on_nodes(request: NetworkQuestion, option: Runnable) -> Iterator[Runnable]:
    """The option, then the same on each number of nodes that may train together; only the option itself where
    the rate of the instance's network is not known."""
    yield option
    instance = option.offer.instance
    if request.max_nodes > 1 and instance.gpu_count and instance.network is not None:
        most = int(min(request.max_nodes, most_startable(option.offer, request.vcpu_quota)))
        is_wanted = {nodes for nodes in (*NODE_COUNTS, most) if 1 < nodes <= most}
        yield from (replace(option, nodes=nodes) for nodes in sorted(is_wanted))


def candidate_resources(catalog: Catalog, candidate: Candidate) -> Resources:
    """The resources that one instance of a candidate has for its workload, with the GPUs that it uses."""
    spec = candidate.spec
    nodes = spec.count if candidate.workload.task is Task.TRAINING else 1
    return resources_of(catalog, spec.offer, spec.disk, candidate.prediction.gpus_used, nodes)


def disks_for(
    request: NetworkQuestion, catalog: Catalog, instance: InstanceType, region: str | None = None
) -> tuple[Disk, ...]:
    """The disks of `disks_holding` for the data set, by default in the request's region; prices may lack."""
    dataset_gib, place = request.dataset.total_mib / 1024, region or request.region or ""
    return disks_holding(request, catalog, instance, dataset_gib, place, unpriced=True)


def _runnable(
    request: NetworkQuestion,
    catalog: Catalog,
    model: PerformanceModel,
    attached: Attached,
    gpu_memory: dict[Workload, float],
    *,
    small: bool,
) -> Runnable | Rejected:
    """What can run on an offer, or why nothing can; with `small`, in small batches, too."""
    offer, notes, disks = attached.offer, attached.notes, attached.disks
    if isinstance(notes, Rejected):
        return notes
    instance = offer.instance
    gpu = catalog.gpu_of(instance)
    fitting = [w for w, mib in gpu_memory.items() if gpu is None or mib <= gpu.memory_mib]
    if not fitting:
        assert gpu is not None
        return rejected_offer(
            offer,
            "gpu_memory",
            Message(
                "needs up to {needed:mib} of GPU memory, and {usable:mib} of its GPU are usable",
                needed=usable_mib(min(gpu_memory.values())),
                usable=usable_mib(gpu.memory_mib),
            ),
        )
    if isinstance(disks, Rejected):
        return disks
    resources = resources_of(catalog, instance, disks[0], request.max_gpus)
    hosted = _hosted(model, fitting, resources)
    if not hosted:
        return rejected_offer(
            offer,
            "memory",
            Message(
                "needs {needed:mib} of RAM, has {available:mib}",
                needed=model.host_memory_mib(fitting[0], resources),
                available=instance.memory_mib,
            ),
        )
    large = tuple(workload for workload in hosted if small or workload.batch_size >= SMALLEST_OF_MANY)
    return Runnable(offer, disks, large or tuple(hosted), notes, request.max_gpus)


def _hosted(model: PerformanceModel, rising: Sequence[Workload], resources: Resources) -> Sequence[Workload]:
    """The workloads (`rising` by batch) that fit the RAM; if the largest batch fits, all do."""
    if model.host_memory_mib(rising[-1], resources) <= resources.memory_mib:
        return rising
    return [w for w in rising if model.host_memory_mib(w, resources) <= resources.memory_mib]
