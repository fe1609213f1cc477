"""`advisor catalog sources`: where prices and facts come from, how old they are, their licences."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import click

from advisor.catalog import load_catalog
from advisor.catalog.sources import SourceUse, source_uses
from advisor.cli.questions import output_option
from advisor.questions.requests import today
from advisor.render.text import table

SCHEMA = "advisor.catalog-sources/1"


@click.command()
@output_option
def sources(output: str) -> None:
    """Show where prices and facts come from: date, age, licence, and what rests on each.

    A price that is older than its limit gives a warning, and is left out by --strict.
    """
    now, uses = today(), source_uses(load_catalog().bundles)
    if output == "json":
        document = {"schema": SCHEMA, "today": now.isoformat()}
        rows = [_document(use, now) for use in uses]
        click.echo(json.dumps(document | {"sources": rows}, indent=2))
    else:
        click.echo("\n".join(_lines(uses, now)))


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
    rows = [
        [
            use.part,
            use.as_of.isoformat(),
            f"{use.age_days(now):,}",
            f"{use.max_age_days:,}" if use.max_age_days else "-",
            "too old" if use.is_too_old(now) else "",
            f"{use.prices:,}" if use.prices else "-",
            use.licence,
            use.origin,
        ]
        for use in uses
    ]
    header = ["what", "as of", "days old", "limit", "", "prices", "licence", "from"]
    notes = sorted({f"{use.part}: {use.note}" for use in uses if use.note})
    total = f"{sum(use.prices for use in uses):,} prices of instances and disks"
    return [*table(header, rows, right=(2, 3, 5)), total, *(["", *notes] if notes else [])]
