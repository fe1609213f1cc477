"""Texts of the assumptions and warnings of an answer about a network."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import date

from advisor.catalog.assumed import (
    LOCAL_READ_IOPS,
    NETWORK_LIMIT,
    READ_IOPS,
    READ_MIB_S,
    SERIES,
    SERIES_CORES,
    THREADS_PER_CORE,
    USD_PER_GIB_MONTH,
)
from advisor.catalog.support import UNLIMITED_NOTE
from advisor.domain import (
    Candidate,
    DataKind,
    DatasetProfile,
    Disk,
    InstanceType,
    Market,
    MemoryFormat,
    Precision,
    Prediction,
    Price,
    Protocol,
    Spec,
    Stack,
    Stage,
    Task,
    Tf32,
    Workload,
    computes_on_cpu,
)
from advisor.domain.decision import AnyCandidate
from advisor.domain.money import is_old, term_hours
from advisor.domain.results import BARE_STEP, DECIDES, START
from advisor.engine.candidates import cpu_rates_are_known, cpus_may_compete
from advisor.engine.limits import good_share
from advisor.messages import FieldName, Message, ceil_span, format_counted
from advisor.naming import other_names, sample_size
from advisor.questions.language import ServingQuestion, TuningQuestion
from advisor.questions.network import NetworkQuestion
from advisor.questions.spec import SpecQuestion, start_hours

# Where the rate needs less than this share of the disk's sustained rate, a burst changes nothing.
BURST_SHOWS = 0.8
# Enlarging images to more than this many times their pixels is an assumption worth a text.
_ENLARGED = 2
# Sizes of samples below this are written with a fraction.
_WHOLE_KILOBYTES = 10
_TF32 = {
    Tf32.CONVOLUTIONS: Message("TF32 in convolutions only"),
    Tf32.ON: Message("TF32 in convolutions and matrix products"),
    Tf32.OFF: Message("no TF32"),
}
_MEMORY_FORMATS = {
    MemoryFormat.CONTIGUOUS: Message("contiguous"),
    MemoryFormat.CHANNELS_LAST: Message("channels last"),
}


def assumptions(
    request: NetworkQuestion, chosen: Candidate | None, *, ranked: bool = True
) -> tuple[Message, ...]:
    """The assumptions of an answer, one short clause each; `chosen` is the candidate that runs (None: none
    does), `ranked` is whether it was chosen among instances."""
    messages = [*script_assumption(request, chosen.prediction if chosen else None)]
    if chosen is not None:
        messages += assumed_facts(request, chosen.spec.offer.instance, chosen.spec.disk)
    if request.disk is None and request.dataset.is_read:
        messages.append(_disk_assumption(request, chosen if ranked else None))
    messages += _data_assumptions(request, chosen.workload if chosen else None)
    messages += _run_assumptions(request)
    if chosen is not None and (hours := chosen.first_epoch) is not None:
        messages.append(
            Message(
                "the first epoch, all of it from the disk, takes up to {upper:hours} (median "
                "{median:hours}, {percent:g} % confidence)",
                upper=ceil_span(hours.upper),
                median=hours.median,
                percent=100 * request.confidence,
            )
        )
    if ranked:
        cost = Message("cost per run") if request.ends else Message("cost per million samples")
        messages += ranking_assumptions(request, chosen, cost)
    messages += _process_assumptions(request, chosen)
    if chosen is not None and request.batch_size is None:
        text = Message("batch size {size}: the smallest within {percent:.0f} % of the fastest")
        percent, size = 100 * (1 - good_share(request)), chosen.workload.batch_size
        messages.append(Message(text.text, size=size, percent=percent))
    messages.append(Message("sustained disk rates, never burst; the disk of the system is not counted"))
    if request.stack is Stack.COMPILE and request.task is not Task.PREPROCESSING:
        messages.append(Message("compiling, minutes at the start, not counted in rates"))
    messages += _count_assumptions(request, chosen)
    if request.max_nodes > 1:
        messages.append(Message("more than one node only of types whose network's rate is known"))
    return (*messages, *other_names(request))


def _disk_assumption(request: NetworkQuestion, chosen: Candidate | None) -> Message:
    """The assumption about the disk's size, with the disk's share of the price."""
    if chosen is None or not (usd := chosen.spec.count * chosen.spec.disk.usd_per_hour):
        return Message("disk sized for the data set plus 20 %")
    if request.task is not Task.INFERENCE or request.dataset_samples is not None:
        return Message("disk sized for the data set plus 20 %, {usd:usd}/h of the price", usd=usd)
    return Message(
        "samples come from a disk that holds {name} ({usd:usd}/h of the price); if they arrive by network: "
        "{option} requests",
        code=DECIDES,
        usd=usd,
        name=request.dataset.name,
        option=FieldName("dataset"),
    )


_NAMED_DATA = Message(
    "data set {name}: {samples:,} samples of {kilobytes} kB, {storage}, {size:mib} ({option})"
)
_YOUR_DATA = Message(
    "your {samples:,} samples, each as in {name}: {kilobytes} kB, {storage}, {size:mib} ({option})"
)


def _data_assumptions(request: NetworkQuestion, workload: Workload | None) -> Iterator[Message]:
    """Assumptions about the data, the arithmetic, and the size of a sample."""
    dataset, size = request.dataset, sample_size(request)
    made_up = dataset.kind is not DataKind.IMAGE
    if dataset.is_read:
        yield Message(
            (_NAMED_DATA if request.dataset_samples is None else _YOUR_DATA).text,
            code="" if "/" in dataset.name else DECIDES,
            name=dataset.name,
            samples=dataset.samples,
            kilobytes=_kilobytes(dataset),
            storage=dataset.storage_format,
            size=dataset.total_mib,
            # What makes a run of epochs long, where the name tells no size.
            option=FieldName("dataset_samples" if made_up and request.epochs else "dataset"),
        )
    else:
        yield Message(
            "no data set is read: requests of {kilobytes} kB come over the network",
            kilobytes=_kilobytes(dataset),
        )
    if made_up:
        yield from _sample_assumptions(request, size)
    yield stack_assumption(request, workload)
    taken = [int(pixels) for pixels in re.findall(r"\d+", request.sample_input or "")][-2:]
    if (
        size
        and dataset.kind is DataKind.IMAGE
        and dataset.is_read
        and math.prod(taken) > _ENLARGED * dataset.pixels
    ):
        yield Message(
            "images enlarged from {width} x {height} to {wide} x {high} pixels ({option})",
            code=DECIDES,
            width=dataset.width,
            height=dataset.height,
            wide=taken[1],
            high=taken[0],
            option=FieldName("input"),
        )
    if request.task is Task.TRAINING:
        yield Message("every epoch reads the data again")
    elif dataset.is_read:
        yield Message("each sample read once, from the disk")
    if dataset.kind is DataKind.TOKENS:
        yield Message("text made tokens while it is read")
    if dataset.steps:
        yield Message("encoding an image's text and decoding it are not counted")


def _sample_assumptions(request: NetworkQuestion, size: Message | None) -> Iterator[Message]:
    """Assumptions about the size of a sample; of a network that writes text, that one pass is meant."""
    if size and request.writes_text and request.task is Task.INFERENCE:
        yield Message(
            "{size} ({option}) in one pass; writing text takes a pass a token",
            code=DECIDES,
            size=size,
            option=FieldName("input"),
        )
    elif size and not request.input:
        yield Message("{size} ({option})", code=DECIDES, size=size, option=FieldName("input"))


def _count_assumptions(request: NetworkQuestion, chosen: Candidate | None) -> Iterator[Message]:
    """Assumptions about several instances that share the work, or train together."""
    if chosen is None or (count := chosen.spec.count) == 1:
        return
    network = chosen.spec.offer.instance.network
    if request.task is not Task.TRAINING or network is None:
        yield Message(
            "{count} instances share the samples evenly, each with a copy of the data on its own disk; p10 "
            "of all is {count} times that of one",
            count=count,
        )
        return
    yield Message(
        "{count} nodes train together in one placement group, each with a copy of the data on its own disk "
        "and at {percent:.0f} % of its rate alone",
        count=count,
        percent=100 * chosen.prediction.node_efficiency,
    )
    yield Message(
        "a step trains {samples:,} samples, a batch of {batch} on each GPU",
        samples=count * chosen.prediction.gpus_used * chosen.workload.batch_size,
        batch=chosen.workload.batch_size,
    )
    yield Message(
        "nodes average fp32 gradients over {rate:g} Gbit/s, never burst ({source}): at the median during "
        "the backward pass, at p10 after it",
        rate=network.gbit_per_second,
        source=network.source,
    )
    if network.takes_several_cards:
        yield Message("that rate takes EFA on all network cards of a node")


# The suffix of a seller's types on hosts that other people own.
_COMMUNITY_SUFFIX = ".community"


def market_warnings(spec: Spec) -> Iterator[Message]:
    """Warnings about a commitment's total cost, a spot instance's interruptions, and other people's hosts."""
    market, instance = spec.offer.market, spec.offer.instance
    hours = term_hours(market)
    if instance.name.endswith(_COMMUNITY_SUFFIX):
        whose = Message("other people own community hosts; {cloud} only lists them")
        yield Message(whose.text, code=str(market), cloud=instance.cloud)
    if market is Market.SPOT:
        taken = Message("the cloud may take a spot instance back; restarts and the work lost are not counted")
        yield Message(taken.text, code=str(market))
    if hours:
        text = _TERM_BESIDE_DISK if spec.disk.usd_per_hour else _TERM
        usd, beside = (hours * spec.count * each.usd_per_hour for each in (spec.offer.price, spec.disk))
        yield Message(text.text, code=str(market), usd=usd, hours=hours, disk=beside)


