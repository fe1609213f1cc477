"""Options of commands that describe a sweep, or watch one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from advisor.cli.questions import Name, Text
from sweeps.datasets.decoding import DECODERS, PILLOW

if TYPE_CHECKING:
    from advisor.runs.sweeps.watching import Watch, WatchOptions


Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--preset", metavar="NAME", help="Sweep by name: small (under 10 minutes)."),
    click.option(
        "--networks", metavar="NAMES",
        help="Networks: alexnet,googlenet, or your own: net.py:build."
    ),
    click.option("--tasks", metavar="TASKS", help="Tasks: training,inference,preprocessing."),
    click.option("--vcpus", metavar="NUMBERS", help="vCPU limits: 0.5,1,2."),
    click.option("--memory", metavar="SIZES", help="RAM limits, page cache included: 2GiB,4GiB."),
    click.option(
        "--disks", metavar="DISKS", help="Disks: gp3,st1:500GiB,slow=20MiB/s,500iops,unlimited."
    ),
    click.option("--accelerator", metavar="KIND",
                 help="cuda, cpu, or emulated:GPU (takes its known step times)."),
    click.option("--batch-sizes", metavar="NUMBERS", help="Batch sizes: 16,32.  [default: 32]"),
    click.option("--cache", metavar="STATES",
                 help="Page cache at the start: warm, cold or both.  [default: warm]"),
    click.option("--precision", metavar="FORMAT", help="fp32, amp or bf16.  [default: fp32]"),
    click.option(
        "--data", type=click.Path(path_type=Path),
        help="Your own images (JPEG files, .tar, .rec, LMDB) or text (.txt).",
    ),
    click.option(
        "--decoder", type=Name("decoder", DECODERS), default=PILLOW, show_default=True,
        help="Decoder of JPEG files.",
    ),
    click.option(
        "--rel-error", metavar="PERCENT", default="2%", show_default=True,
        help="Stop a trial once its rate is known this precisely.",
    ),
    click.option(
        "--repeats", metavar="NUMBER", default="1", show_default=True,
        help="Runs of each trial, in random order, stored in one row.",
    ),
    click.option(
        "--iterations", metavar="NUMBER",
        help="Number of steps of each trial, in place of --rel-error."
    ),
    click.option(
        "--disk-path", "disk_paths", metavar="TYPE=PATH", multiple=True,
        help="Folder on a mounted disk of that type, as gp3=/mnt/gp3; it is not throttled.",
    ),
    click.option("--ray-address", metavar="ADDRESS",
                 help="Address of the Ray cluster to measure on."),
)  # fmt: skip


def sweep_options(command: Command) -> Command:
    """Add the options to a command; it receives them under their names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_WATCH_OPTIONS = (
    click.option(
        "--log-file", type=click.Path(path_type=Path),
        help="Log file, one JSON object a line.  [default: the user's log]",
    ),
    click.option(
        "--log-level", type=Name("log level", ("debug", "info", "warning")), default="info",
        show_default=True,
    ),
    click.option("--metrics-port", metavar="PORT", help="Port for Prometheus metrics."),
    click.option(
        "--metrics-host", type=Text("--metrics-host"), metavar="HOST",
        help="Address of the metrics port (127.0.0.1); it has no password.",
    ),
    click.option(
        "--metrics-file", type=click.Path(path_type=Path),
        help="File for metrics (.prom), for the node exporter.",
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
