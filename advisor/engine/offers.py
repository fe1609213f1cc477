"""Offers within a question's place, hardware, disk and quota, whatever runs there."""

from __future__ import annotations

from msgspec.structs import replace

from advisor.catalog import Catalog, OfferQuery, Rejection, check
from advisor.catalog.disk_orders import LOCAL
from advisor.catalog.support import quota_shortfall
from advisor.domain import Disk, InstanceType, Offer, Rejected
from advisor.domain.money import counts
from advisor.errors import NoOfferError, UsageError
from advisor.messages import Message
from advisor.questions.spec import SpecQuestion as SpecRequest

DATA_SET = Message("the data set")


def place_query(request: SpecRequest, *, accelerated: bool | None) -> OfferQuery:
    """What the catalogue is asked for; `accelerated` None keeps types with and without a GPU."""
    return OfferQuery(
        cloud=request.cloud,
        region=request.region,
        market=request.market,
        price_kinds=request.price_kinds,
        listed_on=request.listed_on,
        fresh_on=request.fresh_on,
        price_spread=request.price_spread,
        gpus=request.gpus,
        min_gpu_memory_mib=request.min_gpu_memory_mib,
        max_gpu_memory_mib=request.max_gpu_memory_mib,
        compute_capability=request.compute_capability,
        vcpus=request.vcpus,
        memory_mib=request.memory_mib,
        accelerated=accelerated,
    )


def offers_in(catalog: Catalog, query: OfferQuery) -> list[Offer]:
    """Offers in the region that is asked for; without one, of each type those in the regions
    where it could be cheapest with a disk."""
    return catalog.offers(query) if query.region else catalog.best_places(query)


def judged_offer(
    request: SpecRequest, catalog: Catalog, offer: Offer, *, needs_gpu: bool
) -> tuple[Message, ...] | Rejected:
    """What the user must mind of an offer that can be had and runs CUDA where `needs_gpu`, or why
    it is turned down."""
    instance = offer.instance
    verdict = check(instance, catalog.gpu_of(instance), needs_gpu=needs_gpu, closed=offer.closed)
    if isinstance(verdict, Rejection):
        return rejected_offer(offer, verdict.reason, verdict.detail)
    too_many = quota_shortfall(offer, request.vcpu_quota)
    return rejected_offer(offer, "quota", too_many) if too_many else verdict.notes


def rejected_offer(offer: Offer, reason: str, detail: Message | str) -> Rejected:
    """An offer as turned down."""
    instance = offer.instance
    return Rejected(instance.cloud, instance.name, reason, detail, offer.price.usd_per_hour)


def attached_disks(
    request: SpecRequest, catalog: Catalog, offer: Offer, data_gib: float, data: Message = DATA_SET
) -> tuple[Disk, ...] | Rejected:
    """`disks_holding` for an offer, or why it has none that holds `data`."""
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
    request: SpecRequest, catalog: Catalog, instance: InstanceType, data_gib: float, region: str
) -> tuple[Disk, ...]:
    """The disk that was asked for, or those worth a look on this instance, cheapest first; priced
    in the region.

    Empty where no disk with a known price holds so much; `UsageError` where the disk that was
    asked for is not to be had on this instance, `NoOfferError` where its price is not known.
    """
    disks, choice = catalog.disks_of(instance.cloud), request.disk
    if choice is None:
        choices = disks.candidate_disks(instance, data_gib, region, request.disk_types)
    else:
        size_gib = choice.size_gib or disks.fitting_size(choice.type, data_gib, choice.iops)
        choices = [disks.attach(instance, replace(choice, size_gib=size_gib), region)]
    # The kinds that are asked for are those of instances: few clouds list every disk.
    day = request.listed_on
    return tuple(disk for disk in choices if disk.price is None or counts(disk.price, (), day))
