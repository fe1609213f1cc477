"""What a sweep shows while it runs: a live line on stderr, else plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from advisor.cli.live import is_terminal, live_block
from advisor.cli.sweep_view import view_lines
from advisor.domain import Measurement, Status
from advisor.units import format_duration, format_rate, format_usd
from sweeps.trial.formatting import trial_name as trial_name

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from sweeps.driver.runner import Progress
    from sweeps.watching.tally import Tally

_SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def dataset_progress(doing: str = "making") -> Iterator[Callable[[int, int], None]]:
    """Tells how much of a data set is made (or read, ...)."""
    if is_terminal(sys.stderr):
        with _bar("samples") as bar:
            task = bar.add_task(f"{doing} the data set", total=None, visible=False)
            yield lambda made, total: bar.update(task, completed=made, total=total, visible=True)
        return
    last = [0.0]

    def tell(made: int, total: int) -> None:
        if made == total or time.monotonic() - last[0] > _SECONDS_BETWEEN_LINES:
            last[0] = time.monotonic()
            click.echo(f"{doing} the data set: {made} of {total} images", err=True)

    yield tell


@contextmanager
def trial_progress(tally: Tally) -> Iterator[Callable[[Progress], None]]:
    """Shows where the sweep of that tally stands: live on a terminal, else a line a trial."""
    if not is_terminal(sys.stderr):
        yield lambda progress: _tell_line(progress, tally)
        return
    with live_block(lambda: view_lines(tally.standing()), stderr=True) as print_above:

        def update(progress: Progress) -> None:
            if progress.measurement:
                print_above(result_line(progress, progress.measurement))

        yield update


class Kept:
    """What a sweep that is interrupted has, in words; an adaptive one has no count of trials."""

    def __init__(self, *, adaptive: bool = False) -> None:
        self._adaptive = adaptive
        self._last: Progress | None = None

    def noting(self, told: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """`told`, with the last of it kept here."""

        def tell(progress: Progress) -> None:
            self._last = progress
            told(progress)

        return tell

    def words(self) -> str:
        """What is stored, and how to go on."""
        if self._adaptive:
            return "interrupted; what was measured is stored; the same command goes on"
        if self._last is None:
            return "interrupted before the first trial; the same command begins again"
        stored = self._last.skipped + self._last.done
        return (
            f"interrupted; {stored} of {self._last.skipped + self._last.total} trials are stored, "
            "the running one is abandoned; the same command goes on"
        )


def result_line(progress: Progress, measurement: Measurement) -> str:
    """'[3/24] googlenet inference on cpu, 1 vCPU, ...: 123 samples/s'."""
    name = trial_name(measurement.trial)
    return f"[{progress.done}/{progress.total}] {name}: {_result(measurement)}"


def _tell_line(progress: Progress, tally: Tally) -> None:
    if progress.measurement:
        standing = tally.standing()
        left = f", {format_duration(standing.rest_seconds)} left" if standing.left else ""
        cost = "" if standing.usd is None else f", {format_usd(standing.usd)} so far"
        click.echo(f"{result_line(progress, progress.measurement)}{left}{cost}", err=True)
    elif progress.done == 0 and progress.skipped and progress.started:
        click.echo(f"{progress.skipped} trials are measured already", err=True)


def _result(measurement: Measurement) -> str:
    rate = measurement.throughput_samples_per_second
    if measurement.status is Status.OK and rate:
        return f"{format_rate(rate)} samples/s"
    return f"{measurement.status.value.replace('_', ' ')} ({measurement.reason})"


def _bar(unit: str) -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False),
        console=Console(stderr=True), refresh_per_second=1, transient=False,
    )  # fmt: skip