_TERM = Message("the whole term of the commitment is paid: {usd:usd} for {hours:,.0f} hours")
_TERM_BESIDE_DISK = Message(
    "the whole term of the commitment is paid: {usd:usd} for {hours:,.0f} hours, and {disk:usd} for the disk"
)


_LEVEL = (
    Message("{ranked}; where costs are equal within the error, measured GPUs, then lower prices come first"),
    Message("{ranked}; where costs are equal within the error, measured GPUs, then quicker runs come first"),
)


def ranking_assumptions(
    request: NetworkQuestion | ServingQuestion | TuningQuestion, chosen: AnyCandidate | None, cost: Message
) -> list[Message]:
    """The assumption about the ranking: by price where there is a target, else by `cost`, and misses."""
    can_miss = (chosen is None or chosen.probability is not None) and not request.is_sure
    if request.ranks_by_price:
        miss = Message("ranked by price x (1 + the chance of a miss)")
        return [miss] if can_miss else []
    if request.owes_term:
        cost = Message("cost of the whole term, for runs within {hours:hours},", hours=request.horizon_hours)
    ranked = Message("ranked by {cost} at the median rate", cost=cost)
    if can_miss:
        ranked = Message("{ranked} x (1 + the chance of a miss)", ranked=ranked)
    if not request.has_equal_costs:
        return [ranked]
    return [Message(_LEVEL[request.ends].text, ranked=ranked)]


