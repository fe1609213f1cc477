"""What the recommended spec costs by every way of paying that is known, and in other regions."""

from __future__ import annotations

from typing import Any

from advisor.answers.reporting.subject import Subject
from advisor.catalog.local_disks import LOCAL
from advisor.domain import HOURS_PER_MONTH, Disk, Market, Price
from advisor.errors import AdvisorError
from advisor.render.blocks import price_block
from advisor.render.sizing.facts import per_million, per_month


def costs(subject: Subject) -> dict[str, Any]:
    """The spec where it stands, by market: USD an hour, a month, and for a million samples at the
    likely rate. A market without a known price is left out."""
    spec, instance = subject.one.spec, subject.instance
    catalog, region = subject.ground.catalog, spec.offer.region
    disk_usd = spec.disk.usd_per_hour
    known = {
        market: spec.offer.price
        if market is spec.offer.market
        else catalog.price(instance.name, region, market, instance.cloud)
        for market in Market
    }
    rows = [_choice(subject, market, price, disk_usd) for market, price in known.items() if price]
    _tell_savings(rows)
    return {"hours_per_month": HOURS_PER_MONTH, "region": region, "choices": rows}


def _choice(subject: Subject, market: Market, price: Price, disk_usd: float) -> dict[str, Any]:
    total = subject.machines * (price.usd_per_hour + disk_usd)
    return {
        "market": str(market),
        "asked": market is subject.one.spec.offer.market,
        "usd_per_hour": total,
        "instance_usd_per_hour": subject.machines * price.usd_per_hour,
        "disk_usd_per_hour": subject.machines * disk_usd,
        "usd_per_month": per_month(total),
        "usd_per_million_samples": per_million(total, subject.one.prediction.median),
        **{key: price_block(price)[key] for key in ("kind", "as_of", "source", "terms")},
    }


def _tell_savings(rows: list[dict[str, Any]]) -> None:
    """Percent less than on demand; null where that price is not known."""
    whole = next((r["usd_per_hour"] for r in rows if r["market"] == Market.ON_DEMAND), None)
    for row in rows:
        row["saving_percent"] = 100 * (1 - row["usd_per_hour"] / whole) if whole else None


def regions(subject: Subject) -> list[dict[str, Any]]:
    """The same spec in each region that sells it on the market that was asked for, cheapest first.

    Where the disk has no known price the total is null, and the region stands at the end.
    """
    offer, instance = subject.one.spec.offer, subject.instance
    catalog = subject.ground.catalog
    rows = []
    for region in catalog.regions_of(instance.name, instance.cloud):
        price = catalog.price(instance.name, region, offer.market, instance.cloud)
        if region == offer.region:
            price = offer.price
        if price:
            rows.append(_region(subject, region, price))
    return sorted(rows, key=_cheapest_first)


def _cheapest_first(row: dict[str, Any]) -> tuple[bool, float, str]:
    total = row["total_usd_per_hour"]
    return total is None, total or row["usd_per_hour"], row["region"]


def _region(subject: Subject, region: str, price: Price) -> dict[str, Any]:
    disk = _disk_in(subject, region)
    disk_usd = None if disk is None else subject.machines * disk.usd_per_hour
    usd = subject.machines * price.usd_per_hour
    total = None if disk_usd is None else usd + disk_usd
    return {
        "region": region,
        "chosen": region == subject.one.spec.offer.region,
        "usd_per_hour": usd,
        "disk_usd_per_hour": disk_usd,
        "total_usd_per_hour": total,
        "usd_per_month": None if total is None else per_month(total),
        "kind": price.kind,
        "as_of": price.as_of.isoformat(),
        "source": price.source,
    }


def _disk_in(subject: Subject, region: str) -> Disk | None:
    """The same order there; None where its price is not known."""
    disk, instance = subject.one.spec.disk, subject.instance
    if region == subject.one.spec.offer.region or disk.rate.type == LOCAL or disk.price is None:
        return disk
    order = disk.choice
    try:
        return subject.ground.catalog.disks_of(instance.cloud).attach(
            instance, order.type, disk.size_gib, region,
            iops=order.iops, mib_per_second=order.mib_per_second,
        )  # fmt: skip
    except AdvisorError:
        return None
