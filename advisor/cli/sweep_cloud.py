"""`advisor sweep run --on aws`: its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from advisor.cli.cloud_options import launch_options
from advisor.cli.parameters import Name, Text
from advisor.runs.cloud.sweep_asking import MARKETS

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--region", "regions", type=Text("--region"), multiple=True, metavar="REGION",
                 help="Of --on aws; more of them are tried in this order.  [us-east-1]"),
    click.option("--market", type=Name("market", tuple(MARKETS)), help="Of --on aws.  [any]"),
    click.option("--database-parameter", type=Text("--database-parameter"),
                 help="SSM parameter with the URL of a shared PostgreSQL."),
)  # fmt: skip


def cloud_options(command: Command) -> Command:
    """Add the options to a command; it receives them under their names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return launch_options(command)