def _run_assumptions(request: NetworkQuestion) -> Iterator[Message]:
    """Assumptions about the time and the cost of a run."""
    if request.run_samples is None:
        return
    length = format_counted(request.run_samples, "sample")
    if request.epochs is None:
        yield Message("a run of {length}", length=length)
    else:
        epochs = format_counted(request.epochs, "epoch")
        yield Message("a run of {epochs} ({length})", epochs=epochs, length=length)
    if request.task is Task.TRAINING:
        yield Message("its first epoch reads from the disk, later ones what RAM does not cache")
    yield start_assumption(request)


def start_assumption(request: NetworkQuestion | TuningQuestion) -> Message:
    """The assumption about the minutes of a run's start, before any work is done."""
    return Message(
        "a start of {minutes:g} min counted ({option}), validation and checkpoints not",
        code=START,
        minutes=60 * start_hours(request),
        option=FieldName("start_minutes"),
    )


def _kilobytes(dataset: DatasetProfile) -> str:
    """The kB of one sample as text, as in '110' or '0.58'."""
    size = dataset.bytes_per_sample / 1000
    return f"{size:,.0f}" if size >= _WHOLE_KILOBYTES else f"{size:.2g}"


def stack_assumption(request: NetworkQuestion, workload: Workload | None) -> Message:
    """The software as text, 'PyTorch eager, contiguous, fp32 (TF32 in convolutions only)': that of `workload`
    or, with None (no workload, or several), of the request."""
    stack = Message("PyTorch {stack}", stack=request.stack)
    precision = workload.precision if workload else request.precision
    if request.task is Task.PREPROCESSING:
        return Message("{parts}", parts=[stack, str(precision or Precision.FP32)])
    parts: list[Message | str] = [stack]
    layout = workload.memory_format if workload else request.memory_format
    if request.dataset.kind is not DataKind.TOKENS and layout is not None:
        parts.append(_MEMORY_FORMATS[layout])
    if precision is None:
        parts.append(Message("the precision of each GPU's tensor cores"))
    elif precision is Precision.FP32:
        parts.append(Message("{precision} ({tf32})", precision=str(precision), tf32=_TF32[request.tf32]))
    else:
        parts.append(str(precision))
    if request.dataset.kind is DataKind.IMAGE and (size := sample_size(request)):
        parts.append(Message("on {input}", input=size))
    return Message("{parts}", parts=parts)


