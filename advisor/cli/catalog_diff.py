"""`advisor catalog diff`: what a refresh or a new release changes in prices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from advisor.answers.price_changes import SCHEMA, answer_changes, catalog_in, price_changes
from advisor.answers.reporting.reproducing import Input
from advisor.answers.reporting.saved import read_saved
from advisor.catalog import OfferQuery
from advisor.cli.questions import Name, Text, output_option
from advisor.domain import Market
from advisor.errors import UsageError
from advisor.render.price_changes import price_changes_text

_MARKETS = {"any": None} | {str(market): market for market in Market}


@click.command()
@click.argument("old")
@click.argument("new")
@click.option("--cloud", type=Text("--cloud"), default="any", show_default=True)
@click.option("--region", type=Text("--region"), help="Only this region.")
@click.option("--market", type=Name("market", tuple(_MARKETS)), default="any", show_default=True)
@click.option("--instance", multiple=True, metavar="TYPE", help="Only these types.")
@click.option(
    "--answers",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Saved answers or reports (JSON): what their specs cost then and now.",
)
@output_option
def diff(
    old: str,
    new: str,
    cloud: str,
    region: str | None,
    market: str,
    instance: tuple[str, ...],
    answers: tuple[Path, ...],
    output: str,
) -> None:
    """Show what prices changed from OLD to NEW, and what that means for saved answers.

    Each is `bundle` (the snapshot that ships), `current` (with what you imported and refreshed), a
    folder of either, or a file of refreshed prices.

    \b
    advisor catalog diff bundle current
    advisor catalog diff old/aws.refreshed.json current --answers answer.json
    """
    query = OfferQuery(cloud=cloud, region=region, market=_MARKETS[market], instances=instance)
    saved = [(str(path), _saved(path)) for path in answers]
    before, after = catalog_in(old), catalog_in(new)
    document: dict[str, Any] = {"schema": SCHEMA, "old": old, "new": new}
    document |= price_changes(before, after, query)
    document["answers"] = answer_changes(before, after, saved)
    if output == "json":
        click.echo(json.dumps(document, indent=1, allow_nan=False))
        return
    click.echo(price_changes_text(document), nl=False)


def _saved(path: Path) -> dict[str, Any]:
    try:
        return read_saved(Input(str(path), path.read_bytes()))
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}") from None
