"""`advisor catalog refresh`: today's prices of AWS in place of the snapshot's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from advisor.catalog import Catalog, OfferQuery, load_catalog
from advisor.catalog.bundle import own_imports
from advisor.cli.questions import Name, Text, question_options
from advisor.domain import Market
from advisor.errors import LiveError, UsageError
from advisor.questions.models import HardwareFilter
from advisor.questions.requests import DEFAULT_REGION, hardware_fields, today
from advisor.records import replace

if TYPE_CHECKING:
    from advisor.domain.live import Refresh

CLOUD = "aws"
MARKETS = {
    "any": (Market.ON_DEMAND, Market.SPOT),
    "on-demand": (Market.ON_DEMAND,),
    "spot": (Market.SPOT,),
}


@click.command("refresh")
@click.option(
    "--region",
    type=Text("--region"),
    default=DEFAULT_REGION[CLOUD],
    show_default=True,
    help="AWS region.",
)
@click.option(
    "--instance",
    "names",
    multiple=True,
    metavar="TYPE",
    help="Only this type. Repeatable.  [default: all accelerated types]",
)
@question_options(HardwareFilter, "hardware")
@click.option(
    "--market",
    type=Name("market", tuple(MARKETS)),
    default="any",
    show_default=True,
    help="Which prices to fetch.",
)
@click.option(
    "--accept-implausible",
    is_flag=True,
    help="Accept prices far from the known ones, and types that vanished in bulk.",
)
@click.option("--show", "shown", is_flag=True, help="Show what was refreshed; contact nobody.")
@click.option("--forget", is_flag=True, help="Return to the bundled snapshot.")
@click.option("-o", "--output", type=Name("output format", ("table", "json")), default="table",
              show_default=True)  # fmt: skip
def refresh(shown: bool, forget: bool, output: str, **asked: Any) -> None:
    """Fetch current prices and offers from AWS; later commands use them.

    Needs credentials that may read prices and types. Ctrl-C changes nothing.

    \b
    advisor catalog refresh --gpu T4,L4,A10G
    advisor catalog refresh --region eu-west-1 --instance g5.xlarge --market spot
    """
    if shown and forget:
        raise UsageError("--show and --forget exclude each other")
    if forget:
        _forget()
    elif shown:
        _show(output)
    else:
        _refresh(output, **asked)


def _forget() -> None:
    from advisor.catalog.refreshed import forget_refreshed

    done = forget_refreshed(own_imports())
    click.echo("back to the snapshot" if done else "nothing had been refreshed", err=True)


def _show(output: str) -> None:
    from advisor.catalog.refreshed import read_refreshed
    from advisor.render.refreshing import kept_document, kept_text

    kept = read_refreshed(own_imports())
    click.echo(json.dumps(kept_document(kept), indent=2) if output == "json" else kept_text(kept))


def _refresh(
    output: str,
    region: str,
    names: tuple[str, ...],
    market: str,
    accept_implausible: bool,
    hardware: HardwareFilter,
) -> None:
    from advisor.answers.live.refreshing import Wanted, refresh, types_to_ask
    from advisor.render.refreshing import refresh_document, refresh_text

    wanted = Wanted(
        region=region,
        markets=MARKETS[market],
        names=types_to_ask(_bundled(), region, _query(names, hardware)),
        today=today(),
        accept_implausible=accept_implausible,
    )
    told = refresh(wanted, load_catalog(), own_imports(), lambda line: click.echo(line, err=True))
    document = refresh_document(told) if output == "json" else None
    click.echo(json.dumps(document, indent=2) if document else refresh_text(told))
    _require_any(told)


def _bundled() -> Catalog:
    """The snapshot alone: a type that was withdrawn by an earlier answer is asked for again."""
    from advisor.catalog.files import DATA_FOLDER

    return load_catalog(DATA_FOLDER)


def _query(names: tuple[str, ...], hardware: HardwareFilter) -> OfferQuery:
    asked = OfferQuery(cloud=CLOUD, instances=names, **hardware_fields(hardware))
    return asked if names else replace(asked, accelerated=True)


def _require_any(told: Refresh) -> None:
    if told.answers and not any(one.told for one in told.answers):
        raise LiveError(
            f"AWS told no price that could be taken, of {len(told.answers)} asked for; "
            "the known ones stay"
        )
