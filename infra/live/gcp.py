"""Prices of Google's machine types from the Cloud Billing Catalog API, which takes an API key.

The answers are documented in Google Cloud, "services.skus.list" of the Cloud Billing API (v1). A page has
`skus` of all regions and `nextPageToken`; a price is `units` and `nanos` (10**-9) per `usageUnit`.

Google prices cores, memory, GPUs and local SSD separately. The names of SKUs are from memory, and were never
compared with Google's public list; the sums of the parts match the bundled prices of all types of these
families, on demand and spot, to four digits (`tests/infra/live/test_gcp.py`). Types that are not in these
tables get no price: M1, M2 and M4 have premiums, shared cores a share, and the SKUs of C4N, N4A and N4D are
unknown."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from importlib.resources import files
from typing import Any

from msgspec import Struct

from advisor.domain import HOURS_PER_MONTH, InstanceType, Market
from advisor.infra.live.session import NoQuote, Quote, one_price, price_from, unreadable
from advisor.infra.live.web import Parameters, WebList


def _skus(part: str) -> dict[str, str]:
    """SKU names of a kind of part, by machine series or GPU; the key '' holds for all others."""
    text = (files("advisor.infra.live") / "gcp_skus.csv").read_text(encoding="utf-8")
    return {row["of"]: row["sku"] for row in csv.DictReader(text.splitlines()) if row["part"] == part}


_HOSTS, _GPUS, _LOCAL_SSD = _skus("host"), _skus("gpu"), _skus("local_ssd")
# The H100 of a3-megagpu has a separate name, which Google has changed once.
_MEGA_GPU = ("Nvidia H100 80GB Mega GPU", "Nvidia H100 80GB Plus GPU")


class Part(Struct, frozen=True):
    """An amount of a SKU. The first of `names` in the price list counts; `unit` is `h` or `GiBy.h`."""

    names: tuple[str, ...]
    unit: str
    amount: float


def parts(machine: InstanceType) -> tuple[Part, ...]:
    """The priced parts of a machine type; empty if they are unknown."""
    family = machine.name.split("-")[0]
    series = "-".join(machine.name.split("-")[:2])
    host = _HOSTS.get(series) or _HOSTS.get(family)
    gpus = _MEGA_GPU if series == "a3-megagpu" else (_GPUS.get(machine.gpu_name or "", ""),)
    if host is None or machine.burstable or (machine.gpu_name and not any(gpus)):
        return ()
    result = [
        Part((f"{host} Core",), "h", machine.vcpus),
        Part((f"{host} Ram",), "GiBy.h", machine.memory_mib / 1024),
    ]
    if any(gpus):
        result.append(Part(gpus, "h", machine.gpu_count * machine.gpu_fraction))
    if machine.instance_store_gib:
        disk = _LOCAL_SSD.get(family, _LOCAL_SSD[""])
        result.append(Part((disk,), "GiBy.h", machine.instance_store_gib))
    return tuple(result)


SKU_NAMES = frozenset(
    {f"{host} {part}" for host in _HOSTS.values() for part in ("Core", "Ram")}
    | {*_GPUS.values(), *_MEGA_GPU, *_LOCAL_SSD.values()}
)


SERVICE = "Google's price list"
URL = "https://cloudbilling.googleapis.com/v1/services/6F81-5844-456A/skus"  # Compute Engine
KEY_HEADER = "X-Goog-Api-Key"  # a key in the address would appear in the logs of proxies
_FIRST: Parameters = {"currencyCode": "USD", "pageSize": "5000"}
_USAGE = {"OnDemand": Market.ON_DEMAND, "Preemptible": Market.SPOT}
# 'Spot Preemptible N2 Instance Core running in Americas', 'Nvidia L4 GPU attached to Spot
# Preemptible VMs running in Iowa', 'SSD backed Local Storage in Paris'.
_DESCRIPTION = re.compile(
    r"(?P<spot>(?:Spot )?Preemptible )?(?P<name>.+?)(?P<spot_vm> attached to Spot Preemptible VMs)?"
    r"(?: (?:running )?in [^:]+)?"
)
# `usageUnit` -> the unit of a part, and the number of hours that the price covers.
_UNITS = {"h": ("h", 1.0), "GiBy.h": ("GiBy.h", 1.0), "GiBy.mo": ("GiBy.h", HOURS_PER_MONTH)}

# (name, unit, region, market) -> dollars an hour; None: unreadable or implausible.
Rates = Mapping[tuple[str, str, str, Market], set[float | None]]


class GcpPrices:
    """Google's price list, which is fetched once for all regions and markets."""

    def __init__(self, source: WebList, machine_of: Callable[[str], InstanceType | None]) -> None:
        self._source = source
        self._machine_of = machine_of
        self._rates: Rates | None = None

    def quotes(
        self, names: Sequence[str], region: str, market: Market, today: date
    ) -> Iterator[Quote | NoQuote]:
        """The price of each type as the sum of its cores, memory, GPUs and local SSD, or why there is none.
        `LiveError` if the list cannot be fetched."""
        if self._rates is None:
            self._rates = rates(self._skus(), datetime.now(UTC))
        for name in names:
            yield self._quote(name, region, market, today, self._rates)

    def _quote(self, name: str, region: str, market: Market, today: date, known: Rates) -> Quote | NoQuote:
        machine = self._machine_of(name)
        needed = parts(machine) if machine else ()
        if not needed:
            return NoQuote(instance_type=name, why="it is not known which of Google's SKUs make up its price")
        total = 0.0
        for part in needed:
            rate = _rate(part, region, market, known)
            if isinstance(rate, str):
                return NoQuote(instance_type=name, why=rate)
            total += part.amount * rate
        usd = price_from(total)
        return one_price(name, {usd} if usd else set(), (region, market), today)

    def _skus(self) -> Iterator[Any]:
        for page in self._source.pages(_FIRST, self._next_parameters):
            skus = page.get("skus", [])
            if not isinstance(skus, list):
                raise unreadable(self._source.service)
            yield from skus

    def _next_parameters(self, page: Mapping[str, Any]) -> Parameters | None:
        token = page.get("nextPageToken") or None
        if token is not None and not isinstance(token, str):
            raise unreadable(self._source.service)
        return {**_FIRST, "pageToken": token} if token else None


