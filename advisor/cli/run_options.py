"""Options that say how long a run is and what it may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from advisor.cli.parameters import Positive

Command = TypeVar("Command", bound=Callable[..., Any])


def run_options(command: Command) -> Command:
    """The length of a run: passes over the data set, or samples."""
    samples = click.option(
        "--samples", type=Positive("--samples", whole=True),
        help="The same for a run of so many samples.",
    )  # fmt: skip
    epochs = click.option(
        "--epochs", type=Positive("--epochs"),
        help="Tell hours and dollars of a run of so many passes over the data set.",
    )  # fmt: skip
    return epochs(samples(command))


def run_limit_options(command: Command) -> Command:
    """What a run may take; both are surely kept."""
    cost = click.option(
        "--max-cost", type=Positive("--max-cost"),
        help="USD that the whole run surely stays within, disk included.",
    )  # fmt: skip
    hours = click.option(
        "--max-hours", type=Positive("--max-hours"), help="Hours that the run surely ends within."
    )
    return hours(cost(command))
