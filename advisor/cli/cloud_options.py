"""What every command that launches on AWS asks: whose, for how much, how long, by what network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from advisor.cli.parameters import Name, Positive, Text
from advisor.runs.cloud.asking import NAMES as NAMES

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--on", type=Name("place", ("here", "aws")), default="here", show_default=True,
        help="aws: on an instance of its own, within a --budget; it is ended after that.",
    ),
    click.option("--dry-run", is_flag=True, help="Of --on aws: look, launch nothing."),
    click.option("--hours", type=Positive("--hours", most=168),
                 help="Of --on aws: the longest life of an instance."),
    click.option("--queue", type=Positive("--queue", most=10_080), metavar="MINUTES",
                 help="How long to wait for capacity.  [15]"),
    click.option("--owner", type=Text("--owner"), help="Whose it is, as a tag.  [you]"),
    click.option("--sweep-id", type=Text("--sweep-id"), help="Its name.  [made of what is asked]"),
    click.option("--bucket", type=Text("--bucket"),
                 help="Of S3, for jobs and results.  [ADVISOR_BUCKET]"),
    click.option("--subnet", type=Text("--subnet"), help="Instead of the default ones."),
    click.option("--image", type=Text("--image"), help="Instead of AWS's newest with the driver."),
    click.option("--instance-profile", type=Text("--instance-profile"),
                 help="Role of the instance; none for none.  [advisor-guest]"),
)  # fmt: skip


def launch_options(command: Command) -> Command:
    """Add the options to a command; it receives them under `NAMES`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