def script_assumption(request: NetworkQuestion, prediction: Prediction | None) -> Iterator[Message]:
    """The assumption that the rate is of a training script, with the rate of its bare step."""
    if request.protocol is Protocol.BENCH:
        yield Message("a bare step: scripts take longer around it")
    elif rate := prediction.bare_step if prediction else None:
        yield Message(
            "a typical training script; its training step alone would reach {rate:rate}/s on one GPU",
            code=BARE_STEP,
            rate=rate,
        )


def _process_assumptions(request: NetworkQuestion, chosen: Candidate | None) -> Iterator[Message]:
    if request.task is Task.PREPROCESSING:
        return
    if chosen is not None and computes_on_cpu(chosen.spec.offer.instance, chosen.workload):
        yield Message("one process computes and decodes on the same cores")
    else:
        yield Message("a process for each GPU, with a batch of its own")
        if chosen is not None and chosen.prediction.gpus_used > 1:
            yield Message(
                "{gpus} GPUs, each at {percent:.0f} % of its rate alone (published scaling efficiency, "
                "modelled)",
                gpus=chosen.prediction.gpus_used,
                percent=100 * chosen.prediction.gpu_efficiency,
            )
    if cpus_may_compete(request) and not cpu_rates_are_known(request):
        known = "fp32" if request.precision not in (None, Precision.FP32) else "eager, contiguous fp32"
        yield Message("CPU-only instances left out: their rates are known in {known} alone", known=known)


def warnings(chosen: Candidate, today: date) -> tuple[Message | str, ...]:
    """The warnings of an answer: weaknesses that a reader can check."""
    offer, disk = chosen.spec.offer, chosen.spec.disk
    messages: list[Message | str] = [
        *market_warnings(chosen.spec),
        *price_warnings(offer.price, disk, today),
        *burst_warnings(disk, chosen.prediction),
    ]
    if chosen.spec.count > 1 and chosen.workload.task is Task.INFERENCE:
        messages.append(Message("a load balancer shares requests among instances; it is not counted"))
    # A local disk does not depend on the instance's rate to network disks.
    messages += [note for note in chosen.notes if note != UNLIMITED_NOTE or disk.price is not None]
    messages += idle_gpus(offer.instance, chosen.workload, chosen.prediction)
    messages.extend(chosen.prediction.extrapolation)
    return tuple(messages)


def price_warnings(price: Price | None, disk: Disk, today: date) -> list[Message]:
    """Warnings about old prices, and about prices that only the seller knows."""
    messages = (
        (price, Message("the instance price is {age} days old ({as_of})")),
        (disk.price, Message("the disk price is {age} days old ({as_of})")),
    )
    old = [
        Message(message.text, code="price", age=(today - paid.as_of).days, as_of=paid.as_of.isoformat())
        for paid, message in messages
        if paid is not None and is_old(paid, today)
    ]
    notes = [paid.note for paid, _ in messages if paid is not None and paid.note]
    return [*old, *(Message(note, code="price") for note in dict.fromkeys(notes))]


