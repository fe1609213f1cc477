"""Spot prices as they are now (`ec2:DescribeSpotPriceHistory`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime

from advisor.domain import Market
from infra.live.session import client, required, told_as_live_error
from infra.live.words import Quote, Refused, price_from

_WHAT = "spot prices"


def spot(names: Sequence[str], region: str, today: date) -> Iterator[Quote | Refused]:
    """The cheapest zone's present price of each type, or why there is none."""
    ec2 = client("ec2", region)
    now = datetime.now(UTC)
    with told_as_live_error(_WHAT):
        pages = ec2.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=list(names),
            ProductDescriptions=["Linux/UNIX"],
            StartTime=now,
            EndTime=now,
        )
        rows = [row for page in pages for row in required(page, "SpotPriceHistory", _WHAT)]
    newest = _newest_by_zone(rows)
    for name in names:
        zones = {zone: usd for (kind, zone), usd in newest.items() if kind == name}
        if not zones:
            yield Refused(instance_type=name, why=f"no spot price in {region}")
            continue
        zone = min(zones, key=lambda one: (zones[one], one))
        yield Quote(
            instance_type=name,
            region=region,
            market=Market.SPOT,
            usd_per_hour=zones[zone],
            as_of=today,
            zone=zone,
        )


def _newest_by_zone(rows: Sequence[dict[str, object]]) -> dict[tuple[str, str], float]:
    """The last price told of each type and zone; the service may tell older ones too."""
    newest: dict[tuple[str, str], float] = {}
    for row in sorted(rows, key=lambda one: str(one["Timestamp"])):
        usd = price_from(str(row["SpotPrice"]))
        if usd is not None:
            newest[str(row["InstanceType"]), str(row["AvailabilityZone"])] = usd
    return newest
