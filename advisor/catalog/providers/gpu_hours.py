"""GPU hours from public trackers of rental prices, in JSON: one row per provider and card.

Known trackers: the `latest.json` of gpurentalprices.com and the offerings of gpu-pricing. A price is of one
GPU, or of all `gpu_count` GPUs where its field names no GPU; a row with a count is for that size alone. Left
out and counted are rows that price no instance (serverless, a part of a GPU), commitments, and prices in
other currencies than US dollars.

A GPU hour is the price of a bundled type only where the cloud sells it by the GPU: for each card, it reprices
the types that now cost the least per GPU (all, where the list is linear). Other types, and clouds whose
prices do not change within weeks, keep their prices."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import date

from msgspec import Struct

from advisor.catalog.believed import FACTOR, TOO_FAR
from advisor.catalog.catalog import Catalog
from advisor.catalog.gpus import usd_per_gpu_hour
from advisor.catalog.overlay import Overlay
from advisor.catalog.prices import ANY_CLOUD, ECC_SHARE, OfferQuery, is_gpu
from advisor.catalog.providers.rows import Contents, PriceFile, PriceRow, Row, rows_with
from advisor.domain import ESTIMATED, LIST, OBSERVED, Market, Offer, Price
from advisor.errors import UsageError
from advisor.messages import Message

# Why a good row is left out.
SECOND_PRICE = "another price of the same GPU is newer, or as new and lower"
# Tiers that a cloud sells at the same time, as separate types.
SIDE_BY_SIDE = ("secure", "community")
# A list that keeps for longer has prices of types, not of GPUs.
_MOST_DAYS = 30
# Two prices per GPU within this factor differ only by rounding.
_SAME = 1.01


class GpuHour(Struct, frozen=True, kw_only=True):
    """The price of one GPU per hour in US dollars, and its host where the row describes it.

    `gpu_count` is the size that the price is for (None: any size); vCPUs and memory are those of the whole
    size."""

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
    """Prices by cloud, and the number of rows left out by reason; each price names `source`."""
    factor = math.inf if accept_implausible else FACTOR
    by_cloud: dict[str, list[GpuHour]] = defaultdict(list)
    for hour in hours:
        by_cloud[hour.cloud].append(hour)
    overlays, left_out = {}, Counter[str]()
    for cloud, cloud_hours in by_cloud.items():
        if not catalog.is_in_dollars(cloud):
            left_out["the cloud's list is in another currency"] += len(cloud_hours)
            continue
        offers = _gpu_offers(catalog, cloud)
        overlay, used = Overlay(), set()
        for offer in offers:
            best = _best_hour(offer, cloud_hours)
            if best is not None and _is_plausible(offer, best, factor):
                used.add(best.path)
                overlay.prices[offer.instance.name, offer.region, best.market] = Price(
                    usd_per_hour=best.usd * offer.instance.gpu_count,
                    kind=best.kind,
                    as_of=best.as_of,
                    source=source,
                    terms=offer.price.terms,
                    max_age_days=offer.price.max_age_days,
                )
        left_out.update(_why_unused(hour, offers, factor) for hour in cloud_hours if hour.path not in used)
        if overlay:
            overlays[cloud] = overlay
    return overlays, left_out


def _why_unused(hour: GpuHour, offers: Sequence[Offer], factor: float) -> str:
    fitting = [offer for offer in offers if _fits(offer, hour)]
    if not fitting:
        return "no known type of the cloud is sold on demand by this GPU, or by this many of it"
    return SECOND_PRICE if any(_is_plausible(offer, hour, factor) for offer in fitting) else TOO_FAR


def _gpu_offers(catalog: Catalog, cloud: str) -> list[Offer]:
    """On-demand offers that cost the least per GPU among those of their card and tier."""
    offers = [
        offer
        for offer in catalog.offers(OfferQuery(cloud=cloud, market=Market.ON_DEMAND))
        if offer.instance.gpu_count
        and offer.price.max_age_days <= _MOST_DAYS
        and offer.price.kind != ESTIMATED
    ]
    least: dict[tuple[str | None, str], float] = {}
    for offer in offers:
        key = offer.instance.gpu_name, _tier_of_type(offer)
        least[key] = min(usd_per_gpu_hour(offer), least.get(key, usd_per_gpu_hour(offer)))
    return [
        offer
        for offer in offers
        if usd_per_gpu_hour(offer) <= _SAME * least[offer.instance.gpu_name, _tier_of_type(offer)]
    ]


def _best_hour(offer: Offer, hours: Sequence[GpuHour]) -> GpuHour | None:
    """The row with the most exact card name, then with the size; of those the latest, then the cheapest."""

    def order(hour: GpuHour) -> tuple[int, bool, int, float]:
        return -len(_words(hour.card)), hour.gpu_count is None, -hour.as_of.toordinal(), hour.usd

    return min((hour for hour in hours if _fits(offer, hour)), key=order, default=None)


def _fits(offer: Offer, hour: GpuHour) -> bool:
    """True if a row is for the offer's card, tier and size: many GPUs cost less each."""
    is_size = hour.gpu_count in (None, offer.instance.gpu_count)
    is_tier = hour.market is Market.ON_DEMAND and hour.tier == _tier_of_type(offer)
    return is_size and is_tier and _is_card(offer, hour)


