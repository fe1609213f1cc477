"""What an answer says beside its numbers: assumptions, warnings, and why a type falls short."""

from __future__ import annotations

import math
from datetime import date

from advisor.domain import Candidate, Disk, Precision, Recommendation, Request, Stage, Task
from advisor.errors import StalePriceError
from advisor.recommend.cpu_only import LEFT_OUT_FORMAT, may_compete
from advisor.recommend.runs import run_assumptions, run_relaxations, run_shortfall
from advisor.units import ceil_ms, floor_rate, format_mib, format_rate, format_usd

# Prices of this age are told; on-demand prices of AWS change about once a year per family.
WARN_PRICE_DAYS = 30
# --strict refuses an instance price of this age.
STRICT_PRICE_DAYS = 90

# A disk that could read this much faster than it has to hides its burst from the throughput.
BURST_SHOWS = 0.8

STAGE_NAMES = {
    Stage.ACCELERATOR: "the GPU",
    Stage.HOST: "decoding on the vCPUs",
    Stage.STORAGE: "reading the disk",
    Stage.TRANSFER: "copying to the GPU",
}


def stage_name(candidate: Candidate) -> str:
    """What binds a candidate, in words; on a CPU-only instance the CPU is the accelerator."""
    stage = candidate.prediction.bottleneck
    if stage is Stage.ACCELERATOR and on_its_cpu(candidate):
        return "the network on the CPU"
    return STAGE_NAMES[stage]


def on_its_cpu(candidate: Candidate) -> bool:
    """Whether the network runs on the instance's CPU."""
    no_gpu = candidate.spec.offer.instance.gpu_name is None
    return no_gpu and candidate.workload.task is not Task.PREPROCESSING


def assumptions(request: Request, chosen: Candidate | None) -> tuple[str, ...]:
    """Everything the answer takes for granted, one short clause each."""
    dataset = request.dataset
    said = [
        f"{dataset.name} ({dataset.samples:,} samples of {dataset.bytes_per_sample / 1000:.0f} kB, "
        f"{dataset.storage_format}, {format_mib(dataset.total_mib)})",
        f"PyTorch eager, {request.precision}",
    ]
    reads = "read again each epoch" if request.task is Task.TRAINING else "read once, from the disk"
    said.append(f"each sample {reads}")
    said += run_assumptions(request)
    if request.target_throughput is None:
        unit = "run" if request.run_samples else "million samples"
        said.append(f"ranked by cost per {unit} at the likely rate")
    said += _of_what_computes(request, chosen)
    if chosen is not None and request.batch_size is None:
        said.append(f"batch size {chosen.workload.batch_size} chosen by the advisor")
    if request.disk is None:
        said.append("disk sized for the data set plus 20 %")
    said.append("sustained disk rates, never burst")
    return tuple(said)


def _of_what_computes(request: Request, chosen: Candidate | None) -> list[str]:
    if request.task is Task.PREPROCESSING:
        return []
    said = ["one process on one GPU, further GPUs idle"]
    if chosen is not None and on_its_cpu(chosen):
        said = ["one process computes and decodes on the same cores"]
    if may_compete(request) and request.precision is not Precision.FP32:
        said.append(LEFT_OUT_FORMAT)
    return said


def warnings(chosen: Candidate | None, today: date) -> tuple[str, ...]:
    """What weakens the answer and can be checked."""
    if chosen is None:
        return ()
    said = []
    price, disk_price = chosen.spec.offer.price, chosen.spec.disk.price
    age = (today - price.as_of).days
    if age > WARN_PRICE_DAYS:
        said.append(f"the instance price is {age} days old ({price.as_of})")
    if disk_price is not None and (today - disk_price.as_of).days > WARN_PRICE_DAYS:
        disk_age = (today - disk_price.as_of).days
        said.append(f"the disk price is {disk_age} days old ({disk_price.as_of})")
    burst = _burst_warning(chosen)
    said += [burst] if burst else []
    if chosen.note:
        said.append(chosen.note)
    gpus = chosen.spec.offer.instance.gpu_count
    if gpus > 1 and chosen.workload.task is not Task.PREPROCESSING:
        said.append(f"{gpus - 1} of its {gpus} GPUs stay idle: one process uses one GPU")
    said.extend(chosen.prediction.extrapolation)
    return tuple(said)


def _burst_warning(chosen: Candidate) -> str | None:
    """What a test that ends too soon would find; None where the disk has time to spare anyway."""
    disk, rates = chosen.spec.disk, chosen.prediction.stage_rates
    storage = rates.get(Stage.STORAGE)
    if disk.burst is None or storage is None or chosen.prediction.median < BURST_SHOWS * storage:
        return None
    return f"a short test would read faster than what lasts: {burst_text(disk)}"


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
            f"--strict allows {STRICT_PRICE_DAYS}; rebuild the catalogue, or ask without --strict"
        )


def shortfall(request: Request, candidate: Candidate) -> tuple[str, str]:
    """Reason and detail of a type that runs and is still not recommended."""
    prediction = candidate.prediction
    target, limit = request.target_throughput, request.max_usd_per_hour
    if not (prediction.calibrated or request.allow_extrapolation):
        return "no_interval", "no calibrated interval for it (--allow-extrapolation shows it)"
    if not soon_enough(request, candidate):
        return "latency", _latency_detail(request, candidate)
    if target is not None and prediction.lower < target:
        at_median = "" if prediction.median < target else ", though its median does"
        return (
            "too_slow",
            f"surely reaches {floor_rate(prediction.lower):,g}/s only, not "
            f"{format_rate(target)}{at_median}; bound by {stage_name(candidate)}",
        )
    of_run = run_shortfall(request, candidate)
    if of_run:
        return of_run
    assert limit is not None
    total = candidate.spec.total_usd_per_hour
    return "over_max_price", f"{format_usd(total)}/h is above {format_usd(limit)}/h"


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
    where = f"{request.cloud} {request.region or 'in all regions'} ({request.market})"
    if nearest is None:
        return (
            f"none of the {answer.offers_considered} offers of {where} can run this; "
            "--explain-rejected says why"
        )
    relax = _relaxations(request, nearest)
    if answer.beyond_price is not None:
        relax.append(f"--max-price to {_needed_price(answer.beyond_price)}")
    ways = f"; relax {' or '.join(relax)}" if relax else ""
    return f"no offer of {where} meets this: nearest is {_named(nearest)}{ways}"


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


def _within(request: Request, candidate: Candidate) -> bool:
    limit = request.max_usd_per_hour
    return limit is None or candidate.spec.total_usd_per_hour <= limit


def _named(candidate: Candidate) -> str:
    prediction, spec = candidate.prediction, candidate.spec
    return (
        f"{spec.offer.instance.name} with {floor_rate(prediction.lower):,g}/s for sure "
        f"({format_rate(prediction.median)} likely) at {format_usd(spec.total_usd_per_hour)}/h, "
        f"bound by {stage_name(candidate)}"
    )


def _needed_price(candidate: Candidate) -> str:
    """Rounded up, so that the hint really works when typed."""
    price = math.ceil(candidate.spec.total_usd_per_hour * 1000) / 1000
    return f"{price:g} ({candidate.spec.offer.instance.name})"
