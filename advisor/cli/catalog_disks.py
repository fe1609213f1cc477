"""`advisor catalog disks`: what network disks sustain, and what they cost."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import click
from msgspec.structs import replace

from advisor.catalog import Catalog, DiskCatalog, load_catalog
from advisor.catalog.assumed import READ_IOPS, READ_MIB_S
from advisor.catalog.disk_orders import LOCAL, unknown_disk
from advisor.cli.printing import print_answer
from advisor.cli.questions import output_option
from advisor.domain import ESTIMATED, HOURS_PER_MONTH, DiskChoice
from advisor.errors import UsageError
from advisor.questions.settled import OWN_DISK
from advisor.render.catalog import assumed_block, assumed_text
from advisor.render.records import price_block
from advisor.render.text import WIDTH, table

DISKS_SCHEMA = "advisor.disks/1"
# Where no size is asked for; types that begin above it are shown at their smallest.
EXAMPLE_GIB = 500.0
BURST_KEYS = ("read_mib_per_second", "read_iops", "seconds")


@click.command()
@click.argument("disk", required=False)
@click.option("--cloud", help="Only this cloud.  [default: the one that has the type, else all]")
@click.option("--region", help="Only prices of this region.")
@output_option
def disks(disk: str | None, cloud: str | None, region: str | None, output: str) -> None:
    """Show network disks: sustained rate, burst, price.

    DISK is a type, with a size and what is provisioned if you like: gp3:500GiB:6000iops:250MiB/s.
    Without one, every type is shown at 500 GiB.
    """
    catalogue = load_catalog()
    shown = [
        _disk_document(catalogue.disks_of(name), name, choice, region)
        for name in _clouds(catalogue, cloud, disk)
        for choice in _choices(catalogue.disks_of(name), disk)
    ]
    if region and not any(document["prices"] for document in shown):
        raise UsageError(
            "no disk price in region '{region}' is known",
            region=region,
            field="region",
            hint="leave --region out to see all of them",
        )
    document = {"schema": DISKS_SCHEMA, "disks": shown}
    text = (lambda: _disk_lines(shown[0])) if disk else (lambda: _disk_rows(shown, region))
    print_answer(output, document, text, indent=2)


def _clouds(catalogue: Catalog, cloud: str | None, disk: str | None) -> list[str]:
    """The clouds to look at: for one disk, the first that knows its type."""
    name = (disk or "").partition(":")[0].strip().lower()
    if name in (OWN_DISK, LOCAL):
        raise UsageError(
            "local disks differ by instance",
            field="disk",
            hint="see those of one with `advisor catalog show g4dn.xlarge`",
        )
    if cloud and cloud != "any":
        catalogue.disks_of(cloud)
        return [cloud]
    if disk is None:
        return list(catalogue.disk_clouds)
    home = [seller for seller in catalogue.disk_clouds if name in catalogue.disks_of(seller).rules][:1]
    if not home:
        sold = {kind for seller in catalogue.disk_clouds for kind in catalogue.disks_of(seller).rules}
        raise unknown_disk(name, sold)
    return home


def _choices(catalog: DiskCatalog, disk: str | None) -> Iterator[DiskChoice]:
    choices = [catalog.parse_choice(disk)] if disk else [DiskChoice(type=name) for name in catalog.rules]
    for choice in choices:
        rule = catalog.rules[choice.type]
        size = choice.size_gib or rule.size_for(max(EXAMPLE_GIB, rule.min_gib), choice.iops)
        yield replace(choice, size_gib=size)


def _disk_document(
    catalog: DiskCatalog, cloud: str, choice: DiskChoice, region: str | None
) -> dict[str, Any]:
    rule, rate = catalog.rules[choice.type], catalog.rate(choice)
    prices, burst = catalog.regional_prices(choice), catalog.burst(choice)
    return {
        "cloud": cloud,
        "type": choice.type,
        "media": rule.media,
        "sold_gib": [rule.min_gib, rule.max_gib],
        "order": str(choice),
        "size_gib": choice.size_gib,
        "read_mib_per_second": rate.read_mib_per_second,
        "read_iops": rate.read_iops,
        "assumed": {fact.name: assumed_block(fact) for fact in catalog.assumed_of(choice.type)},
        "burst": burst and {name: getattr(burst, name) for name in BURST_KEYS},
        "prices": {
            name: {"usd_per_month": price.usd_per_hour * HOURS_PER_MONTH, **price_block(price)}
            for name, price in prices.items()
            if region in (None, name)
        },
    }


def _disk_rows(shown: list[dict[str, Any]], region: str | None) -> list[str]:
    rows = [
        [
            document["cloud"],
            document["order"],
            f"{document['read_mib_per_second']:,.3g}{_star(document, READ_MIB_S)}",
            f"{document['read_iops']:,.0f}{_star(document, READ_IOPS)}",
            _burst_text(document["burst"]),
            _least(document["prices"]),
        ]
        for document in shown
        if document["prices"] or not region
    ]
    header = ["cloud", "disk", "MiB/s", "IOPS", "at first", "a month"]
    where = f"Prices of {region}" if region else "Prices of the cheapest region"
    legend = f"{where}. ~ is estimated, * assumed; a DISK shows the range and why."
    return [*table(header, rows, right=(2, 3, 5)), "", *textwrap.wrap(legend, WIDTH)]


def _star(disk: dict[str, Any], rate: str) -> str:
    fact = disk["assumed"].get(f"{disk['type']}.{rate}")
    return "*" if fact and not fact["imported"] else ""


def _disk_lines(disk: dict[str, Any]) -> list[str]:
    low, high = disk["sold_gib"]
    lines = [
        f"{disk['order']} ({disk['cloud']}, {disk['media']}, sold from {low:g} to {high:g} GiB)",
        f"sustained  {_rate_text(disk)}",
        f"at first   {_burst_text(disk['burst'])}",
    ]
    for name, fact in disk["assumed"].items():
        word = "imported" if fact["imported"] else "assumed"
        text = f"{word:10} {name.partition('.')[2]} {assumed_text(fact)}"
        lines += textwrap.wrap(text, WIDTH, subsequent_indent=" " * 11, break_on_hyphens=False)
    if not disk["prices"]:
        return [*lines, "price      unknown"]
    rows = [
        [
            *(name, f"${price['usd_per_month']:,.2f}", f"${price['usd_per_hour']:.5f}"),
            *(price["kind"], _range_text(price), price["as_of"]),
        ]
        for name, price in disk["prices"].items()
    ]
    header = ["region", "a month", "an hour", "kind", "a month (90 %)", "as of"]
    return [*lines, "", *table(header, rows, right=(1, 2))]


def _range_text(price: dict[str, Any]) -> str:
    """Between what the price lies; nothing where it is exact."""
    low, high = (price[f"{end}_usd_per_hour"] * HOURS_PER_MONTH for end in ("low", "high"))
    return f"${low:,.2f} to ${high:,.2f}" if low < high else ""


def _rate_text(rate: dict[str, Any]) -> str:
    return f"{rate['read_mib_per_second']:,.4g} MiB/s, {rate['read_iops']:,.0f} IOPS"


def _burst_text(burst: dict[str, Any] | None) -> str:
    if burst is None:
        return "the same"
    return f"{_rate_text(burst)} for {burst['seconds'] / 3600:.1f} h"


def _least(prices: dict[str, dict[str, Any]]) -> str:
    if not prices:
        return "unknown"
    least = min(prices.values(), key=itemgetter("usd_per_month"))
    return f"{'~' if least['kind'] == ESTIMATED else ''}${least['usd_per_month']:,.2f}"