def idle_gpus(instance: InstanceType, workload: Workload, prediction: Prediction) -> Iterator[Message]:
    """A warning about GPUs that are paid for and not used, if any."""
    gpus, used = instance.gpu_count, prediction.gpus_used
    if gpus > used and workload.task is not Task.PREPROCESSING:
        yield Message(
            "{idle} of its {gpus} GPUs stay idle: no more than {used} may be used",
            idle=gpus - used,
            gpus=gpus,
            used=used,
        )


def burst_warnings(disk: Disk, prediction: Prediction) -> Iterator[Message]:
    """A warning that a short test would measure the burst rate; none where the disk is fast enough anyway."""
    burst, storage = disk.burst, prediction.stage_rates.get(Stage.STORAGE)
    if burst is None or storage is None or prediction.median < BURST_SHOWS * storage:
        return
    yield Message(
        "the disk bursts, so a short test misleads: {burst:.3g} MiB/s and {burst_iops:,.0f} IOPS for about "
        "{hours:hours} (burst of {causes}), then {rate:.3g} MiB/s and {iops:,.0f} IOPS",
        burst=burst.read_mib_per_second,
        burst_iops=burst.read_iops,
        hours=burst.seconds / 3600,
        causes=" and ".join(burst.causes),
        rate=disk.rate.read_mib_per_second or 0.0,
        iops=disk.rate.read_iops or 0.0,
    )


_RATE = Message("{value:,g} MiB/s ({low:,g} to {high:,g})")
_IOPS = Message("{value:,.0f} IOPS ({low:,.0f} to {high:,.0f})")
_KINDS = {
    READ_MIB_S: _RATE,
    READ_IOPS: _IOPS,
    LOCAL_READ_IOPS: _IOPS,
    USD_PER_GIB_MONTH: Message("${value:g} a GiB-month ({low:g} to {high:g})"),
}


# GCP's Persistent Disks: pd-standard, pd-balanced, pd-ssd.
_PERSISTENT = "pd-"
_BY_SERIES = {
    SERIES: Message("RAM and cores of {name} follow its series' name, not checked"),
    SERIES_CORES: Message("cores of {name} follow its series' name, not checked"),
}


def assumed_facts(request: SpecQuestion, instance: InstanceType, disk: Disk) -> Iterator[Message]:
    """Texts about assumed facts of the disk and of the host, if any."""
    if request.disk is None and not request.disk_types:
        yield from _uncompared_disks(instance, disk)
    kind = "local" if disk.is_local else disk.rate.type
    parts = [  # '200 MiB/s (120 to 480)'
        Message(_KINDS[fact.name.rpartition(".")[2]].text, value=fact.value, low=fact.low, high=fact.high)
        for fact in disk.assumed
    ]
    if parts and all(fact.imported for fact in disk.assumed):
        yield Message(
            "{cloud}'s {kind} disk has {parts}: imported", cloud=instance.cloud, kind=kind, parts=parts
        )
    elif parts:
        yield Message(
            "{cloud}'s {kind} disk has {parts}: not known, assumed",
            cloud=instance.cloud,
            kind=kind,
            parts=parts,
        )
    for fact in instance.assumed:
        if fact.name in _BY_SERIES:
            yield Message(_BY_SERIES[fact.name].text, name=instance.name)
        if fact.name == THREADS_PER_CORE and not fact.imported:
            yield Message(
                "{cloud} sells {threads:g} vCPUs per core: not known, assumed",
                cloud=instance.cloud,
                threads=fact.value,
            )
        if fact.name == NETWORK_LIMIT and not disk.is_local:
            yield Message(
                "{name} passes on {limit:g} MB/s a vCPU to network disks ({low:g} to {high:g}, assumed)",
                name=instance.name,
                limit=fact.value,
                low=fact.low,
                high=fact.high,
            )


def _uncompared_disks(instance: InstanceType, disk: Disk) -> Iterator[Message]:
    """Texts about disks that the instance could have, but whose rate or price is not known."""
    if instance.cloud == "gcp" and disk.rate.type.startswith(_PERSISTENT):
        yield Message("Hyperdisk is not compared: its rates and prices are not known here")
    if not disk.is_local and instance.instance_store_gib and not (instance.instance_store_read_iops):
        yield Message(
            "the local disk of {name} is not compared: its rate is not published", name=instance.name
        )
