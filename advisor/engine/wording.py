"""What an answer says beside its numbers: assumptions, warnings, and why a type falls short."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from advisor.catalog.support import UNLIMITED_NOTE
from advisor.domain import (
    Candidate,
    DataKind,
    DatasetProfile,
    Disk,
    InstanceType,
    MemoryFormat,
    Precision,
    Prediction,
    Price,
    Recommendation,
    Relaxation,
    Request,
    Stage,
    Task,
    Tf32,
    Workload,
    computes_on_cpu,
)
from advisor.engine.counting import count_that_would_do
from advisor.engine.querying import cpu_rates_are_known, cpus_may_compete
from advisor.engine.runs import run_assumptions, run_relaxations, run_shortfall
from advisor.errors import StalePriceError
from advisor.units import ceil_ms, floor_rate, format_mib, format_rate, format_usd

# Prices of this age are told; on-demand prices of AWS change about once a year per family.
WARN_PRICE_DAYS = 30
# --strict refuses an instance price of this age.
STRICT_PRICE_DAYS = 90

# The reason of types whose rate is below the target.
TOO_SLOW = "too_slow"
# A disk that could read this much faster than it has to hides its burst from the throughput.
BURST_SHOWS = 0.8
# The line that ends a command has room for so many ways out.
MOST_WAYS = 5

_HOST_NAMES = {
    DataKind.TOKENS: "making tokens on the vCPUs",
    DataKind.TENSOR: "copying samples on the vCPUs",
}
# Smaller samples are told with a fraction.
_WHOLE_KILOBYTES = 10
_TF32 = {
    Tf32.CONVOLUTIONS: "TF32 in convolutions only",
    Tf32.ON: "TF32 in convolutions and matrix products",
    Tf32.OFF: "no TF32",
}
_MEMORY_FORMATS = {
    MemoryFormat.CONTIGUOUS: "contiguous",
    MemoryFormat.CHANNELS_LAST: "channels last",
}
STAGE_NAMES = {
    Stage.ACCELERATOR: "the GPU",
    Stage.HOST: "decoding on the vCPUs",
    Stage.STORAGE: "reading the disk",
    Stage.TRANSFER: "copying to the GPU",
}


def stage_name(candidate: Candidate) -> str:
    """What binds a candidate, in words; on a CPU-only instance the CPU is the accelerator."""
    stage = candidate.prediction.bottleneck
    on_cpu = computes_on_cpu(candidate.spec.offer.instance, candidate.workload)
    if stage is Stage.ACCELERATOR and on_cpu:
        return "the network on the CPU"
    if stage is Stage.HOST:
        return _HOST_NAMES.get(candidate.workload.dataset.kind, STAGE_NAMES[stage])
    return STAGE_NAMES[stage]


def chosen_assumptions(request: Request, chosen: Candidate | None) -> tuple[str, ...]:
    """What a recommendation takes for granted; None where nothing was chosen."""
    if chosen is None:
        return assumptions(request)
    return assumptions(
        request,
        Assumed(chosen.workload, chosen.prediction, chosen.spec.offer.instance),
        count=chosen.spec.count,
    )


class Assumed(NamedTuple):
    """What an answer is about."""

    workload: Workload
    prediction: Prediction
    instance: InstanceType


def assumptions(
    request: Request, chosen: Assumed | None = None, *, count: int = 1, ranked: bool = True
) -> tuple[str, ...]:
    """Everything the answer takes for granted, one short clause each; `chosen` is what runs, on
    `count` instances, `ranked` whether it was chosen among instances."""
    dataset = request.dataset
    said = [
        f"{dataset.name} ({dataset.samples:,} samples of {_kilobytes(dataset)} kB, "
        f"{dataset.storage_format}, {format_mib(dataset.total_mib)})",
        stack_assumption(request),
    ]
    reads = "read again each epoch" if request.task is Task.TRAINING else "read once, from the disk"
    said.append(f"each sample {reads}")
    if dataset.kind is DataKind.TOKENS:
        said.append("text made tokens while it is read")
    said += run_assumptions(request)
    if ranked and request.target_throughput is None:
        unit = "run" if request.run_samples else "million samples"
        said.append(f"ranked by cost per {unit} at the likely rate")
    said += _of_what_computes(request, chosen)
    if chosen is not None and request.batch_size is None:
        said.append(f"batch size {chosen.workload.batch_size} chosen by the advisor")
    if request.disk is None:
        said.append("disk sized for the data set plus 20 %")
    said.append("sustained disk rates, never burst")
    if count > 1:
        said.append(
            f"{count} instances share the samples evenly, each with a copy of the data "
            "on its own disk; they are wrong alike, so their bounds add"
        )
    return tuple(said)


def _kilobytes(dataset: DatasetProfile) -> str:
    """'110', '0.58': of one sample."""
    size = dataset.bytes_per_sample / 1000
    return f"{size:,.0f}" if size >= _WHOLE_KILOBYTES else f"{size:.2g}"


def stack_assumption(request: Request) -> str:
    """'PyTorch eager, contiguous, fp32 (TF32 in convolutions only)'."""
    said = [f"PyTorch {request.stack}"]
    if request.task is Task.PREPROCESSING:
        return f"{said[0]}, {request.precision}"
    if request.dataset.kind is not DataKind.TOKENS:
        said.append(_MEMORY_FORMATS[request.memory_format])
    rounded = f" ({_TF32[request.tf32]})" if request.precision is Precision.FP32 else ""
    said.append(f"{request.precision}{rounded}")
    if request.input:
        said.append(f"on {request.input}")
    return ", ".join(said)


def _of_what_computes(request: Request, chosen: Assumed | None) -> list[str]:
    if request.task is Task.PREPROCESSING:
        return []
    if chosen is not None and computes_on_cpu(chosen.instance, chosen.workload):
        said = ["one process computes and decodes on the same cores"]
    else:
        said = gpu_assumptions(chosen.prediction if chosen else None)
    if cpus_may_compete(request) and not cpu_rates_are_known(request):
        known = "fp32" if request.precision is not Precision.FP32 else "eager, contiguous fp32"
        said.append(f"CPU-only instances left out: their rates are known in {known} alone")
    return said


def gpu_assumptions(prediction: Prediction | None) -> list[str]:
    """How GPUs share the work; what several keep of their rate, where several do."""
    said = ["a process for each GPU, with a batch of its own"]
    if prediction and prediction.gpus_used > 1:
        said.append(scaling_text(prediction))
    return said


def scaling_text(prediction: Prediction) -> str:
    """'4 GPUs, each at 95 % of its rate alone (published scaling, modelled)'."""
    share = f"{100 * prediction.gpu_efficiency:.0f} %"
    return (
        f"{prediction.gpus_used} GPUs, each at {share} of its rate alone (published scaling "
        "efficiency, modelled)"
    )


def warnings(chosen: Candidate | None, today: date) -> tuple[str, ...]:
    """What weakens the answer and can be checked."""
    if chosen is None:
        return ()
    offer, disk = chosen.spec.offer, chosen.spec.disk
    said = [*price_warnings(offer.price, disk, today), *burst_warnings(disk, chosen.prediction)]
    said += [one for one in chosen.note.split("; ") if one and _matters(one, disk)]
    said += idle_gpus(offer.instance, chosen.workload, chosen.prediction)
    said.extend(chosen.prediction.extrapolation)
    return tuple(said)


def _matters(note: str, disk: Disk) -> bool:
    """A local disk does not care what the instance passes on to others."""
    return note != UNLIMITED_NOTE or disk.price is not None


def price_warnings(price: Price | None, disk: Disk, today: date) -> list[str]:
    """Which prices are too old to go unsaid."""
    told = (("instance", price), ("disk", disk.price))
    return [
        f"the {what} price is {age} days old ({one.as_of})"
        for what, one in told
        if one is not None and (age := (today - one.as_of).days) > WARN_PRICE_DAYS
    ]


def idle_gpus(instance: InstanceType, workload: Workload, prediction: Prediction) -> list[str]:
    """What is paid for and not used."""
    gpus, used = instance.gpu_count, prediction.gpus_used
    if gpus <= used or workload.task is Task.PREPROCESSING:
        return []
    return [f"{gpus - used} of its {gpus} GPUs stay idle: no more than {used} may be used"]


def burst_warnings(disk: Disk, prediction: Prediction) -> list[str]:
    """What a test that ends too soon would find; none where the disk has time to spare anyway."""
    storage = prediction.stage_rates.get(Stage.STORAGE)
    if disk.burst is None or storage is None or prediction.median < BURST_SHOWS * storage:
        return []
    return [f"a short test would read faster than what lasts: {burst_text(disk)}"]


def burst_text(disk: Disk) -> str:
    """'417 MiB/s and 15,700 IOPS for about 30 min (lent by g5.xlarge), then 83.4 MiB/s and ..'."""
    burst = disk.burst
    assert burst is not None
    lasting = _speed(disk.rate.read_mib_per_second or 0.0, disk.rate.read_iops or 0.0)
    first = _speed(burst.read_mib_per_second, burst.read_iops)
    lent = " and ".join(burst.causes)
    return f"{first} for about {_duration(burst.seconds)} (lent by {lent}), then {lasting}"


def _speed(mib_per_second: float, iops: float) -> str:
    return f"{mib_per_second:.3g} MiB/s and {iops:,.0f} IOPS"


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def require_fresh_price(chosen: Candidate, today: date) -> None:
    """Refuse an instance price that is too old to decide by; disk prices are dated apart."""
    price = chosen.spec.offer.price
    age = (today - price.as_of).days
    if age > STRICT_PRICE_DAYS:
        raise StalePriceError(
            f"the price of {chosen.spec.offer.instance.name} is {age} days old ({price.as_of}) and "
            f"--strict allows {STRICT_PRICE_DAYS}; refresh it (aws: `advisor catalog refresh`, "
            "--live), or ask without --strict"
        )


def shortfall(request: Request, candidate: Candidate) -> tuple[str, str]:
    """Reason and detail of a type that runs and is still not recommended."""
    prediction = candidate.prediction
    target, limit = request.target_throughput, request.max_usd_per_hour
    if not (prediction.calibrated or request.allow_extrapolation):
        return "no_interval", "no calibrated interval for it (--allow-extrapolation judges it)"
    if not soon_enough(request, candidate):
        return "latency", _latency_detail(request, candidate)
    if target is not None and prediction.lower < target:
        return TOO_SLOW, SlowWords(candidate).detail(target)
    of_run = run_shortfall(request, candidate)
    if of_run:
        return of_run
    assert limit is not None
    total = candidate.spec.total_usd_per_hour
    return "over_max_price", f"{format_usd(total)}/h is above {format_usd(limit)}/h"


class SlowWords:
    """Why a candidate is too slow, for one target after the other."""

    def __init__(self, candidate: Candidate) -> None:
        lower = floor_rate(candidate.prediction.lower)
        self._median = candidate.prediction.median
        self._reached = f"{_surely(candidate)} {lower:,g}/s only"
        self._bound = f"bound by {stage_name(candidate)}"

    def detail(self, target: float) -> str:
        """'surely reaches 120/s only, not 500; bound by the GPU'."""
        at_median = "" if self._median < target else ", though its median does"
        return f"{self._reached}, not {format_rate(target)}{at_median}; {self._bound}"


def _surely(candidate: Candidate) -> str:
    """Who reaches it: the instance, or as many of it as may be asked for."""
    count = candidate.spec.count
    return f"{count} of it surely reach" if count > 1 else "surely reaches"


def soon_enough(request: Request, candidate: Candidate) -> bool:
    """Whether 99 in 100 batches surely take no longer than is asked for."""
    limit, latency = request.max_latency_ms, candidate.latency
    return limit is None or (latency is not None and 1000 * latency.p99_seconds <= limit)


def _latency_detail(request: Request, candidate: Candidate) -> str:
    latency, limit = candidate.latency, request.max_latency_ms
    assert latency is not None
    return (
        f"99 in 100 batches of {candidate.workload.batch_size} surely take "
        f"{ceil_ms(latency.p99_seconds):,g} ms or less, not {limit:g} ms"
    )


def no_offer(answer: Recommendation) -> str:
    """One line for exit code 3: what comes nearest, and what to relax."""
    request, nearest = answer.request, answer.nearest
    enough = [_change_text(one) for one in answer.relaxations[:MOST_WAYS]]
    cloud = "any cloud" if request.cloud == "any" else request.cloud
    where = f"{cloud} {request.region or 'in all regions'} ({request.market})"
    if nearest is None:
        return f"{_none_of(answer, where)}; {_way_out(answer, enough)}"
    relax = enough or _relaxations(request, nearest)
    count = count_that_would_do(request, nearest) if not _limited(request, nearest) else None
    if count is not None:
        relax.append(f"--max-count to {count}")
    if answer.beyond_price is not None and not enough:
        relax.append(f"--max-price to {_needed_price(answer.beyond_price)}")
    ways = f"; relax {' or '.join(relax)}" if relax else ""
    return f"no offer of {where} meets this: nearest is {_named(nearest)}{ways}"


def _none_of(answer: Recommendation, where: str) -> str:
    reasons = answer.rejected_by_reason
    if not reasons:
        return f"no type of {where} is like what is asked for"
    counts = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return f"none of the {len(answer.rejected)} types of {where} does this: {counts}"


def _way_out(answer: Recommendation, enough: Sequence[str]) -> str:
    """What to do where nothing even runs."""
    request = answer.request
    if enough:
        return f"relax {' or '.join(enough)}"
    if "no_disk" in answer.rejected_by_reason and not (request.disk or request.disk_types):
        return (
            "`advisor catalog import` takes local disks of your own, and prices of a cloud's disks"
        )
    elsewhere = "" if request.cloud == "any" else "; --cloud any looks elsewhere"
    return f"--explain-rejected says why{elsewhere}"


def _change_text(one: Relaxation) -> str:
    """'--max-price to 1.014', or several of them 'with' each other."""
    return " with ".join(
        f"{change.option} to {change.after}" if change.after else f"no {change.option}"
        for change in one.changes
    )


def _relaxations(request: Request, nearest: Candidate) -> list[str]:
    """What to relax so that `nearest` answers: everything that fails, together."""
    if not _within(request, nearest):
        return []
    lower, upper = nearest.prediction.lower, nearest.prediction.upper
    slow = request.target_throughput is not None and lower < request.target_throughput
    slower = f"--target-throughput to {floor_rate(lower):g} or less"
    limits = run_relaxations(request, nearest)
    if not soon_enough(request, nearest):
        latency = nearest.latency.p99_seconds if nearest.latency else math.inf
        limits.insert(0, f"--max-latency-ms to {ceil_ms(latency):g} or more")
    if limits:
        return [" with ".join([*limits, slower] if slow else limits)]
    if not slow:
        return []
    return [slower, "--confidence"] if upper >= (request.target_throughput or 0) else [slower]


def _limited(request: Request, nearest: Candidate) -> bool:
    """Whether more than its rate keeps it from being the answer."""
    return bool(run_relaxations(request, nearest)) or not soon_enough(request, nearest)


def _within(request: Request, candidate: Candidate) -> bool:
    limit = request.max_usd_per_hour
    return limit is None or candidate.spec.total_usd_per_hour <= limit


def _named(candidate: Candidate) -> str:
    prediction, spec = candidate.prediction, candidate.spec
    return (
        f"{spec.name} with {floor_rate(prediction.lower):,g}/s for sure "
        f"({format_rate(prediction.median)} likely) at {format_usd(spec.total_usd_per_hour)}/h, "
        f"bound by {stage_name(candidate)}"
    )


def _needed_price(candidate: Candidate) -> str:
    """Rounded up, so that the hint really works when typed."""
    price = math.ceil(candidate.spec.total_usd_per_hour * 1000) / 1000
    return f"{price:g} ({candidate.spec.name})"
