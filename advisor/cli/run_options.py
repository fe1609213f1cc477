"""Options that say how long a run is and what it may take, and how they reach a `Request`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from advisor.cli.parameters import Positive
from advisor.domain import DatasetProfile
from advisor.errors import UsageError

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


def run_answers(answers: Mapping[str, Any], dataset: DatasetProfile) -> dict[str, Any]:
    """Fields of a `Request`; `UsageError` where they do not go together."""
    epochs, samples = answers.get("epochs"), answers.get("samples")
    limits = {name: answers.get(name) for name in ("max_hours", "max_cost")}
    if epochs is not None and samples is not None:
        raise UsageError("--epochs and --samples both say how long a run is; give one of them")
    for name, value in limits.items():
        if value is not None and epochs is None and samples is None:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} limits a run: say how long it is with --epochs or --samples"
            )
    if epochs is not None and not math.isfinite(epochs * dataset.samples):
        raise UsageError(f"--epochs {epochs:g} of {dataset.name} is more than can be counted")
    return {
        "epochs": epochs,
        "samples": samples,
        "max_hours": limits["max_hours"],
        "max_run_usd": limits["max_cost"],
    }
