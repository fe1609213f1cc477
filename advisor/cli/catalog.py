"""`advisor catalog`: what the catalogue knows of offers, of one type, and of disks."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from advisor.answers.listing import all_offers, query_of, shown_type
from advisor.catalog import Catalog, DiskCatalog, OfferQuery, PartialOffer, load_catalog
from advisor.catalog.disk_orders import LOCAL
from advisor.cli.catalog_diff import diff
from advisor.cli.catalog_sources import sources
from advisor.cli.catalog_updates import import_offers, refresh
from advisor.cli.questions import cny_option, output_option, question_options
from advisor.domain import HOURS_PER_MONTH, DiskChoice, Offer, Price
from advisor.errors import UsageError, unknown_name
from advisor.questions.listings import InstanceDetails, Offers
from advisor.questions.spec_requests import (
    OWN_DISK,
)
from advisor.render.catalog import Place, catalog_head, offer_document, place_of
from advisor.render.tables import short_number
from advisor.render.text import WIDTH, table
from advisor.units import format_mib, format_usd

# A terminal's worth; JSON has no limit.
SHOWN_OFFERS = 40
# Before a fact of a type.
MARGIN = " " * 42
DISKS_SCHEMA = "advisor.disks/1"
# Where no size is asked for; types that begin above it are shown at their smallest.
EXAMPLE_GIB = 500.0
BURST_KEYS = ("read_mib_per_second", "read_iops", "seconds")


@click.group()
def catalog() -> None:
    """Instance types and prices: the bundled snapshot, what was imported, what was refreshed."""


catalog.add_command(diff)
catalog.add_command(import_offers)
catalog.add_command(refresh)
catalog.add_command(sources)


@catalog.command("list")
@question_options(Offers)
@cny_option
@output_option
def list_offers(question: Offers, cny_per_usd: float | None, output: str) -> None:
    """List priced offers, cheapest first: all of them in JSON, the first 40 in a table.

    Prices are list prices, observed ones (spot), or estimated: the table says which.
    """
    catalogue = load_catalog(cny_per_usd=cny_per_usd)
    query = query_of(question)
    if output == "json":
        for piece in _offers_document(catalogue, query):
            click.echo(piece)
        return
    offers, count = catalogue.cheapest(query, SHOWN_OFFERS)
    partial = sorted(catalogue.partial_offers(query), key=place_of)
    rows = sorted([*map(_row, offers), *map(_row, partial)], key=lambda row: row[0])
    click.echo("\n".join(_offers_table([cells for _, cells in rows[:SHOWN_OFFERS]])))
    more = count + len(partial) - SHOWN_OFFERS
    if more > 0:
        click.echo(f"... and {more:,} more; filter, or take all with -o json")


def _offers_document(catalogue: Catalog, query: OfferQuery) -> Iterator[str]:
    """The JSON document, an offer a line: there are many, and none waits for the others."""
    offers = all_offers(catalogue, query)
    yield json.dumps(catalog_head(catalogue), indent=2)[:-2] + ',\n  "offers": ['
    for place, offer in enumerate(offers, 1):
        comma = "," if place < len(offers) else ""
        yield f"    {json.dumps(offer_document(offer), allow_nan=False)}{comma}"
    yield "  ]\n}"


def _row(offer: Offer | PartialOffer) -> tuple[Place, list[str]]:
    """Its cells behind what they are sorted by; `?` is what a partial offer does not tell."""
    price, facts = offer.price, offer.type if isinstance(offer, PartialOffer) else offer.instance
    cores = "?" if isinstance(offer, PartialOffer) else str(offer.instance.physical_cores)
    return place_of(offer), [
        facts.cloud,
        facts.name,
        offer.region,
        f"{facts.gpu_count or '?'} x {facts.gpu_name}" if facts.gpu_name else "-",
        str(facts.vcpus or "?"),
        cores,
        format_mib(facts.memory_mib) if facts.memory_mib else "?",
        format_usd(price.usd_per_hour) if price.usd_per_hour else "free",
        str(offer.market),
        price.kind,
        price.as_of.isoformat(),
        price.terms,
    ]


def _offers_table(rows: list[list[str]]) -> list[str]:
    header = ["cloud", "instance", "region", "gpu", "vcpus", "cores", "memory", "per hour"]
    header += ["market", "price", "as of", "terms"]
    return table(header, rows, right=(4, 5, 6, 7))


@catalog.command()
@click.argument("instance_type")
@question_options(InstanceDetails)
@cny_option
@output_option
def show(
    instance_type: str, question: InstanceDetails, cny_per_usd: float | None, output: str
) -> None:
    """Facts and prices of one instance type."""
    catalogue = load_catalog(cny_per_usd=cny_per_usd)
    document = shown_type(catalogue, instance_type, question)
    if output == "json":
        click.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    click.echo("\n".join(_type_lines(document)))


def _type_lines(document: dict[str, Any]) -> list[str]:
    """A line a fact, then a table of prices, the cheapest region first."""
    facts = {name: value for name, value in document.items() if name not in ("market", "prices")}
    width = WIDTH - len(MARGIN)
    lines = [
        f"{label if not at else '':{len(MARGIN)}}{part}"
        for label, value in _flat(facts)
        for at, part in enumerate(textwrap.wrap(value, width, break_on_hyphens=False) or ["-"])
    ]
    return [*lines, "", *_price_lines(document["prices"], document["market"])]


def _price_lines(prices: dict[str, dict[str, Any]], market: str) -> list[str]:
    if not prices:
        return [f"No {market} price is known."]
    rising = sorted(prices.items(), key=lambda item: (item[1]["usd_per_hour"], item[0]))
    rows = [
        [
            region,
            format_usd(price["usd_per_hour"]),
            price["kind"],
            price["as_of"],
            price["terms"] or "",
        ]
        for region, price in rising
    ]
    sources = dict.fromkeys(f"{price['kind']}: {price['source']}" for _, price in rising)
    header = [f"region ({market})", "per hour", "price", "as of", "terms"]
    folded = [
        part for source in sources for part in textwrap.wrap(source, WIDTH, subsequent_indent="  ")
    ]
    return [*table(header, rows, right=(1,)), "", *folded]


def _flat(document: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, value in document.items():
        if isinstance(value, dict):
            lines += _flat(value, f"{prefix}{name} ")
        elif isinstance(value, list):
            lines.append((prefix + name, ", ".join(map(str, value)) or "-"))
        elif name != "schema":
            lines.append((prefix + name, _cell(value)))
    return lines


def _cell(value: Any) -> str:
    """A fact for reading; in JSON it is not rounded."""
    if value in (None, ""):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return short_number(value) if isinstance(value, float) else str(value)


@catalog.command()
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
    if output == "json":
        click.echo(json.dumps({"schema": DISKS_SCHEMA, "disks": shown}, indent=2, allow_nan=False))
    elif disk:
        click.echo("\n".join(_disk_lines(shown[0])))
    else:
        click.echo("\n".join(_disk_rows(shown, region)))


def _clouds(catalogue: Catalog, cloud: str | None, disk: str | None) -> list[str]:
    """The clouds to look at: for one disk, the first that knows its type."""
    name = (disk or "").partition(":")[0].strip().lower()
    if name in (OWN_DISK, LOCAL):
        raise UsageError(
            "local disks differ by instance",
            field="disk",
            hint="see those of one with `advisor catalog show g4dn.xlarge`",
        )
    if cloud:
        catalogue.disks_of(cloud)
        return [cloud]
    if disk is None:
        return list(catalogue.disk_clouds)
    home = [at for at in catalogue.disk_clouds if name in catalogue.disks_of(at).rules][:1]
    if not home:
        sold = {kind for at in catalogue.disk_clouds for kind in catalogue.disks_of(at).rules}
        raise unknown_name("disk type", name, sold, field="disk")
    return home


def _choices(catalog: DiskCatalog, disk: str | None) -> list[DiskChoice]:
    choices = (
        [catalog.parse_choice(disk)] if disk else [DiskChoice(type=name) for name in catalog.rules]
    )
    return [_sized(catalog, choice) for choice in choices]


def _sized(catalog: DiskCatalog, choice: DiskChoice) -> DiskChoice:
    rule = catalog.rules[choice.type]
    size = choice.size_gib or rule.size_for(max(EXAMPLE_GIB, rule.min_gib), choice.iops)
    return replace(choice, size_gib=size)


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
        "burst": burst and {name: getattr(burst, name) for name in BURST_KEYS},
        "prices": {
            name: _price_document(price) for name, price in prices.items() if region in (None, name)
        },
    }


def _price_document(price: Price) -> dict[str, Any]:
    return {
        "usd_per_month": price.usd_per_hour * HOURS_PER_MONTH,
        "usd_per_hour": price.usd_per_hour,
        "kind": price.kind,
        "as_of": price.as_of.isoformat(),
        "source": price.source,
    }


def _disk_rows(shown: list[dict[str, Any]], region: str | None) -> list[str]:
    where = region or "cheapest region"
    rows = [
        [
            document["cloud"],
            document["order"],
            f"{document['read_mib_per_second']:,.4g}",
            f"{document['read_iops']:,.0f}",
            _burst_text(document["burst"]),
            _least(document["prices"]),
        ]
        for document in shown
        if document["prices"] or not region
    ]
    header = ["cloud", "disk", "MiB/s", "IOPS", "at first", f"a month, {where}"]
    return table(header, rows, right=(2, 3, 5))


def _disk_lines(disk: dict[str, Any]) -> list[str]:
    low, high = disk["sold_gib"]
    lines = [
        f"{disk['order']} ({disk['cloud']}, {disk['media']}, sold from {low:g} to {high:g} GiB)",
        f"sustained  {_rate_text(disk)}",
        f"at first   {_burst_text(disk['burst'])}",
    ]
    if not disk["prices"]:
        return [*lines, "price      unknown"]
    rows = [
        [
            *(name, f"${price['usd_per_month']:,.2f}", f"${price['usd_per_hour']:.5f}"),
            *(price["kind"], price["as_of"]),
        ]
        for name, price in disk["prices"].items()
    ]
    header = ["region", "a month", "an hour", "kind", "as of"]
    return [*lines, "", *table(header, rows, right=(1, 2))]


def _rate_text(rate: dict[str, Any]) -> str:
    return f"{rate['read_mib_per_second']:,.4g} MiB/s, {rate['read_iops']:,.0f} IOPS"


def _burst_text(burst: dict[str, Any] | None) -> str:
    if burst is None:
        return "the same"
    return f"{_rate_text(burst)} for {burst['seconds'] / 3600:.1f} h"


def _least(prices: dict[str, dict[str, Any]]) -> str:
    if not prices:
        return "unknown"
    return f"${min(price['usd_per_month'] for price in prices.values()):,.2f}"
