"""`advisor catalog disks`: what a disk sustains, what it shows at first, and what it costs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from advisor.catalog import Catalog, DiskCatalog, load_catalog
from advisor.catalog.disk_orders import LOCAL
from advisor.cli.questions import Name
from advisor.domain import HOURS_PER_MONTH, Burst, DiskChoice, Price
from advisor.errors import UsageError, unknown_name
from advisor.questions.requests import OWN_DISK
from advisor.render.text import table

SCHEMA = "advisor.disks/1"
# Where no size is asked for; types that begin above it are shown at their smallest.
EXAMPLE_GIB = 500.0


@click.command()
@click.argument("disk", required=False)
@click.option("--cloud", help="Only this cloud.  [default: the one that has the type, else all]")
@click.option("--region", help="Only prices of this region.")
@click.option(
    "-o", "--output", type=Name("output format", ("table", "json")), default="table",
    show_default=True,
)  # fmt: skip
def disks(disk: str | None, cloud: str | None, region: str | None, output: str) -> None:
    """Show network disks: sustained rate, burst, price.

    DISK is a type, with a size and what is provisioned if you like: gp3:500GiB:6000iops:250MiB/s.
    Without one, every type is shown at 500 GiB.
    """
    known = load_catalog()
    asked = [
        (name, choice)
        for name in _clouds(known, cloud, disk)
        for choice in _choices(known.disks_of(name), disk)
    ]
    shown = [_document(known.disks_of(name), name, choice, region) for name, choice in asked]
    if region and not any(one["prices"] for one in shown):
        raise UsageError(f"no disk price in region '{region}' is known")
    if output == "json":
        click.echo(json.dumps({"schema": SCHEMA, "disks": shown}, indent=2, allow_nan=False))
    elif disk:
        click.echo("\n".join(_one_text(shown[0])))
    else:
        click.echo("\n".join(_all_text(shown, region)))


def _clouds(known: Catalog, cloud: str | None, disk: str | None) -> list[str]:
    """The clouds to look at: for one disk, the first that knows its type."""
    name = (disk or "").partition(":")[0].strip().lower()
    if name in (OWN_DISK, LOCAL):
        raise UsageError(
            "local disks differ by instance: `advisor catalog show g4dn.xlarge` tells of one"
        )
    if cloud:
        known.disks_of(cloud)
        return [cloud]
    if disk is None:
        return list(known.disk_clouds)
    home = [one for one in known.disk_clouds if name in known.disks_of(one).rules][:1]
    if not home:
        sold = {kind for one in known.disk_clouds for kind in known.disks_of(one).rules}
        raise unknown_name("disk type", name, sold)
    return home


def _choices(catalog: DiskCatalog, disk: str | None) -> list[DiskChoice]:
    asked = [catalog.parse_choice(disk)] if disk else [DiskChoice(type=t) for t in catalog.rules]
    return [_sized(catalog, choice) for choice in asked]


def _sized(catalog: DiskCatalog, choice: DiskChoice) -> DiskChoice:
    rule = catalog.rules[choice.type]
    size = choice.size_gib or rule.size_for(max(EXAMPLE_GIB, rule.min_gib), choice.iops)
    return replace(choice, size_gib=size)


def _document(
    catalog: DiskCatalog, cloud: str, choice: DiskChoice, region: str | None
) -> dict[str, Any]:
    rule, rate = catalog.rules[choice.type], catalog.rate(choice)
    prices = catalog.regional_prices(choice)
    return {
        "cloud": cloud,
        "type": choice.type,
        "media": rule.media,
        "sold_gib": [rule.min_gib, rule.max_gib],
        "order": str(choice),
        "size_gib": choice.size_gib,
        "read_mib_per_second": rate.read_mib_per_second,
        "read_iops": rate.read_iops,
        "burst": _burst_document(catalog.burst(choice)),
        "prices": {
            name: _price_document(price) for name, price in prices.items() if region in (None, name)
        },
    }


def _burst_document(burst: Burst | None) -> dict[str, Any] | None:
    if burst is None:
        return None
    return {
        "read_mib_per_second": burst.read_mib_per_second,
        "read_iops": burst.read_iops,
        "seconds": burst.seconds,
    }


def _price_document(price: Price) -> dict[str, Any]:
    return {
        "usd_per_month": price.usd_per_hour * HOURS_PER_MONTH,
        "usd_per_hour": price.usd_per_hour,
        "as_of": price.as_of.isoformat(),
        "source": price.source,
    }


def _all_text(shown: list[dict[str, Any]], region: str | None) -> list[str]:
    where = region or "cheapest region"
    rows = [
        [
            one["cloud"],
            one["order"],
            f"{one['read_mib_per_second']:,.4g}",
            f"{one['read_iops']:,.0f}",
            _burst_text(one["burst"]),
            _least(one["prices"]),
        ]
        for one in shown
        if one["prices"] or not region
    ]
    header = ["cloud", "disk", "MiB/s", "IOPS", "at first", f"a month, {where}"]
    return table(header, rows, right=(2, 3, 5))


def _one_text(one: dict[str, Any]) -> list[str]:
    low, high = one["sold_gib"]
    lines = [
        f"{one['order']} ({one['cloud']}, {one['media']}, sold from {low:g} to {high:g} GiB)",
        f"sustained  {one['read_mib_per_second']:,.4g} MiB/s, {one['read_iops']:,.0f} IOPS",
        f"at first   {_burst_text(one['burst'])}",
    ]
    if not one["prices"]:
        return [*lines, "price      unknown"]
    rows = [
        [name, f"${price['usd_per_month']:,.2f}", f"${price['usd_per_hour']:.5f}", price["as_of"]]
        for name, price in one["prices"].items()
    ]
    return [*lines, "", *table(["region", "a month", "an hour", "as of"], rows, right=(1, 2))]


def _burst_text(burst: dict[str, Any] | None) -> str:
    if burst is None:
        return "the same"
    rate = f"{burst['read_mib_per_second']:,.4g} MiB/s, {burst['read_iops']:,.0f} IOPS"
    return f"{rate} for {burst['seconds'] / 3600:.1f} h"


def _least(prices: dict[str, dict[str, Any]]) -> str:
    if not prices:
        return "unknown"
    return f"${min(price['usd_per_month'] for price in prices.values()):,.2f}"
