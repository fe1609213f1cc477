"""`advisor catalog`: what the catalogue knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from advisor.catalog import Catalog, OfferQuery, PartialOffer, load_catalog
from advisor.cli.catalog_disks import disks
from advisor.cli.catalog_import import import_offers
from advisor.cli.catalog_refresh import refresh
from advisor.cli.catalog_show import show
from advisor.cli.hardware import hardware_options
from advisor.cli.parameters import Name, Positive, Text
from advisor.domain import Market, Offer
from advisor.operations.questions.hardware import hardware_answers
from advisor.report.document import instance_document, price_document
from advisor.report.text import table
from advisor.units import format_mib, format_usd

SCHEMA = "advisor.catalog/1"
# A terminal's worth; JSON has no limit.
SHOWN_OFFERS = 40
FORMAT = Name("output format", ("table", "json"))
MARKET = Name("market", (*Market, "any"))


@click.group()
def catalog() -> None:
    """Instance types and prices: the bundled snapshot, what was imported, what was refreshed."""


catalog.add_command(disks)
catalog.add_command(import_offers)
catalog.add_command(refresh)
catalog.add_command(show)


@catalog.command("list")
@click.option("--cloud", default="any", show_default=True, help="Only this cloud.")
@click.option("--region", type=Text("--region"), help="Only this region.")
@click.option("--market", type=MARKET, default="any", show_default=True, help="How it is paid.")
@hardware_options
@click.option("--instance", "names", multiple=True, help="Only this type; may be repeated.")
@click.option("--max-price", type=Positive("--max-price"), help="USD per hour, without a disk.")
@click.option("--cny-per-usd", type=Positive("--cny-per-usd"), help="Yuan for a dollar.")
@click.option("-o", "--output", type=FORMAT, default="table", show_default=True)
def list_offers(output: str, cny_per_usd: float | None, **asked: Any) -> None:
    """All priced offers, cheapest first; in JSON every one, in a table the first 40.

    Prices are list prices, observed ones (spot), or estimated: the table says which.
    """
    known = load_catalog(cny_per_usd=cny_per_usd)
    query = _query(**asked)
    if output == "json":
        for piece in _document(known, query):
            click.echo(piece)
        return
    offers, count = known.cheapest(query, SHOWN_OFFERS)
    partial = sorted(known.partial_offers(query), key=_place)
    shown = sorted([*map(_row, offers), *map(_partial_row, partial)], key=lambda row: row[0])
    click.echo("\n".join(_table([cells for _, cells in shown[:SHOWN_OFFERS]])))
    more = count + len(partial) - SHOWN_OFFERS
    if more > 0:
        click.echo(f"... and {more:,} more; filter, or take all with -o json")


def _query(
    cloud: str,
    region: str | None,
    market: str,
    names: tuple[str, ...],
    max_price: float | None,
    **hardware: Any,
) -> OfferQuery:
    return OfferQuery(
        cloud=cloud.lower(),
        region=region,
        market=None if market == "any" else Market(market),
        **hardware_answers(hardware),
        instances=names,
        max_usd_per_hour=max_price,
    )


def _document(known: Catalog, query: OfferQuery) -> Iterator[str]:
    """The JSON document, an offer a line: there are many, and none waits for the others."""
    found: list[Offer | PartialOffer] = [*known.offers(query), *known.partial_offers(query)]
    found.sort(key=_place)
    head = {"schema": SCHEMA, "as_of": known.as_of.isoformat(), "sources": list(known.sources)}
    yield json.dumps(head, indent=2)[:-2] + ',\n  "offers": ['
    for place, one in enumerate(found, 1):
        document = _offer_document(one) if isinstance(one, Offer) else _partial_document(one)
        comma = "," if place < len(found) else ""
        yield f"    {json.dumps(document, allow_nan=False)}{comma}"
    yield "  ]\n}"


def _offer_document(one: Offer) -> dict[str, Any]:
    return {
        "cloud": one.instance.cloud,
        "region": one.region,
        "market": str(one.market),
        **instance_document(one.instance),
        "price": price_document(one.price),
        "missing": [],
    }


def _partial_document(one: PartialOffer) -> dict[str, Any]:
    facts = one.type
    gpu = {"name": facts.gpu_name, "count": facts.gpu_count, "memory_mib": facts.gpu_memory_mib}
    return {
        "cloud": facts.cloud,
        "region": one.region,
        "market": str(one.market),
        "instance_type": facts.name,
        "gpu": gpu if facts.gpu_name else None,
        "vcpus": facts.vcpus,
        "physical_cores": None,
        "memory_mib": facts.memory_mib,
        "price": price_document(one.price),
        "missing": list(facts.missing),
    }


Row = tuple[tuple[float, str, str, str, str], list[str]]


def _row(one: Offer) -> Row:
    facts = one.instance
    gpu = f"{facts.gpu_count} x {facts.gpu_name}" if facts.gpu_name else "-"
    size = [str(facts.vcpus), str(facts.physical_cores), format_mib(facts.memory_mib)]
    return _place(one), [facts.cloud, facts.name, one.region, gpu, *size, *_price_cells(one)]


def _partial_row(one: PartialOffer) -> Row:
    facts = one.type
    gpu = f"{facts.gpu_count or '?'} x {facts.gpu_name}" if facts.gpu_name else "-"
    memory = format_mib(facts.memory_mib) if facts.memory_mib else "?"
    size = [str(facts.vcpus or "?"), "?", memory]
    return _place(one), [
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


def _place(one: Offer | PartialOffer) -> tuple[float, str, str, str, str]:
    """Cheapest first, ties in an order that no two offers share."""
    facts = one.instance if isinstance(one, Offer) else one.type
    return one.price.usd_per_hour, facts.cloud, one.region, facts.name, str(one.market)