def _is_plausible(offer: Offer, hour: GpuHour, factor: float) -> bool:
    return 1 / factor <= hour.usd / usd_per_gpu_hour(offer) <= factor


def _is_card(offer: Offer, hour: GpuHour) -> bool:
    """True if a row is for the offer's card, by name and known memory: 'a100-sxm-80' is A100-SXM4-80GB."""
    name, mib = offer.instance.gpu_name or "", offer.instance.gpu_memory_mib
    if hour.memory_gib is None or mib is None:
        return is_gpu(name, hour.card)
    if not ECC_SHARE <= 1024 * hour.memory_gib / mib <= 1 / ECC_SHARE:
        return False
    card = hour.card.removesuffix(f"-{hour.memory_gib:g}")
    return is_gpu(name, card) or _words(card) <= _words(name)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.casefold().replace("-", " ").split())


def _tier_of_type(offer: Offer) -> str:
    """The tier in a type's name: '1x-l4.secure' -> 'secure'."""
    last = offer.instance.name.rpartition(".")[2]
    return last if last in SIDE_BY_SIDE else ""


_PER_GPU = (
    *("usdpergpuhour", "usdpergpuhr", "pricepergpuhour", "pricepergpuhourusd", "priceusdpergpuhour"),
    *("pricepergpuusd", "hourlypergpuusd", "pergpuhourusd", "gpuhourusd", "pricepergpu"),
)
_PER_INSTANCE = (
    *("usdperhour", "usdperhr", "priceperhourusd", "pricehourusd", "priceusd", "hourlyusd", "usdhourly"),
    *("pricehour", "priceperhour", "hourlyprice", "price"),
)
PRICES = (*_PER_GPU, *_PER_INSTANCE)
_PROVIDER = ("provider", "providername", "providerslug", "providerid", "cloud", "vendor")
_CARD = ("gpu", "gpumodel", "gpuname", "gputype", "gpuslug", "model", "accelerator", "card")
_MEMORY = ("vramgb", "vram", "vramgib", "gpumemorygb", "gpumemorygib", "gpumemory")
_TIER = ("tier", "kind", "pricingtype", "pricetype", "type", "market", "billing")
_COUNT = ("gpucount", "numgpus", "gpus", "count")
_VCPUS_PER_GPU, _VCPUS = ("vcpuspergpu",), ("vcpus", "vcpu")
_RAM_PER_GPU, _RAM = ("ramgbpergpu", "rampergpugb"), ("ramgb", "ramgib")
_DAY = (
    *("collectedat", "asof", "pricedate", "date", "updatedat", "lastupdated", "generatedat", "updated"),
    "snapshotdate",
)
_TIERS = {
    **dict.fromkeys(("", "ondemand", "secure", "list", "dedicated"), (Market.ON_DEMAND, LIST)),
    **dict.fromkeys(("community", "marketplace"), (Market.ON_DEMAND, OBSERVED)),
    **dict.fromkeys(("spot", "interruptible", "preemptible"), (Market.SPOT, OBSERVED)),
}
GLOBAL = "global"
_MOST_GPUS = 1024
# Trackers' names of clouds -> the catalogue's.
_CLOUDS = {
    "datacrunch": "verda",
    "lambdalabs": "lambda",
    "lambdacloud": "lambda",
    "vastai": "vast",
    "oracle": "oci",
    "oraclecloud": "oci",
    "ovhcloud": "ovh",
    "google": "gcp",
    "googlecloud": "gcp",
    "amazon": "aws",
    "microsoft": "azure",
    "microsoftazure": "azure",
}


def reads(file: PriceFile) -> bool:
    """True if a file is JSON in which some row has a price, a provider and a card."""
    return any(row.text(_PROVIDER) and row.text(_CARD) for row in rows_with(file.document, PRICES))


def contents_of(file: PriceFile, catalog: Catalog) -> Contents:
    """GPU hours as prices of bundled types and offers of new clouds; other imports' clouds are left out."""
    hours, left_out = hours_in(file)
    source = f"{file.path.name.replace(',', ' ')} (imported)"
    others = {cloud for files in file.other_imports for cloud in files.manifest["clouds"]}
    new = [hour for hour in hours if hour.cloud not in file.bundled | others]
    rows, second_prices = _rows_of_new_clouds(new, source)
    left_out += second_prices
    left_out += Counter({"the cloud is another import's": sum(hour.cloud in others for hour in hours)})
    of_bundled = [hour for hour in hours if hour.cloud in file.bundled]
    overlays, unused = overlays_of_hours(of_bundled, catalog, source, file.accept_implausible)
    return Contents(rows=rows, overlays=overlays, left_out=left_out + unused)


