"""The options of `sweep run` that watch it: log, metrics, price."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from advisor.cli.host_price import host_usd_per_hour
from advisor.cli.parameters import Name, Text
from advisor.errors import UsageError

if TYPE_CHECKING:
    from advisor.operations.sweep_watching import Watch, WatchOptions

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
_NAMES = ("log_file", "log_level", "metrics_port", "metrics_host",
          "metrics_file")  # fmt: skip
_HIGHEST_PORT = 65_535


def watch_options(command: Command) -> Command:
    """Add the options to a command; it receives them under their names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def without_watch_options(answers: Mapping[str, Any]) -> dict[str, Any]:
    """The answers that are no option of the watching."""
    return {name: value for name, value in answers.items() if name not in _NAMES}


@contextmanager
def watched_sweep(options: WatchOptions, ray_address: str | None) -> Iterator[Watch]:
    """Watch a sweep; where its metrics are is told on stderr."""
    from advisor.operations.sweep_watching import watched
    from sweeps.watching.tally import HERE

    with watched(options, where="" if ray_address else HERE) as watch:
        if watch.address:
            click.echo(f"metrics at {watch.address}", err=True)
        yield watch


def watch_from(answers: Mapping[str, Any]) -> WatchOptions:
    """The checked options; `UsageError` names the flag that is wrong."""
    from advisor.operations.sweep_watching import LOCAL_HOST, WatchOptions

    if answers["metrics_host"] and answers["metrics_port"] is None:
        raise UsageError("--metrics-host is the address of a port; add --metrics-port")
    return WatchOptions(
        log_file=answers["log_file"],
        log_level=answers["log_level"],
        metrics_port=_port(answers["metrics_port"]),
        metrics_host=answers["metrics_host"] or LOCAL_HOST,
        metrics_file=answers["metrics_file"],
        usd_per_hour=host_usd_per_hour(answers),
    )


def _port(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= _HIGHEST_PORT):
        raise UsageError(f"--metrics-port takes 0 (a free one) to {_HIGHEST_PORT}, not '{text}'")
    return int(text)