def _rate(part: Part, region: str, market: Market, known: Rates) -> float | str:
    keys = ((name, part.unit, region, market) for name in part.names)
    listed = next((known[key] for key in keys if key in known), None)
    if listed is None:
        return f"the price list has no {market} price of {part.names[0]} in {region}"
    rate, *others = listed
    if others:
        return f"the price list has several prices of {part.names[0]} in {region}"
    if rate is None:
        return f"what the price list tells of {part.names[0]} in {region} is no price"
    return rate


def rates(skus: Iterable[Any], now: datetime) -> Rates:
    """The prices that are valid now for the SKUs in `SKU_NAMES`, by name, unit, region and market. Other
    SKUs, even malformed ones, are skipped."""
    prices: dict[tuple[str, str, str, Market], set[float | None]] = defaultdict(set)
    for sku in skus:
        known = _known_sku(sku)
        if known is not None:
            name, market, regions = known
            unit, usd = _price(sku, now)
            for region in regions:
                for priced_unit in (unit,) if unit else ("h", "GiBy.h"):
                    prices[name, priced_unit, region, market].add(usd)
    return dict(prices)


def _known_sku(sku: Any) -> tuple[str, Market, list[str]] | None:
    """Name, market and regions of a SKU; None if it is no part of a machine type."""
    try:
        match = _DESCRIPTION.fullmatch(sku["description"])
        market = _USAGE[sku["category"]["usageType"]]
        regions = [str(region) for region in sku["serviceRegions"]]
    except (TypeError, KeyError):
        return None
    if match is None or match["name"] not in SKU_NAMES:
        return None
    for_spot = bool(match["spot"] or match["spot_vm"])
    return (match["name"], market, regions) if for_spot == (market is Market.SPOT) else None


def _price(sku: Mapping[str, Any], now: datetime) -> tuple[str, float | None]:
    """Unit and dollars an hour of a SKU; the unit is empty if it is unreadable, the price None if there is no
    single one. Prices are in the order in which they took effect. A first tier may be free; several prices
    above 0 depend on the amount used."""
    try:
        info = [entry for entry in sku["pricingInfo"] if _effective_since(entry) <= now][-1]
        expression = info["pricingExpression"]
        unit, hours = _UNITS[expression["usageUnit"]]
        tiers = [_usd(tier["unitPrice"]) for tier in expression["tieredRates"]]
    except (TypeError, KeyError, ValueError, IndexError, AttributeError, OverflowError):
        return "", None
    charged = {usd for usd in tiers if usd != 0}
    usd = charged.pop() / hours if len(charged) == 1 else None
    return unit, price_from(usd) if usd is not None else None


def _effective_since(info: Mapping[str, Any]) -> datetime:
    """When a price took effect; the earliest possible time if it has none."""
    text = info.get("effectiveTime")
    return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)


def _usd(price: Mapping[str, Any]) -> float:
    if price["currencyCode"] != "USD":
        raise ValueError(price["currencyCode"])
    return int(price.get("units", 0)) + int(price.get("nanos", 0)) / 1e9
