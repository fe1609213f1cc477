"""AWS asked with an account: prices on demand and on spot, what types have and where, how many may run.

`pricing:GetProducts`, `ec2:DescribeSpotPriceHistory`, `ec2:DescribeInstanceTypes`,
`ec2:DescribeInstanceTypeOfferings`, `servicequotas:GetServiceQuota`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from msgspec import Struct

from advisor.catalog.support import quota_code
from advisor.domain import Market
from advisor.errors import LiveError
from advisor.infra.live.session import (
    NoQuote,
    Quote,
    as_live_errors,
    client,
    in_portions,
    one_price,
    price_from,
    required,
    unreadable,
)

# The API is served in a few regions only; this one knows the prices of all.
_SERVED_IN = "us-east-1"
# What "an hour of this type" means among a type's many products: Linux, nothing pre-installed,
# on shared hosts, used (not a reservation's own), in the region itself, not in a city's zone of it.
PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "locationType": "AWS Region",
}


def on_demand(names: Sequence[str], region: str, today: date) -> Iterator[Quote | NoQuote]:
    """One quote, or the reason why there is none, for each type. Raises `LiveError` where the service cannot
    be asked at all."""
    pricing = client("pricing", _SERVED_IN)
    for name in names:
        wanted = {**PLAIN, "instanceType": name, "regionCode": region}
        filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
        with as_live_errors("pricing"):
            pages = pricing.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
            products = [text for page in pages for text in required(page, "PriceList", "pricing")]
        try:
            prices = {price for text in products for price in _prices(json.loads(text), wanted)}
        except (ValueError, TypeError, AttributeError, KeyError):
            yield NoQuote(instance_type=name, why="the price list answered what cannot be read")
        else:  # exactly one must remain: two of them mean that we asked for the wrong thing
            yield one_price(name, prices, (region, Market.ON_DEMAND), today)


def _prices(product: Mapping[str, Any], wanted: Mapping[str, str]) -> Iterator[float]:
    """Prices of a product, where it is what was asked for: an answer may be of another question."""
    attributes = product["product"]["attributes"]
    answer = {**wanted, **attributes, "instanceType": attributes["instanceType"]}
    if any(answer[field] != value for field, value in wanted.items()):
        return
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = price_from(dimension["pricePerUnit"].get("USD", ""))
            if dimension["unit"] == "Hrs" and usd is not None:
                yield usd


_SPOT = "spot prices"


def spot(names: Sequence[str], region: str, today: date) -> Iterator[Quote | NoQuote]:
    """The cheapest zone's present price of each type, or why there is none. Raises `LiveError` where the
    service cannot be asked at all."""
    now = datetime.now(UTC)
    operation = "describe_spot_price_history", "SpotPriceHistory", _SPOT
    wanted = {"ProductDescriptions": ["Linux/UNIX"], "StartTime": now, "EndTime": now}
    rows = _rows(region, names, operation, lambda portion: {"InstanceTypes": portion, **wanted})
    newest = newest_by_zone(list(rows))
    for name in names:
        yield _spot_quote(name, region, newest.get(name, {}), today)


def _spot_quote(
    name: str, region: str, zones: Mapping[str, set[float | None]], today: date
) -> Quote | NoQuote:
    """The cheapest zone; a zone with two prices at one time makes all of them doubtful."""
    if not zones:
        return NoQuote(instance_type=name, why=f"no spot price in {region}")
    doubtful = sorted(zone for zone, answer in zones.items() if len(answer) > 1)
    if doubtful:
        return NoQuote(instance_type=name, why=f"{doubtful[0]} has several spot prices at once")
    existing = [(usd, zone) for zone, answer in zones.items() for usd in answer if usd is not None]
    if not existing:
        return NoQuote(instance_type=name, why="what it costs on the spot market is no price")
    usd, zone = min(existing)
    market = Market.SPOT
    return Quote(instance_type=name, region=region, market=market, usd_per_hour=usd, as_of=today, zone=zone)


def newest_by_zone(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, set[float | None]]]:
    """The last price of each type and zone; the service may list older ones too."""
    newest: dict[str, dict[str, tuple[str, set[float | None]]]] = {}
    for row in rows:
        fields = ("InstanceType", "AvailabilityZone", "SpotPrice", "Timestamp")
        name, zone, price, when = (str(required(row, field, _SPOT)) for field in fields)
        zones = newest.setdefault(name, {})
        last, answer = zones.get(zone, ("", set()))
        if when > last:
            zones[zone] = when, {price_from(price)}
        elif when == last:
            answer.add(price_from(price))
    return {name: {zone: answer for zone, (_, answer) in zones.items()} for name, zones in newest.items()}


_TYPES = "instance types"


class Facts(Struct, frozen=True):
    """Facts of a type that the catalogue has too; `gpu_count` counts shares of a GPU."""

    vcpus: int
    memory_mib: int
    gpu_count: int


def facts(names: Sequence[str], region: str) -> dict[str, Facts]:
    """The facts of those types that the region knows."""
    operation = "describe_instance_types", "InstanceTypes", _TYPES
    answer = {}
    for row in _rows(region, names, operation, _filters):
        try:
            gpus = row.get("GpuInfo", {}).get("Gpus", ())
            # A share of a GPU has Count 0 and LogicalGpuCount 1.
            count = sum(max(gpu["Count"], gpu.get("LogicalGpuCount", 0)) for gpu in gpus)
            vcpus, memory = row["VCpuInfo"]["DefaultVCpus"], row["MemoryInfo"]["SizeInMiB"]
            answer[row["InstanceType"]] = Facts(int(vcpus), int(memory), count)
        except (KeyError, TypeError, AttributeError) as error:
            raise unreadable(f"AWS {_TYPES}") from error
    return {name: answer[name] for name in names if name in answer}


_OFFERINGS = "instance type offerings"


def offered(names: Sequence[str], region: str) -> frozenset[str]:
    """Those of the types that the region has."""
    operation = "describe_instance_type_offerings", "InstanceTypeOfferings", _OFFERINGS
    rows = _rows(region, names, operation, lambda named: {"LocationType": "region", **_filters(named)})
    return frozenset(names) & {required(row, "InstanceType", _OFFERINGS) for row in rows}


def _filters(names: Sequence[str]) -> dict[str, Any]:
    return {"Filters": [{"Name": "instance-type", "Values": names}]}


def _rows(
    region: str,
    names: Sequence[str],
    operation: tuple[str, str, str],
    request: Callable[[list[str]], dict[str, Any]],
) -> Iterator[Any]:
    method, field, what = operation
    ec2 = client("ec2", region)
    for portion in in_portions(names):
        with as_live_errors(what):
            pages = ec2.get_paginator(method).paginate(**request(portion))
            rows = [row for page in pages for row in required(page, field, what)]
        yield from rows


def vcpu_quota(instance_type: str, region: str, market: Market) -> float | None:
    """vCPUs the account may run at once of the type's kind; None where no code is known."""
    code = quota_code(instance_type, market)
    if code is None:
        return None
    quotas = client("service-quotas", region)
    with as_live_errors("quotas"):
        answer = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)
    value = required(required(answer, "Quota", "quotas"), "Value", "quotas")
    if not math.isfinite(value) or value < 0:
        raise LiveError(
            "AWS reports a quota of {value} vCPUs for {code_name}, which is none", value=value, code_name=code
        )
    return float(value)
