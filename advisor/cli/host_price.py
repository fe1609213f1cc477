"""`--usd-per-hour` and `--instance`: what the host of a sweep costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from advisor.runs.host_price import NAMES as NAMES

Command = TypeVar("Command", bound=Callable[..., Any])


def host_price_options(command: Command) -> Command:
    """Add the options to a command; it receives them under `NAMES`."""
    price = click.option(
        "--usd-per-hour", metavar="PRICE", help="Price of this host, for costs and budgets."
    )
    instance = click.option(
        "--instance",
        metavar="TYPE",
        help="Type of this host, for its price; with --on aws the type to launch.",
    )
    return price(instance(command))
