"""Trials and their progress, as tables and lines."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.live import is_terminal, live_block
from advisor.domain import Measurement, Status, Trial
from advisor.errors import MeasuringError
from advisor.messages import Message
from advisor.render.text import table
from advisor.runs.sweeps.status import Shown, rate_of, state_of, trial_documents
from advisor.sweeps.quality.rates import first_minute_rate
from advisor.sweeps.trial.formatting import steps_text
from advisor.sweeps.trial.formatting import trial_name as trial_name
from advisor.units import format_counted, format_duration, format_mib, format_rate, format_usd

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from advisor.sweeps.driver.runner import Outcome, Progress
    from advisor.sweeps.watching.tally import Running, SweepProgress, Tally


_BAR = 24
_WORTH_A_WORD = 0.01  # of a rate's time
_SHOWN_RUNNING = 8
_NAME_COLUMNS = 62


def view_lines(status: SweepProgress) -> list[str]:
    """'sweep', 'ended', 'time', 'cost' and 'runs', each with what it is."""
    if not status.total:
        return [f"sweep  starting, {format_duration(status.elapsed_seconds)}"]
    return [
        f"sweep  {_bar(status)}  {status.total - status.left} of {status.total} done, {status.left} left",
        *_ended_lines(status),
        f"time   {_time_text(status)}",
        *([f"cost   {_cost_text(status)}"] if status.usd is not None else []),
        *_running_lines(status.running),
    ]


def _bar(status: SweepProgress) -> str:
    done = status.total - status.left
    filled = _BAR * done // status.total
    return "█" * filled + "░" * (_BAR - filled)


def _ended_lines(status: SweepProgress) -> list[str]:
    counts = status.counts.items()
    parts = [f"{count} {status.value.replace('_', ' ')}" for status, count in counts]
    if status.skipped:
        parts.append(f"{status.skipped} measured before")
    return [f"ended  {', '.join(parts)}"] if parts else []


def _time_text(status: SweepProgress) -> str:
    elapsed = format_duration(status.elapsed_seconds)
    if not status.left:
        return elapsed
    return f"{elapsed}, about {format_duration(status.rest_seconds)} left (by {status.basis})"


def _cost_text(status: SweepProgress) -> str:
    assert status.usd is not None
    assert status.expected_usd is not None
    return f"{format_usd(status.usd)}, about {format_usd(status.expected_usd)} in the end"


def _running_lines(running: Sequence[Running]) -> list[str]:
    times = [format_duration(trial.seconds) for trial in running[:_SHOWN_RUNNING]]
    width = max(map(len, times), default=0)
    shown = [
        f"{'' if number else 'runs':4}   {seconds:>{width}}  {trial.where or '-'}  "
        f"{trial.name[:_NAME_COLUMNS]}{_attempt_text(trial)}"
        for number, (seconds, trial) in enumerate(zip(times, running, strict=False))
    ]
    more = len(running) - len(shown)
    return [*shown, f"       and {more} more"] if more > 0 else shown


def _attempt_text(trial: Running) -> str:
    return f", attempt {trial.attempt}" if trial.attempt > 1 else ""


COLUMNS = ("trial", "network", "task", "accelerator", "batch", "vcpus", "memory", "disk", "cache")
RIGHT = (4, 5, 6)


def raise_failures(outcome: Outcome, again: str = "run the same command with") -> None:
    """`MeasuringError` where trials failed: that is for the user to mend; `again` says how they
    are measured `--retry-failed`."""
    if outcome.failed:
        raise MeasuringError(
            "{failed} of {measured} trials failed, the first one: {first_failure}",
            failed=outcome.failed,
            measured=outcome.measured,
            first_failure=outcome.first_failure,
            hint=Message("mend that and {again} --retry-failed", again=again),
        )


def print_trials(
    output: str, schema: str, trials: Sequence[Trial], rows: Mapping[str, Measurement | Shown], **facts: Any
) -> None:
    """The trials with their state and rate, waiting where no row is; `facts` stand in JSON."""
    if output == "json":
        print_json(schema, **facts, trials=trial_documents(trials, rows))
        return
    cells = [
        (*cells_of(trial), state_of(trial, rows).replace("_", " "), _shown_rate(rate_of(trial, rows)))
        for trial in trials
    ]
    header = (*COLUMNS, "state", "samples/s")
    click.echo("\n".join(table(header, cells, right=(*RIGHT, len(header) - 1))))
    click.echo(f"\n{_summary(trials, rows)}")


def _summary(trials: Sequence[Trial], rows: Mapping[str, Measurement | Shown]) -> str:
    counts = Counter(state_of(trial, rows) for trial in trials)
    parts = [f"{count} {state.replace('_', ' ')}" for state, count in counts.most_common()]
    counted = format_counted(len(trials), "trial")
    return f"{counted}: {', '.join(parts)}." if trials else "No trials yet."


def cells_of(trial: Trial) -> tuple[str, ...]:
    """A trial in a line, as `COLUMNS` are headed."""
    workload, resources = trial.workload, trial.resources
    return (
        trial.trial_id[:8],
        workload.network,
        workload.task.value,
        steps_text(trial),
        str(workload.batch_size),
        f"{resources.vcpus:g}",
        format_mib(resources.memory_mib),
        disk_text(trial),
        trial.cache.value,
    )


def disk_text(trial: Trial) -> str:
    """'st1 20 MiB/s'; the type alone where the rate is not limited."""
    disk = trial.resources.disk
    rate = disk.read_mib_per_second
    return disk.type if rate is None else f"{disk.type} {rate:.4g} MiB/s"


def _shown_rate(rate: float | None) -> str:
    return "-" if rate is None else format_rate(rate)


def print_json(schema: str, **content: Any) -> None:
    """A document of this schema on stdout."""
    click.echo(json.dumps({"schema": schema, **content}, indent=1))


_SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def dataset_progress(doing: str = "making", unit: str = "images") -> Iterator[Callable[[int, int], None]]:
    """Tells how much of a data set is made (or read, ...)."""
    if is_terminal(sys.stderr):
        with _rich_bar(unit) as bar:
            task = bar.add_task(f"{doing} the data set", total=None, visible=False)
            yield lambda made, total: bar.update(task, completed=made, total=total, visible=True)
        return
    last = [0.0]

    def tell(made: int, total: int) -> None:
        if made == total or time.monotonic() - last[0] > _SECONDS_BETWEEN_LINES:
            last[0] = time.monotonic()
            click.echo(f"{doing} the data set: {made} of {total} {unit}", err=True)

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

    def noting(self, show: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """`told`, with the last of it kept here."""

        def note(progress: Progress) -> None:
            self._last = progress
            show(progress)

        return note

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
        status = tally.standing()
        left = f", {format_duration(status.rest_seconds)} left" if status.left else ""
        cost = "" if status.usd is None else f", {format_usd(status.usd)} so far"
        click.echo(f"{result_line(progress, progress.measurement)}{left}{cost}", err=True)
    elif progress.done == 0 and progress.skipped and progress.started:
        click.echo(f"{progress.skipped} trials are measured already", err=True)


def _result(measurement: Measurement) -> str:
    rate = measurement.throughput_samples_per_second
    if measurement.status is Status.OK and rate:
        share = measurement.stall_share or 0.0
        stalls = f", {100 * share:.0f} % of the time in stalls" if share >= _WORTH_A_WORD else ""
        return f"{format_rate(rate)} samples/s{_first_minute_text(measurement)}{stalls}"
    return f"{measurement.status.value.replace('_', ' ')} ({measurement.reason})"


def _first_minute_text(measurement: Measurement) -> str:
    """The rate of a cold start, where a run was long enough to have another one."""
    rate = first_minute_rate(measurement)
    return "" if rate is None else f" ({format_rate(rate)} in the first minute)"


def _rich_bar(unit: str) -> Bar:
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
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=Console(stderr=True),
        refresh_per_second=1,
        transient=False,
    )
