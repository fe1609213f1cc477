"""Seconds until an instance serves, and the disk that keeps them
(`advisor.models.language.support`)."""

from __future__ import annotations

import math

from advisor.catalog import Catalog
from advisor.domain import Disk, Offer, Rejected
from advisor.domain.language import ReadyTime
from advisor.engine.disks import disks_by_price, least_disks
from advisor.engine.offers import rejected_offer
from advisor.messages import Message
from advisor.models.language.support import START, load_seconds
from advisor.questions.language import ServingQuestion
from advisor.units import ceil_significant

# Without a limit the cheapest disk that has the model serving within so long; else the fastest.
USUAL_READY_SECONDS = 600.0
# Part of RAM that keeps what one replica has read for the next one.
_CACHED_SHARE = 0.8


def gib_to_read(weights_gib: float, memory_mib: float, replicas: int) -> float:
    """The weights once where RAM keeps them for the other replicas, else once each."""
    kept = weights_gib * 1024 <= _CACHED_SHARE * memory_mib
    return weights_gib if kept else replicas * weights_gib


def ready_time(mib_per_second: float | None, gib: float, gpus: int) -> ReadyTime:
    """Reading so much from a disk of a rate (None: not limited) for `gpus` GPUs, and the engine's
    start."""
    load = load_seconds(1024 * gib, mib_per_second or math.inf, gpus)
    return ReadyTime(
        load_seconds=load.median, start_seconds=START.median, upper_seconds=load.plus(START).upper
    )


def ready_disk(
    request: ServingQuestion, catalog: Catalog, offer: Offer, weights_gib: float, *, gib: float, gpus: int
) -> tuple[Disk, ReadyTime] | Rejected:
    """The cheapest disk for weights of which `gib` are read by `gpus` GPUs, whose upper bound of
    the time until the model serves keeps the limit, with no more rate than that takes."""
    disks = disks_by_price(request, catalog, offer, weights_gib)
    if isinstance(disks, Rejected):
        return disks

    def ready(disk: Disk) -> ReadyTime:
        return ready_time(disk.rate.read_mib_per_second, gib, gpus)

    limit = request.max_ready_seconds or USUAL_READY_SECONDS
    start = ready_time(None, 0.0, gpus).upper_seconds
    if request.disk is None and start < limit < ready(disks[0]).upper_seconds:
        # The disk binds: half the rate takes twice as long.
        at_one = ready_time(1.0, gib, gpus).upper_seconds - start
        disks += least_disks(catalog, offer, disks, weights_gib, at_one / (limit - start))
    in_time = [disk for disk in disks if ready(disk).upper_seconds <= limit]
    if in_time:
        best = min(in_time, key=lambda disk: disk.usd_per_hour)
    else:
        best = min(disks, key=lambda disk: (ready(disk).upper_seconds, disk.usd_per_hour))
    if in_time or request.max_ready_seconds is None:
        return best, ready(best)
    return rejected_offer(
        offer,
        "ready",
        Message(
            "it serves after up to {seconds:,g} s with its fastest disk, above {limit:g} s",
            code="ready",
            seconds=ceil_significant(ready(best).upper_seconds),
            limit=limit,
        ),
    )
