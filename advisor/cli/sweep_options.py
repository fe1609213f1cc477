"""Options of commands that describe a sweep, or watch one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from advisor.cli.parameters import Name, Text
from sweeps.datasets.decoding import DECODERS, PILLOW

if TYPE_CHECKING:
    from advisor.runs.sweeps.watching import Watch, WatchOptions


Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--preset", metavar="NAME", help="A sweep by name: small (fits in 10 minutes)."),
    click.option(
        "--networks", metavar="NAMES", help="As alexnet,googlenet or your own: net.py:build."
    ),
    click.option("--tasks", metavar="TASKS", help="Of training,inference,preprocessing."),
    click.option("--vcpus", metavar="NUMBERS", help="As 0.5,1,2."),
    click.option("--memory", metavar="SIZES", help="As 2GiB,4GiB; page cache counts."),
    click.option(
        "--disks", metavar="DISKS", help="As gp3,st1:500GiB,slow=20MiB/s,500iops,unlimited."
    ),
    click.option("--accelerator", metavar="KIND", help="cuda, cpu or emulated:<GPU>."),
    click.option("--batch-sizes", metavar="NUMBERS", help="As 16,32; default 32."),
    click.option("--cache", metavar="STATES", help="warm (default), cold or cold,warm."),
    click.option("--precision", metavar="FORMAT", help="fp32 (default), amp or bf16."),
    click.option(
        "--data", type=click.Path(path_type=Path),
        help="Your own images (JPEG files, .tar, .rec, LMDB) or text (.txt).",
    ),
    click.option(
        "--decoder", type=Name("decoder", DECODERS), default=PILLOW, show_default=True,
        help="What turns JPEG files into pixels.",
    ),
    click.option(
        "--rel-error", metavar="PERCENT", default="2%", show_default=True,
        help="A trial stops once its rate is known this well.",
    ),
    click.option(
        "--repeats", metavar="NUMBER", default="1", show_default=True,
        help="Measure each trial so often, in random order, in one row.",
    ),
    click.option(
        "--iterations", metavar="NUMBER", help="Exactly so many steps instead, as 1000 or 10000."
    ),
    click.option(
        "--disk-path", "disk_paths", metavar="TYPE=PATH", multiple=True,
        help="A mounted disk of that type, as gp3=/mnt/gp3: measured itself, not throttled.",
    ),
    click.option("--ray-address", metavar="ADDRESS", help="A Ray cluster to measure on."),
)  # fmt: skip


def sweep_options(command: Command) -> Command:
    """Add the options to a command; it receives them under their names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_WATCH_OPTIONS = (
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
    for option in reversed(_WATCH_OPTIONS):
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
