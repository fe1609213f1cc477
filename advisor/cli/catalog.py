"""`advisor catalog`: offers, instance types, disks, price changes, and the sources of prices and facts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import date
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from advisor.answers.listing import page_of, query_of, shown_type
from advisor.answers.price_changes import SCHEMA as DIFF_SCHEMA
from advisor.answers.price_changes import answer_changes, catalog_in, price_changes
from advisor.answers.reporting.reports import read_input
from advisor.answers.reporting.saved import read_saved
from advisor.catalog import Catalog, DiskCatalog, OfferQuery, load_catalog
from advisor.catalog.assumed import READ_IOPS, READ_MIB_S
from advisor.catalog.disk_orders import LOCAL, unknown_disk
from advisor.catalog.prices import SourceUse
from advisor.cli.catalog_updates import import_offers, refresh
from advisor.cli.printing import print_answer
from advisor.cli.questions import FieldType, SectionedCommand, cny_option, output_option, question_options
from advisor.domain import ESTIMATED, HOURS_PER_MONTH, DiskChoice, Market
from advisor.domain.words import ANY_MARKET
from advisor.errors import UsageError
from advisor.questions.fields import Choice, Files, Kind, Texts
from advisor.questions.listings import InstanceDetails, Offers
from advisor.questions.question import Question, ask
from advisor.questions.settled import OWN_DISK, today
from advisor.records import asdict
from advisor.render.catalog import assumed_block, assumed_text, catalog_head, offer_document
from advisor.render.listings import SHOWN_OFFERS, hourly_text, offers_text
from advisor.render.records import price_block
from advisor.render.refreshing import price_changes_text
from advisor.render.tables import short_number
from advisor.render.text import WIDTH, folded, table

T = TypeVar("T")
# As wide as the column of labels of `catalog show`.
MARGIN = " " * 42
SOURCES_SCHEMA = "advisor.catalog-sources/1"
# A remark in brackets behind a licence; only JSON and --origins show it.
_REMARK = re.compile(r" \([^)]*\)")


@click.group()
def catalog() -> None:
    """Instance types and prices: the bundled snapshot, what was imported, what was refreshed."""


catalog.add_command(import_offers)
catalog.add_command(refresh)


@catalog.command()
@click.option("--origins", is_flag=True, help="Name the origin of each, too (JSON always does).")
@output_option
def sources(origins: bool, output: str) -> None:
    """Show where prices and facts come from: date, age, licence, and what rests on each.

    A price that is older than its limit gives a warning, and is left out by --strict. Several sources of one
    name are a line, with the day of the oldest."""
    now, uses = today(), load_catalog().source_uses
    rows = [
        {
            **asdict(use),
            "as_of": str(use.as_of),
            "age_days": use.age_days(now),
            "too_old": use.is_too_old(now),
        }
        for use in uses
    ]
    document = {"schema": SOURCES_SCHEMA, "today": now.isoformat(), "sources": rows}
    print_answer(output, document, lambda: _source_lines(uses, now, origins=origins), indent=2)


def _source_lines(uses: list[SourceUse], now: date, *, origins: bool) -> list[str]:
    by_part = _grouped((use.part, use) for use in uses)
    rows = [_source_row(alike, now) for alike in by_part.values()]
    header = ["what", "as of", "days old", "old after", "", "prices", "licence"]
    lines = table(header, rows, right=(2, 3, 5))
    lines.append(
        f"{sum(use.prices for use in uses):,} prices of instances and disks; old ones count, but for --strict"
    )
    # Each note appears once, after the names of all sources to which it applies.
    noted = _grouped((use.note, use.part) for use in sorted(uses, key=attrgetter("part")) if use.note)
    paragraphs = [[f"{', '.join(dict.fromkeys(parts))}: {note}" for note, parts in noted.items()]]
    if origins:
        paragraphs.append([f"{use.part}, {use.as_of}: {use.origin} ({use.licence})" for use in uses])
    for texts in filter(None, paragraphs):
        lines += ["", *(line for text in texts for line in folded(text, indent=2))]
    return lines


def _source_row(alike: list[SourceUse], now: date) -> list[str]:
    """One table row for all sources with the same name, with the date of the oldest."""
    oldest, prices = min(alike, key=attrgetter("as_of")), sum(use.prices for use in alike)
    limits = [use.max_age_days for use in alike if use.max_age_days]
    licences = dict.fromkeys(_REMARK.sub("", use.licence) for use in alike)
    return [
        oldest.part,
        oldest.as_of.isoformat(),
        f"{oldest.age_days(now):,}",
        f"{min(limits):,}" if limits else "-",
        "old" if any(use.is_too_old(now) for use in alike) else "",
        f"{prices:,}" if prices else "-",
        "several" if len(licences) > 1 else "".join(licences),
    ]


def _grouped(pairs: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = {}
    for name, value in pairs:
        groups.setdefault(name, []).append(value)
    return groups


_MARKET = Choice("market", (ANY_MARKET, *Market), every=ANY_MARKET)


class ChangedPrices(Question):
    """Which prices `advisor catalog diff` compares."""

    cloud: str = ask("", Kind(), default="any")
    region: str | None = ask("Only this region.", Kind())
    market: Market | None = ask("", _MARKET, ANY_MARKET)
    instance: tuple[str, ...] = ask("Only these types.", Texts("TYPE"), default=())
    answers: tuple[Path, ...] = ask(
        "Saved answers or reports (JSON): what their specs cost then and now.", Files(), default=()
    )


@catalog.command()
@click.argument("old")
@click.argument("new")
@question_options(ChangedPrices)
@output_option
def diff(question: ChangedPrices, old: str, new: str, output: str) -> None:
    """Show what prices changed from OLD to NEW, and what that means for saved answers.

    Each is `bundle` (the snapshot that ships), `current` (with what you imported and refreshed), a
    folder of either, or a file of refreshed prices.

    \b
    advisor catalog diff bundle current
    advisor catalog diff old/aws.refreshed.json current --answers answer.json"""
    query = OfferQuery(
        cloud=question.cloud, region=question.region, market=question.market, instances=question.instance
    )
    saved = [(str(path), read_saved(read_input(str(path)))) for path in question.answers]
    before, after = catalog_in(old), catalog_in(new)
    document: dict[str, Any] = {"schema": DIFF_SCHEMA, "old": old, "new": new}
    document |= price_changes(before, after, query)
    document["answers"] = answer_changes(before, after, saved)
    print_answer(output, document, lambda: price_changes_text(document).removesuffix("\n"))


@catalog.command("list", cls=SectionedCommand)
@question_options(Offers)
@cny_option
@output_option
def list_offers(question: Offers, cny_per_usd: float | None, output: str) -> None:
    """List priced offers, cheapest first: all of them in JSON, the first 40 in a table.

    Prices are list prices, observed ones (spot), or estimated: the table says which."""
    catalogue = load_catalog(cny_per_usd=cny_per_usd)
    query = query_of(question)
    if output == "table":
        click.echo(offers_text(*page_of(catalogue, query, 0, SHOWN_OFFERS)))
        return
    # There are many offers: print each on a line as soon as it is ready.
    click.echo(json.dumps(catalog_head(catalogue), indent=2)[:-2] + ',\n  "offers": [')
    offers = page_of(catalogue, query).offers
    for number, offer in enumerate(offers, 1):
        comma = "," if number < len(offers) else ""
        click.echo(f"    {json.dumps(offer_document(*offer), allow_nan=False)}{comma}")
    click.echo("  ]\n}")


@catalog.command()
@click.argument("instance_type", type=FieldType(Kind(), "instance"))
@question_options(InstanceDetails)
@cny_option
@output_option
def show(instance_type: str, question: InstanceDetails, cny_per_usd: float | None, output: str) -> None:
    """Facts and prices of one instance type."""
    document = shown_type(load_catalog(cny_per_usd=cny_per_usd), instance_type, question)
    print_answer(output, document, lambda: _type_lines(document), indent=2)


def _type_lines(document: dict[str, Any]) -> list[str]:
    """The text of `catalog show`: a line for each fact, then a table of prices, cheapest region first."""
    apart = ("market", "prices", "assumed")
    rows = _flat_facts({name: value for name, value in document.items() if name not in apart})
    for name, fact in document.get("assumed", {}).items():
        rows.append((f"{_how_known(fact)} {name}", assumed_text(fact)))
    width = WIDTH - len(MARGIN)
    lines = [
        f"{label if not index else '':{len(MARGIN)}}{part}"
        for label, value in rows
        for index, part in enumerate(folded(value, width) or ["-"])
    ]
    return [*lines, "", *_price_lines(document["prices"], document["market"])]


def _how_known(fact: dict[str, Any]) -> str:
    return "imported" if fact["imported"] else "assumed"


def _price_lines(prices: dict[str, dict[str, Any]], market: str) -> list[str]:
    if not prices:
        return [f"No {market} price is known."]
    hourly = {  # in dollars if the exchange rate is known
        region: (price["per_hour"], price["currency"])
        if price["usd_per_hour"] is None
        else (price["usd_per_hour"], "USD")
        for region, price in prices.items()
    }
    rising = sorted(prices.items(), key=lambda item: (hourly[item[0]][0], item[0]))
    rows = [
        [region, hourly_text(*hourly[region]), price["kind"], price["as_of"], price["terms"] or ""]
        for region, price in rising
    ]
    sources = dict.fromkeys(f"{price['kind']}: {price['source']}" for _, price in rising)
    header = [f"region ({market})", "per hour", "price", "as of", "terms"]
    lines = [part for source in sources for part in folded(source, indent=2)]
    return [*table(header, rows, right=(1,)), "", *lines]


def _flat_facts(document: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, value in document.items():
        if isinstance(value, dict):
            lines += _flat_facts(value, f"{prefix}{name} ")
        elif isinstance(value, list):
            lines.append((prefix + name, ", ".join(map(str, value)) or "-"))
        elif name != "schema":
            lines.append((prefix + name, _fact_text(value)))
    return lines


def _fact_text(value: Any) -> str:
    """A fact as text, rounded (unlike in the JSON)."""
    if value in (None, ""):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return short_number(value) if isinstance(value, float) else str(value)


DISKS_SCHEMA = "advisor.disks/1"
# The size shown if none is given; disk types that start above it are shown at their smallest size.
EXAMPLE_GIB = 500.0
BURST_KEYS = ("read_mib_per_second", "read_iops", "seconds")


@catalog.command()
@click.argument("disk", required=False)
@click.option("--cloud", help="Only this cloud.  [default: the one that has the type, else all]")
@click.option("--region", help="Only prices of this region.")
@output_option
def disks(disk: str | None, cloud: str | None, region: str | None, output: str) -> None:
    """Show network disks: sustained rate, burst, price.

    DISK is a type, with a size and what is provisioned if you like: gp3:500GiB:6000iops:250MiB/s. Without
    one, every type is shown at 500 GiB."""
    catalogue = load_catalog()
    shown = [
        _disk_document(catalogue.disks_of(name), name, choice, region)
        for name in _clouds(catalogue, cloud, disk)
        for choice in _disk_orders(catalogue.disks_of(name), disk)
    ]
    if region and not any(document["prices"] for document in shown):
        hint = "leave --region out to see all of them"
        raise UsageError(f"no disk price in region '{region}' is known", field="region", hint=hint)
    document = {"schema": DISKS_SCHEMA, "disks": shown}
    text = (lambda: _disk_lines(shown[0])) if disk else (lambda: _disk_rows(shown, region))
    print_answer(output, document, text, indent=2)


def _clouds(catalogue: Catalog, cloud: str | None, disk: str | None) -> list[str]:
    """The clouds whose disks are shown: `cloud` if given, else the first with the disk's type, or all."""
    name = (disk or "").partition(":")[0].strip().lower()
    if name in (OWN_DISK, LOCAL):
        hint = "see those of one with `advisor catalog show g4dn.xlarge`"
        raise UsageError("local disks differ by instance", field="disk", hint=hint)
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


