"""What the instance must have, as options: the same words wherever types are chosen among."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from advisor.domain import Range
from advisor.questions.hardware import (
    GpuWanted,
    wanted_gpus,
    wanted_memory,
    wanted_vcpus,
)

Command = TypeVar("Command", bound=Callable[..., Any])

GPU_HELP = "Only these GPUs, of so much memory or compute capability: T4,L4 | 24GiB.. | cc8.0.."


class GpuFilter(click.ParamType[GpuWanted]):
    """'T4,L4', '24GiB..48GiB', 'cc8.0..' or several of them: 'A100,40GiB..'."""

    name = "names|SIZE..|ccX.Y.."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> GpuWanted:
        """Names are checked against the catalogue later."""
        return value if isinstance(value, GpuWanted) else wanted_gpus(value)


class Between(click.ParamType[Range]):
    """'4..16', '4..', '..16', or '8' for 8 alone."""

    name = "LEAST..MOST"

    def __init__(self, read: Callable[[str], Range]) -> None:
        self.read = read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Range:
        """`UsageError` for a range that holds nothing, or leaves out nothing."""
        return value if isinstance(value, Range) else self.read(str(value))


def hardware_options(command: Command) -> Command:
    """--gpu, --vcpus and --memory. What is outside is not looked at: nobody asked for it."""
    options = [
        click.option("--gpu", type=GpuFilter(), help=GPU_HELP),
        click.option("--vcpus", type=Between(wanted_vcpus),
                     help="Only types with so many vCPUs: 4..16, 8.."),
        click.option("--memory", type=Between(wanted_memory),
                     help="Only types with so much RAM: 32GiB..64GiB, 32GiB.."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command
