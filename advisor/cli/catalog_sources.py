"""`advisor catalog sources`: where prices and facts come from, how old they are, their licences."""

from __future__ import annotations

import json
import re
import textwrap
from datetime import date
from operator import attrgetter
from typing import Any

import click

from advisor.catalog import load_catalog
from advisor.catalog.prices import SourceUse
from advisor.cli.questions import output_option
from advisor.questions.requests import today
from advisor.render.text import WIDTH, table

SCHEMA = "advisor.catalog-sources/1"
# What a licence says in brackets is for JSON and --origins.
_REMARK = re.compile(r" \([^)]*\)")


@click.command()
@click.option("--origins", is_flag=True, help="Name the origin of each, too (JSON always does).")
@output_option
def sources(origins: bool, output: str) -> None:
    """Show where prices and facts come from: date, age, licence, and what rests on each.

    A price that is older than its limit gives a warning, and is left out by --strict. Several
    sources of one name are a line, with the day of the oldest.
    """
    now, uses = today(), load_catalog().source_uses
    if output == "json":
        document = {"schema": SCHEMA, "today": now.isoformat()}
        rows = [_document(use, now) for use in uses]
        click.echo(json.dumps(document | {"sources": rows}, indent=2))
    else:
        click.echo("\n".join([*_lines(uses, now), *(_origin_lines(uses) if origins else [])]))


def _document(use: SourceUse, now: date) -> dict[str, Any]:
    return {
        "source": use.id,
        "part": use.part,
        "as_of": use.as_of.isoformat(),
        "age_days": use.age_days(now),
        "max_age_days": use.max_age_days,
        "too_old": use.is_too_old(now),
        "prices": use.prices,
        "licence": use.licence,
        "origin": use.origin,
        "note": use.note,
    }


def _lines(uses: list[SourceUse], now: date) -> list[str]:
    rows = [_row(alike, now) for alike in _by_part(uses).values()]
    header = ["what", "as of", "days old", "limit", "", "prices", "licence"]
    folded = [line for note in _notes(uses) for line in _folded(note)]
    total = f"{sum(use.prices for use in uses):,} prices of instances and disks"
    return [*table(header, rows, right=(2, 3, 5)), total, *(["", *folded] if folded else [])]


def _row(alike: list[SourceUse], now: date) -> list[str]:
    """One line for sources of one name: as old as the oldest of them."""
    oldest, prices = min(alike, key=attrgetter("as_of")), sum(use.prices for use in alike)
    limits = [use.max_age_days for use in alike if use.max_age_days]
    licences = dict.fromkeys(_REMARK.sub("", use.licence) for use in alike)
    return [
        oldest.part,
        oldest.as_of.isoformat(),
        f"{oldest.age_days(now):,}",
        f"{min(limits):,}" if limits else "-",
        "too old" if any(use.is_too_old(now) for use in alike) else "",
        f"{prices:,}" if prices else "-",
        "several" if len(licences) > 1 else "".join(licences),
    ]


def _notes(uses: list[SourceUse]) -> list[str]:
    """Each note once, behind the names of all that it is about."""
    about: dict[str, dict[str, None]] = {}
    for use in sorted(uses, key=attrgetter("part")):
        if use.note:
            about.setdefault(use.note, {})[use.part] = None
    return [f"{', '.join(parts)}: {note}" for note, parts in about.items()]


def _origin_lines(uses: list[SourceUse]) -> list[str]:
    named = [f"{use.part}, {use.as_of}: {use.origin} ({use.licence})" for use in uses]
    return ["", *(line for text in named for line in _folded(text))]


def _by_part(uses: list[SourceUse]) -> dict[str, list[SourceUse]]:
    found: dict[str, list[SourceUse]] = {}
    for use in uses:
        found.setdefault(use.part, []).append(use)
    return found


def _folded(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
