"""Where an offer may be: the same three options wherever offers are looked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from advisor.cli.parameters import Name, Text
from advisor.domain import Market

Command = TypeVar("Command", bound=Callable[..., Any])


def place_options(command: Command) -> Command:
    """--cloud, --region and --market. Clouds are checked by the catalogue: imports add some."""
    options = [
        click.option("--cloud", type=Text("--cloud"), default="aws", show_default=True,
                     help="Where to look: aws, gcp, azure, alibaba, an import's name, or any."),
        click.option("--region", type=Text("--region"),
                     help="Region of the cloud.  [default: us-east-1 for aws, else all]"),
        click.option("--market", type=Name("market", tuple(Market)), default="on-demand",
                     show_default=True, help="How it is paid."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command
