"""`advisor catalog`: what the catalogue knows."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from advisor.answers.listing import all_offers, query_of
from advisor.catalog import Catalog, OfferQuery, PartialOffer, load_catalog
from advisor.cli.catalog_disks import disks
from advisor.cli.catalog_import import import_offers
from advisor.cli.catalog_refresh import refresh
from advisor.cli.catalog_show import show
from advisor.cli.questions import Name, cny_option, question_options
from advisor.domain import Offer
from advisor.questions.models import Offers
from advisor.render.catalog import Place, catalog_head, offer_document, place_of
from advisor.render.text import table
from advisor.units import format_mib, format_usd

# A terminal's worth; JSON has no limit.
SHOWN_OFFERS = 40
FORMAT = Name("output format", ("table", "json"))


@click.group()
def catalog() -> None:
    """Instance types and prices: the bundled snapshot, what was imported, what was refreshed."""


catalog.add_command(disks)
catalog.add_command(import_offers)
catalog.add_command(refresh)
catalog.add_command(show)


@catalog.command("list")
@question_options(Offers)
@cny_option
@click.option("-o", "--output", type=FORMAT, default="table", show_default=True)
def list_offers(question: Offers, cny_per_usd: float | None, output: str) -> None:
    """List priced offers, cheapest first: all of them in JSON, the first 40 in a table.

    Prices are list prices, observed ones (spot), or estimated: the table says which.
    """
    known = load_catalog(cny_per_usd=cny_per_usd)
    query = query_of(question)
    if output == "json":
        for piece in _document(known, query):
            click.echo(piece)
        return
    offers, count = known.cheapest(query, SHOWN_OFFERS)
    partial = sorted(known.partial_offers(query), key=place_of)
    shown = sorted([*map(_row, offers), *map(_partial_row, partial)], key=lambda row: row[0])
    click.echo("\n".join(_table([cells for _, cells in shown[:SHOWN_OFFERS]])))
    more = count + len(partial) - SHOWN_OFFERS
    if more > 0:
        click.echo(f"... and {more:,} more; filter, or take all with -o json")


def _document(known: Catalog, query: OfferQuery) -> Iterator[str]:
    """The JSON document, an offer a line: there are many, and none waits for the others."""
    found = all_offers(known, query)
    yield json.dumps(catalog_head(known), indent=2)[:-2] + ',\n  "offers": ['
    for place, one in enumerate(found, 1):
        comma = "," if place < len(found) else ""
        yield f"    {json.dumps(offer_document(one), allow_nan=False)}{comma}"
    yield "  ]\n}"


Row = tuple[Place, list[str]]


def _row(one: Offer) -> Row:
    facts = one.instance
    gpu = f"{facts.gpu_count} x {facts.gpu_name}" if facts.gpu_name else "-"
    size = [str(facts.vcpus), str(facts.physical_cores), format_mib(facts.memory_mib)]
    return place_of(one), [facts.cloud, facts.name, one.region, gpu, *size, *_price_cells(one)]


def _partial_row(one: PartialOffer) -> Row:
    facts = one.type
    gpu = f"{facts.gpu_count or '?'} x {facts.gpu_name}" if facts.gpu_name else "-"
    memory = format_mib(facts.memory_mib) if facts.memory_mib else "?"
    size = [str(facts.vcpus or "?"), "?", memory]
    return place_of(one), [
        facts.cloud,
        facts.name,
        one.region,
        gpu,
        *size,
        *_price_cells(one),
    ]


def _price_cells(one: Offer | PartialOffer) -> list[str]:
    price = one.price
    return [
        format_usd(price.usd_per_hour) if price.usd_per_hour else "free",
        str(one.market),
        price.kind,
        price.as_of.isoformat(),
        price.terms,
    ]


def _table(rows: list[list[str]]) -> list[str]:
    header = ["cloud", "instance", "region", "gpu", "vcpus", "cores", "memory", "per hour"]
    header += ["market", "price", "as of", "terms"]
    return table(header, rows, right=(4, 5, 6, 7))
