"""Seconds until an instance serves, and the disk that keeps them.

Weights are read over the disk's sustained rate: one GPU's process reaches what the disk does once
it has four readers or more (run-ai/runai-model-streamer, docs/src/benchmarks.md: 15 GB in 14.4 s
from a gp3 of 1,000 MiB/s, and in 7.5 s from an io2 of 4,000 MiB/s, where the process binds).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from advisor.catalog import Catalog
from advisor.catalog.disk_orders import LOCAL
from advisor.domain import Disk, Offer, Rejected
from advisor.domain.language import GenerationRequest, ReadyTime
from advisor.domain.tuning import FineTuningRequest
from advisor.engine.least_disk import attached, least_order
from advisor.engine.offers import attached_disks, rejected_offer
from advisor.messages import Message
from advisor.units import ceil_significant

if TYPE_CHECKING:
    from collections.abc import Iterable

# vLLM 0.5.5, start to ready less storage to GPU, on an A10G: 20.7 and 20.8 s (the same page). Newer
# versions compile at the first start, which takes longer and is kept for later ones.
START_SECONDS = 21.0
# MiB/s that the process of one GPU reads at most: 15 GB in 7.5 s (the same page).
READER_MIB_PER_SECOND = 1900.0
# Without a limit the cheapest disk that has the model serving within so long; else the fastest.
USUAL_READY_SECONDS = 600.0
# Part of RAM that keeps what one replica has read for the next one.
_CACHED_SHARE = 0.8
WEIGHTS = Message("the weights")


def mib_to_read(weights_gib: float, memory_mib: float, replicas: int) -> float:
    """The weights once where RAM keeps them for the other replicas, else once each."""
    mib = weights_gib * 1024
    return mib if mib <= _CACHED_SHARE * memory_mib else replicas * mib


def ready_time(disk: Disk, mib: float, gpus: int) -> ReadyTime:
    """Reading so much from a disk for `gpus` GPUs, and the engine's start."""
    most = READER_MIB_PER_SECOND * gpus
    rate = min(disk.rate.read_mib_per_second or most, most)
    return ReadyTime(load_seconds=mib / rate, start_seconds=START_SECONDS)


def disks_by_price(
    request: GenerationRequest | FineTuningRequest, catalog: Catalog, offer: Offer, data_gib: float
) -> list[Disk] | Rejected:
    """Disks that hold the weights, cheapest first; the instance's own disk only where it is asked
    for, since it is empty after a stop."""
    found = attached_disks(request, catalog, offer, data_gib, WEIGHTS)
    if isinstance(found, Rejected):
        return found
    own = request.disk is not None or LOCAL in request.disk_types
    disks = [disk for disk in found if own or disk.rate.type != LOCAL]
    if not disks:
        return rejected_offer(offer, "no_disk", Message(
            "only its own disk holds the weights, and that is empty after a stop: --disk local "
            "takes it"
        ))  # fmt: skip
    return sorted(disks, key=lambda disk: disk.usd_per_hour)


def ready_disk(
    request: GenerationRequest, catalog: Catalog, offer: Offer, weights_gib: float,
    *, mib: float, gpus: int,
) -> tuple[Disk, ReadyTime] | Rejected:  # fmt: skip
    """The cheapest disk for weights of which `mib` are read by `gpus` GPUs, that has the model
    serving in time, with no more rate than that takes."""
    found = disks_by_price(request, catalog, offer, weights_gib)
    if isinstance(found, Rejected):
        return found

    def seconds(disk: Disk) -> float:
        return ready_time(disk, mib, gpus).seconds

    limit = request.max_ready_seconds or USUAL_READY_SECONDS
    if request.disk is None and START_SECONDS < limit < seconds(found[0]):
        found += _lesser(catalog, offer, found, weights_gib, mib / (limit - START_SECONDS))
    in_time = [disk for disk in found if seconds(disk) <= limit]
    if in_time:
        best = min(in_time, key=lambda disk: disk.usd_per_hour)
    else:
        best = min(found, key=lambda disk: (seconds(disk), disk.usd_per_hour))
    if in_time or request.max_ready_seconds is None:
        return best, ready_time(best, mib, gpus)
    return rejected_offer(offer, "ready", Message(
        "it serves after {seconds:,g} s with its fastest disk, above {limit:g} s",
        code="ready", seconds=ceil_significant(seconds(best)), limit=limit,
    ))  # fmt: skip


def _lesser(
    catalog: Catalog, offer: Offer, found: Iterable[Disk], weights_gib: float, mib_per_second: float
) -> list[Disk]:
    """Of every network disk that reads so fast the least order of its type that still does."""
    disks, kept = catalog.disks_of(offer.instance.cloud), []
    for disk in found:
        kind, rate = disk.choice.type, disk.rate
        if kind == LOCAL or (rate.read_mib_per_second or math.inf) < mib_per_second:
            continue
        order = least_order(
            disks.rules[kind],
            disk.choice,
            disks.fitting_size(kind, weights_gib),
            disks.passed_on(offer.instance, kind),
            (mib_per_second, 0.0),
        )
        if order != disk.choice:
            kept.append(attached(catalog, offer, order))
    return kept
