"""`advisor catalog show`: everything known about one type."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import click

from advisor.answers.listing import shown_type
from advisor.catalog import load_catalog
from advisor.cli.questions import Name, cny_option, question_options
from advisor.questions.models import InstanceDetails
from advisor.render.tables import short_number
from advisor.render.text import WIDTH, table
from advisor.units import format_usd

# Before a fact of a type.
MARGIN = " " * 42


@click.command()
@click.argument("instance_type")
@question_options(InstanceDetails)
@cny_option
@click.option("-o", "--output", type=Name("output format", ("table", "json")), default="table",
              show_default=True)  # fmt: skip
def show(
    instance_type: str, question: InstanceDetails, cny_per_usd: float | None, output: str
) -> None:
    """Facts and prices of one instance type."""
    known = load_catalog(cny_per_usd=cny_per_usd)
    document = shown_type(known, instance_type, question)
    if output == "json":
        click.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    click.echo("\n".join(_text(document)))


def _text(document: dict[str, Any]) -> list[str]:
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
        [region, format_usd(one["usd_per_hour"]), one["kind"], one["as_of"], one["terms"] or ""]
        for region, one in rising
    ]
    sources = dict.fromkeys(f"{one['kind']}: {one['source']}" for _, one in rising)
    header = [f"region ({market})", "per hour", "price", "as of", "terms"]
    folded = [part for one in sources for part in textwrap.wrap(one, WIDTH, subsequent_indent="  ")]
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