def _disk_orders(catalog: DiskCatalog, disk: str | None) -> Iterator[DiskChoice]:
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
            f"{document['read_mib_per_second']:,.3g}{_assumed_mark(document, READ_MIB_S)}",
            f"{document['read_iops']:,.0f}{_assumed_mark(document, READ_IOPS)}",
            _burst_text(document["burst"]),
            _least_monthly_text(document["prices"]),
        ]
        for document in shown
        if document["prices"] or not region
    ]
    header = ["cloud", "disk", "MiB/s", "IOPS", "at first", "a month"]
    where = f"Prices of {region}" if region else "Prices of the cheapest region"
    legend = f"{where}. ~ is estimated, * assumed; a DISK shows the range and why."
    return [*table(header, rows, right=(2, 3, 5)), "", *folded(legend)]


def _assumed_mark(disk: dict[str, Any], rate: str) -> str:
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
        text = f"{_how_known(fact):10} {name.partition('.')[2]} {assumed_text(fact)}"
        lines += folded(text, indent=11)
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
    """The monthly price's interval as text; empty if the price is exact."""
    low, high = (price[f"{end}_usd_per_hour"] * HOURS_PER_MONTH for end in ("low", "high"))
    return f"${low:,.2f} to ${high:,.2f}" if low < high else ""


def _rate_text(rate: dict[str, Any]) -> str:
    return f"{rate['read_mib_per_second']:,.4g} MiB/s, {rate['read_iops']:,.0f} IOPS"


def _burst_text(burst: dict[str, Any] | None) -> str:
    if burst is None:
        return "the same"
    return f"{_rate_text(burst)} for {burst['seconds'] / 3600:.1f} h"


def _least_monthly_text(prices: dict[str, dict[str, Any]]) -> str:
    if not prices:
        return "unknown"
    least = min(prices.values(), key=itemgetter("usd_per_month"))
    return f"{'~' if least['kind'] == ESTIMATED else ''}${least['usd_per_month']:,.2f}"
