"""`advisor catalog`: what the catalogue knows of offers and of one type."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import click

from advisor.answers.listing import page_of, query_of, shown_type
from advisor.catalog import Catalog, OfferQuery, load_catalog
from advisor.catalog.assumed import LOCAL_READ_IOPS, NETWORK_LIMIT, SERIES, SERIES_CORES, THREADS_PER_CORE
from advisor.cli.catalog_diff import diff
from advisor.cli.catalog_disks import disks
from advisor.cli.catalog_sources import sources
from advisor.cli.catalog_updates import import_offers, refresh
from advisor.cli.questions import SectionedCommand, cny_option, output_option, question_options
from advisor.questions.listings import InstanceDetails, Offers
from advisor.render.catalog import assumed_text, catalog_head
from advisor.render.offers import SHOWN_OFFERS, hourly_text, offers_text
from advisor.render.tables import short_number
from advisor.render.text import WIDTH, table

# Before a fact of a type.
MARGIN = " " * 42
# An assumed fact -> the lines of a type that rest on it.
RESTS_ON = {
    THREADS_PER_CORE: ("physical_cores",),
    "local_disk_gb": ("local_disk size_gib",),
    LOCAL_READ_IOPS: ("local_disk read_iops",),
    NETWORK_LIMIT: ("network_disks baseline_mib_per_second", "network_disks baseline_iops"),
    SERIES: ("memory_mib", "physical_cores", "local_disk size_gib", "local_disk read_iops"),
    SERIES_CORES: ("physical_cores",),
}


@click.group()
def catalog() -> None:
    """Instance types and prices: the bundled snapshot, what was imported, what was refreshed."""


catalog.add_command(diff)
catalog.add_command(disks)
catalog.add_command(import_offers)
catalog.add_command(refresh)
catalog.add_command(sources)


@catalog.command("list", cls=SectionedCommand)
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
    click.echo(offers_text(*page_of(catalogue, query, 0, SHOWN_OFFERS)))


def _offers_document(catalogue: Catalog, query: OfferQuery) -> Iterator[str]:
    """The JSON document, an offer a line: there are many, and none waits for the others."""
    offers = page_of(catalogue, query).offers
    yield json.dumps(catalog_head(catalogue), indent=2)[:-2] + ',\n  "offers": ['
    for place, offer in enumerate(offers, 1):
        comma = "," if place < len(offers) else ""
        yield f"    {json.dumps(offer.document(), allow_nan=False)}{comma}"
    yield "  ]\n}"


@catalog.command()
@click.argument("instance_type")
@question_options(InstanceDetails)
@cny_option
@output_option
def show(instance_type: str, question: InstanceDetails, cny_per_usd: float | None, output: str) -> None:
    """Facts and prices of one instance type."""
    catalogue = load_catalog(cny_per_usd=cny_per_usd)
    document = shown_type(catalogue, instance_type, question)
    if output == "json":
        click.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    click.echo("\n".join(_type_lines(document)))


def _type_lines(document: dict[str, Any]) -> list[str]:
    """A line a fact, then a table of prices, the cheapest region first."""
    apart = ("market", "prices", "assumed")
    facts = {name: value for name, value in document.items() if name not in apart}
    assumed = document.get("assumed", {})
    marks = {line: _mark(of) for name, of in assumed.items() for line in RESTS_ON.get(name, ())}
    rows = [
        *((label, value + marks.get(label, "")) for label, value in _flat(facts)),
        *((f"{_mark(of)[2:-1]} {name}", assumed_text(of)) for name, of in assumed.items()),
    ]
    width = WIDTH - len(MARGIN)
    lines = [
        f"{label if not at else '':{len(MARGIN)}}{part}"
        for label, value in rows
        for at, part in enumerate(textwrap.wrap(value, width, break_on_hyphens=False) or ["-"])
    ]
    return [*lines, "", *_price_lines(document["prices"], document["market"])]


def _mark(assumed: dict[str, Any]) -> str:
    """What stands behind a fact that no seller tells."""
    return " (imported)" if assumed["imported"] else " (assumed)"


def _price_lines(prices: dict[str, dict[str, Any]], market: str) -> list[str]:
    if not prices:
        return [f"No {market} price is known."]
    rising = sorted(
        ((region, price, *_hourly(price)) for region, price in prices.items()),
        key=lambda item: (item[2], item[0]),
    )
    rows = [
        [region, hourly_text(per_hour, currency), price["kind"], price["as_of"], price["terms"] or ""]
        for region, price, per_hour, currency in rising
    ]
    sources = dict.fromkeys(f"{price['kind']}: {price['source']}" for _, price, *_ in rising)
    header = [f"region ({market})", "per hour", "price", "as of", "terms"]
    folded = [part for source in sources for part in textwrap.wrap(source, WIDTH, subsequent_indent="  ")]
    return [*table(header, rows, right=(1,)), "", *folded]


def _hourly(price: dict[str, Any]) -> tuple[float, str]:
    """What an hour costs, and in which currency."""
    usd = price["usd_per_hour"]
    return (price["per_hour"], price["currency"]) if usd is None else (usd, "USD")


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
