"""Where an offer may be: the same three options wherever offers are looked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from advisor.cli.parameters import Name, Text
from advisor.cli.requests import DEFAULT_REGION

Command = TypeVar("Command", bound=Callable[..., Any])


def place_options(command: Command) -> Command:
    """--cloud, --region and --market."""
    options = [
        click.option("--cloud", type=Name("cloud", (*DEFAULT_REGION, "any")), default="aws",
                     show_default=True, help="Where to look."),
        click.option("--region", type=Text("--region"),
                     help="Region of the cloud.  [default: us-east-1 for aws, else all]"),
        click.option("--market", type=Name("market", ("on-demand",)), default="on-demand",
                     show_default=True, help="How it is paid."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def region_of(cloud: str, region: str | None) -> str | None:
    """The region that is asked for, or the cloud's usual one; None is every region."""
    return region or DEFAULT_REGION.get(cloud)
