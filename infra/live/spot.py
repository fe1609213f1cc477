"""Spot prices as they are now (`ec2:DescribeSpotPriceHistory`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from advisor.domain import Market
from advisor.infra.live.quotes import NoQuote, Quote, price_from
from advisor.infra.live.session import as_live_errors, client, in_portions, required

_WHAT = "spot prices"


def spot(names: Sequence[str], region: str, today: date) -> Iterator[Quote | NoQuote]:
    """The cheapest zone's present price of each type, or why there is none.

    Raises `LiveError` where the service cannot be asked at all.
    """
    ec2 = client("ec2", region)
    now = datetime.now(UTC)
    rows: list[Mapping[str, Any]] = []
    for portion in in_portions(names):
        with as_live_errors(_WHAT):
            pages = ec2.get_paginator("describe_spot_price_history").paginate(
                InstanceTypes=portion, ProductDescriptions=["Linux/UNIX"], StartTime=now, EndTime=now
            )
            rows += [row for page in pages for row in required(page, "SpotPriceHistory", _WHAT)]
    newest = newest_by_zone(rows)
    for name in names:
        yield _quote(name, region, newest.get(name, {}), today)


def _quote(name: str, region: str, zones: Mapping[str, set[float | None]], today: date) -> Quote | NoQuote:
    """The cheapest zone; a zone with two prices at one time makes all of them doubtful."""
    if not zones:
        return NoQuote(instance_type=name, why=f"no spot price in {region}")
    doubtful = sorted(zone for zone, answer in zones.items() if len(answer) > 1)
    if doubtful:
        return NoQuote(instance_type=name, why=f"{doubtful[0]} has several spot prices at once")
    existing = {zone: usd for zone, answer in zones.items() for usd in answer if usd is not None}
    if not existing:
        return NoQuote(instance_type=name, why="what it costs on the spot market is no price")
    zone = min(existing, key=lambda entry: (existing[entry], entry))
    return Quote(
        instance_type=name,
        region=region,
        market=Market.SPOT,
        usd_per_hour=existing[zone],
        as_of=today,
        zone=zone,
    )


def newest_by_zone(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, set[float | None]]]:
    """The last price of each type and zone; the service may list older ones too."""
    newest: dict[str, dict[str, tuple[str, set[float | None]]]] = {}
    for row in rows:
        fields = ("InstanceType", "AvailabilityZone", "SpotPrice", "Timestamp")
        name, zone, price, when = (str(required(row, field, _WHAT)) for field in fields)
        zones = newest.setdefault(name, {})
        last, answer = zones.get(zone, ("", set()))
        if when > last:
            zones[zone] = when, {price_from(price)}
        elif when == last:
            answer.add(price_from(price))
    return {name: {zone: answer for zone, (_, answer) in zones.items()} for name, zones in newest.items()}