def hours_in(file: PriceFile) -> tuple[list[GpuHour], Counter[str]]:
    """Every row that prices an instance, and the number of rows left out by reason. Rows without a date are
    as old as the file. `UsageError` names the place of a row with an invalid price."""
    hours: list[GpuHour] = []
    left_out = Counter[str]()
    for row in rows_with(file.document, PRICES):
        hour = _gpu_hour(row, file.as_of)
        if isinstance(hour, str):
            left_out[hour] += 1
        else:
            hours.append(hour)
    if not hours:
        raise UsageError("the file has no price of a GPU hour in US dollars", field="file")
    return hours, left_out


def _gpu_hour(row: Row, as_of: date | None) -> GpuHour | str:
    provider, card = _normalized(row.text(_PROVIDER)), row.text(_CARD)
    tier = _tier(row)
    if not provider or not card:
        return "no provider or no GPU is given"
    if provider == ANY_CLOUD:
        return "the provider is called 'any', which stands for every cloud"
    if tier not in _TIERS:
        return "not the price of an instance by the hour (serverless and others)"
    if _currency(row) != "USD":
        return "the price is not in US dollars"
    usd, count = _usd(row), row.number(_COUNT)
    if usd is None:
        return "no price is given"
    if count is not None and not (count.is_integer() and count <= _MOST_GPUS):
        return "the price is of part of a GPU, or of more GPUs than any machine has"
    day = row.day(_DAY) or as_of
    if day is None:
        hint = Message("say when it was fetched: --as-of 2026-11-20")
        raise UsageError("{place} has no date", place=row.path, field="as_of", hint=hint)
    market, kind = _TIERS[tier]
    return GpuHour(
        path=row.path,
        cloud=_CLOUDS.get(provider, provider),
        card=card,
        memory_gib=row.number(_MEMORY),
        tier=tier if tier in SIDE_BY_SIDE else "",
        market=market,
        kind=kind,
        usd=usd,
        gpu_count=None if count is None else int(count),
        as_of=day,
        vcpus=_of_instance(row, _VCPUS_PER_GPU, _VCPUS, count),
        memory_of_host_gib=_of_instance(row, _RAM_PER_GPU, _RAM, count),
    )


def _of_instance(
    row: Row, per_gpu: tuple[str, ...], per_instance: tuple[str, ...], count: float | None
) -> float | None:
    each = row.number(per_gpu)
    return row.number(per_instance) if each is None else each * (count or 1)


def _usd(row: Row) -> float | None:
    each = row.number(_PER_GPU)
    if each is not None:
        return each
    per_instance, count = row.number(_PER_INSTANCE), row.number(_COUNT)
    if per_instance is not None and count is None and row.fields.get("mingpus") not in (None, "", 1):
        raise row.bad("does not say whether its price is of one GPU or of all")
    return None if per_instance is None else per_instance / (count or 1)


def _currency(row: Row) -> str:
    named = row.text(("currency", "currencycode")).upper()
    if named:
        return named
    if any("usd" in name and row.fields.get(name) not in (None, "") for name in PRICES):
        return "USD"
    raise row.bad("tells no currency")


def _tier(row: Row) -> str:
    if any(row.fields.get(name) in (True, 1, "1", "true") for name in ("isspot", "spot")):
        return "spot"
    return _normalized(row.text(_TIER))


def _normalized(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def _rows_of_new_clouds(hours: Collection[GpuHour], source: str) -> tuple[list[PriceRow], Counter[str]]:
    """Offers of new clouds: a type per card, tier and count (one GPU where no count is given). Of two rows
    for one type the latest counts, then the cheapest; the others are left out."""
    best: dict[tuple[str, str, Market], GpuHour] = {}
    for hour in sorted(hours, key=lambda listed: (listed.as_of, -listed.usd)):
        best[hour.cloud, _type_name(hour), hour.market] = hour
    left_out = Counter({SECOND_PRICE: len(hours) - len(best)})
    facts: dict[tuple[str, str], dict[str, float | str]] = {}
    rows = [
        PriceRow(
            line=number,
            cloud=cloud,
            instance_type=name,
            region=GLOBAL,
            market=market,
            price=hour.usd * (hour.gpu_count or 1),
            kind=hour.kind,
            as_of=hour.as_of,
            source=source,
            facts=facts.setdefault((cloud, name), _facts(hour)),
        )
        for number, ((cloud, name, market), hour) in enumerate(best.items(), 1)
    ]
    return rows, left_out


def _type_name(hour: GpuHour) -> str:
    """A type's name: '8x-H100-SXM', with the memory and the tier if the row has them."""
    words = [re.sub(r"[^A-Za-z0-9]+", "-", hour.card).strip("-") or "gpu"]
    words += [f"{hour.memory_gib:g}GB"] if hour.memory_gib else []
    return f"{hour.gpu_count or 1}x-{'-'.join(words)}" + (f".{hour.tier}" if hour.tier else "")


def _facts(hour: GpuHour) -> dict[str, float | str]:
    card, count = hour.card.replace(",", " "), hour.gpu_count or 1
    facts: dict[str, float | str] = {"gpu_name": card, "gpu_count": count}
    if hour.memory_gib:
        facts["gpu_memory_gib"] = hour.memory_gib
    if hour.vcpus and hour.memory_of_host_gib:
        facts |= {"vcpus": max(1, int(hour.vcpus)), "memory_gib": hour.memory_of_host_gib}
    return facts
