"""`--usd-per-hour` and `--instance`: what the host of a sweep costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from advisor.errors import UsageError
from advisor.units import parse_positive

Command = TypeVar("Command", bound=Callable[..., Any])

NAMES = ("usd_per_hour", "instance")


def host_price_options(command: Command) -> Command:
    """Add the options to a command; it receives them under `NAMES`."""
    price = click.option(
        "--usd-per-hour", metavar="PRICE", help="What this host costs: tells cost, for budgets."
    )
    instance = click.option(
        "--instance",
        metavar="TYPE",
        help="This host's type, for its price; the one to launch, with --on aws.",
    )
    return price(instance(command))


def host_usd_per_hour(answers: Mapping[str, Any]) -> float | None:
    """The price that is given, or that of the type on demand; None where neither is."""
    if answers["usd_per_hour"] and answers["instance"]:
        raise UsageError("--usd-per-hour and --instance both price this host; give one of them")
    if answers["usd_per_hour"]:
        return parse_positive(answers["usd_per_hour"], "--usd-per-hour")
    if not answers["instance"]:
        return None
    from advisor.operations.host_price import on_demand_usd_per_hour

    return on_demand_usd_per_hour(answers["instance"])
