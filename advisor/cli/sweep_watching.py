"""The options of `sweep run` that watch it: log, metrics, price."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from advisor.cli.parameters import Name, Text

if TYPE_CHECKING:
    from advisor.runs.sweeps.watching import Watch, WatchOptions

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--log-file", type=click.Path(path_type=Path),
        help="Instead of the user's log; one JSON object a line.",
    ),
    click.option(
        "--log-level", type=Name("log level", ("debug", "info", "warning")), default="info",
        show_default=True,
    ),
    click.option("--metrics-port", metavar="PORT", help="Prometheus metrics at this port."),
    click.option(
        "--metrics-host", type=Text("--metrics-host"), metavar="HOST",
        help="The address of that port (127.0.0.1); metrics have no password.",
    ),
    click.option(
        "--metrics-file", type=click.Path(path_type=Path),
        help="Metrics as a .prom file for the node exporter.",
    ),
)  # fmt: skip


def watch_options(command: Command) -> Command:
    """Add the options to a command; it receives them under their names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@contextmanager
def watched_sweep(options: WatchOptions, ray_address: str | None) -> Iterator[Watch]:
    """Watch a sweep; where its metrics are is told on stderr."""
    from advisor.runs.sweeps.watching import watched
    from sweeps.watching.tally import HERE

    with watched(options, where="" if ray_address else HERE) as watch:
        if watch.address:
            click.echo(f"metrics at {watch.address}", err=True)
        yield watch
