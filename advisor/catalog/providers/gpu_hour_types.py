"""GPU hours of clouds that the bundle has, as prices of their types.

A GPU hour is the price of a type only where the cloud sells it by the GPU: of each card those types
are priced anew that cost the least for one of its GPUs now (all, where the list is linear). A row
that tells how many GPUs it is of prices types of that count alone. Other types, and clouds whose
prices do not change within weeks, keep the price that they have.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import date

from msgspec import Struct

from advisor.catalog.believed import FACTOR, TOO_FAR
from advisor.catalog.catalog import Catalog
from advisor.catalog.match import ECC_SHARE, OfferQuery, is_gpu
from advisor.catalog.overlay import Overlay
from advisor.domain import ESTIMATED, Market, Offer, Price

# Why a row is left out that is as good as another.
SECOND_PRICE = "another price of the same GPU is newer, or as new and lower"
# Tiers that are sold side by side, which tell types apart.
SIDE_BY_SIDE = ("secure", "community")
# A cloud whose list is good for longer has a list of types, not of GPUs.
_MOST_DAYS = 30
# Two sizes that cost the same a GPU, but for rounding.
_SAME = 1.01


class GpuHour(Struct, frozen=True, kw_only=True):
    """The price of one GPU by the hour, in US dollars, and the host that comes with it where that is told.

    `gpu_count` is the size that the price is of, None where any size costs as much by the GPU;
    vCPUs and memory are those of the whole size.
    """

    path: str
    cloud: str
    card: str
    memory_gib: float | None
    tier: str
    market: Market
    kind: str
    usd: float
    gpu_count: int | None
    as_of: date
    vcpus: float | None
    memory_of_host_gib: float | None


def overlays_of_hours(
    hours: Iterable[GpuHour], catalog: Catalog, source: str, accept_implausible: bool
) -> tuple[dict[str, Overlay], Counter[str]]:
    """Prices by cloud, and how many rows are left out by reason; `source` says where they are from."""
    factor = math.inf if accept_implausible else FACTOR
    by_cloud: dict[str, list[GpuHour]] = defaultdict(list)
    for hour in hours:
        by_cloud[hour.cloud].append(hour)
    overlays, left_out = {}, Counter[str]()
    for cloud, cloud_hours in by_cloud.items():
        if not catalog.is_in_dollars(cloud):
            left_out["the cloud's list is in another currency"] += len(cloud_hours)
            continue
        offers = _sold_by_gpu(catalog, cloud)
        overlay, used = Overlay(), set()
        for offer in offers:
            best = _hour_of(offer, cloud_hours)
            if best is not None and _is_plausible(offer, best, factor):
                used.add(best.path)
                overlay.prices[offer.instance.name, offer.region, best.market] = _price(offer, best, source)
        left_out.update(_why_unused(hour, offers, factor) for hour in cloud_hours if hour.path not in used)
        if overlay:
            overlays[cloud] = overlay
    return overlays, left_out


def _why_unused(hour: GpuHour, offers: Sequence[Offer], factor: float) -> str:
    if not offers:
        return "the cloud lists prices of types, not of GPUs"
    if hour.market is not Market.ON_DEMAND:
        return "no spot prices of the cloud are known"
    named = [offer for offer in offers if _tier(offer) == hour.tier and _is_card(offer, hour)]
    if not named:
        return "no known type of the cloud is sold by this GPU"
    named = [offer for offer in named if _is_size(offer, hour)]
    if not named:
        return "the cloud sells no type with this many of the GPU by the GPU"
    if not any(_is_plausible(offer, hour, factor) for offer in named):
        return TOO_FAR
    return SECOND_PRICE


def _sold_by_gpu(catalog: Catalog, cloud: str) -> list[Offer]:
    """Offers on demand that cost the least a GPU of their card and tier."""
    offers = [
        offer
        for offer in catalog.offers(OfferQuery(cloud=cloud, market=Market.ON_DEMAND))
        if offer.instance.gpu_count
        and offer.price.max_age_days <= _MOST_DAYS
        and offer.price.kind != ESTIMATED
    ]
    least: dict[tuple[str | None, str], float] = {}
    for offer in offers:
        key = offer.instance.gpu_name, _tier(offer)
        least[key] = min(_per_gpu(offer), least.get(key, _per_gpu(offer)))
    return [
        offer for offer in offers if _per_gpu(offer) <= _SAME * least[offer.instance.gpu_name, _tier(offer)]
    ]


def _hour_of(offer: Offer, hours: Sequence[GpuHour]) -> GpuHour | None:
    """The row that names the card most exactly, then the size; of those the latest, then the cheapest."""
    tier = _tier(offer)
    fitting = [
        hour
        for hour in hours
        if hour.market is Market.ON_DEMAND
        and hour.tier == tier
        and _is_size(offer, hour)
        and _is_card(offer, hour)
    ]
    exact = {
        hour.path: (-len(_words(hour.card)), hour.gpu_count is None, -hour.as_of.toordinal(), hour.usd)
        for hour in fitting
    }
    return min(fitting, key=lambda hour: exact[hour.path], default=None)


def _is_size(offer: Offer, hour: GpuHour) -> bool:
    """Clouds sell many GPUs for less a GPU than one, so that a size tells nothing of another."""
    return hour.gpu_count in (None, offer.instance.gpu_count)


def _is_plausible(offer: Offer, hour: GpuHour, factor: float) -> bool:
    return 1 / factor <= hour.usd / _per_gpu(offer) <= factor


def _is_card(offer: Offer, hour: GpuHour) -> bool:
    """By name, and by memory where that is told: 'a100-sxm-80' with 80 GB is A100-SXM4-80GB."""
    name, mib = offer.instance.gpu_name or "", offer.instance.gpu_memory_mib
    if hour.memory_gib is None or mib is None:
        return is_gpu(name, hour.card)
    if not ECC_SHARE <= 1024 * hour.memory_gib / mib <= 1 / ECC_SHARE:
        return False
    card = hour.card.removesuffix(f"-{hour.memory_gib:g}")
    return is_gpu(name, card) or _words(card) <= _words(name)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.casefold().replace("-", " ").split())


def _tier(offer: Offer) -> str:
    """'1x-l4.secure' -> 'secure'."""
    last = offer.instance.name.rpartition(".")[2]
    return last if last in SIDE_BY_SIDE else ""


def _per_gpu(offer: Offer) -> float:
    return offer.price.usd_per_hour / offer.instance.gpu_count


def _price(offer: Offer, hour: GpuHour, source: str) -> Price:
    return Price(
        usd_per_hour=hour.usd * offer.instance.gpu_count,
        kind=hour.kind,
        as_of=hour.as_of,
        source=source,
        terms=offer.price.terms,
        max_age_days=offer.price.max_age_days,
    )
