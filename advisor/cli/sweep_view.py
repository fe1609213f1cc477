"""Shows trials and their progress as tables and lines."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.printing import is_terminal, live_block, print_json, tell
from advisor.domain import Measurement, Status, Trial
from advisor.errors import DataError, MeasuringError
from advisor.messages import format_counted, format_duration, format_mib, format_rate, format_usd
from advisor.render.text import table
from advisor.runs.sweeps.status import Shown, trial_documents
from advisor.sweeps.quality.rates import first_minute_rate
from advisor.sweeps.trial.formatting import steps_text
from advisor.sweeps.trial.formatting import trial_name as trial_name

if TYPE_CHECKING:
    from advisor.store.measurements import Wanted
    from advisor.sweeps.measurement_store import Stored
    from advisor.sweeps.run.runner import Outcome, Progress
    from advisor.sweeps.watching.progress import Running, SweepProgress, Tally


@contextmanager
def stored_measurements(wanted: Wanted | None = None) -> Iterator[Sequence[Measurement]]:
    """Yield the stored measurements, all or the `wanted` ones. Unreadable rows are named on stderr, and
    `DataError` (exit code 1) is raised after the block has answered from the others."""
    from advisor.store.measurements import open_store

    with closing(open_store(reading=True)) as store:
        stored = store.read(wanted=wanted)
    print_damaged(stored)
    yield stored.measurements
    fail_if_damaged(stored)


def print_damaged(stored: Stored) -> None:
    """Print a line on stderr for each row that cannot be read."""
    for row in stored.damaged:
        tell(row.reason)


def fail_if_damaged(stored: Stored) -> None:
    """Raise `DataError` if rows could not be read. Call it after the answer was printed."""
    if stored.damaged:
        text = f"{format_counted(len(stored.damaged), 'row')} of the database cannot be read"
        raise DataError(text, hint="each is named above; the answer has the others")


_BAR = 24
_WORTH_A_WORD = 0.01  # least share of a trial's time in stalls that is shown
_SHOWN_RUNNING = 8
_NAME_COLUMNS = 62


def view_lines(status: SweepProgress) -> list[str]:
    """Lines on a running sweep, labelled 'sweep', 'ended', 'time', 'cost' and 'runs'."""
    if not status.total:
        return [f"sweep  starting, {format_duration(status.elapsed_seconds)}"]
    done = status.total - status.left
    filled = _BAR * done // status.total
    bar = "█" * filled + "░" * (_BAR - filled)
    ended = [f"{count} {how.value.replace('_', ' ')}" for how, count in status.counts.items()]
    ended += [f"{status.skipped} measured before"] if status.skipped else []
    lines = [f"sweep  {bar}  {done} of {status.total} done, {status.left} left"]
    lines += [f"ended  {', '.join(ended)}"] if ended else []
    rest = f", about {format_duration(status.rest_seconds)} left (by {status.basis})" if status.left else ""
    lines.append(f"time   {format_duration(status.elapsed_seconds)}{rest}")
    if status.usd is not None and status.expected_usd is not None:
        lines.append(f"cost   {format_usd(status.usd)}, about {format_usd(status.expected_usd)} in the end")
    return [*lines, *_running_lines(status.running)]


def _running_lines(running: Sequence[Running]) -> list[str]:
    times = [format_duration(trial.seconds) for trial in running[:_SHOWN_RUNNING]]
    width = max(map(len, times), default=0)
    shown = [
        f"{'' if number else 'runs':4}   {seconds:>{width}}  {trial.where or '-'}  "
        f"{trial.name[:_NAME_COLUMNS]}{f', attempt {trial.attempt}' if trial.attempt > 1 else ''}"
        for number, (seconds, trial) in enumerate(zip(times, running, strict=False))
    ]
    more = len(running) - len(shown)
    return [*shown, f"       and {more} more"] if more > 0 else shown


_COLUMNS = ("trial", "network", "task", "accelerator", "batch", "vcpus", "memory", "disk", "cache")
_RIGHT = (4, 5, 6)


def raise_failures(outcome: Outcome, again: str = "run the same command with") -> None:
    """Raise `MeasuringError` if trials failed; `again` completes its hint on how to measure them again."""
    if outcome.failed:
        text = f"{outcome.failed} of {outcome.measured} trials failed, the first one: {outcome.first_failure}"
        raise MeasuringError(text, hint=f"mend that and {again} --retry-failed")


def print_trials(
    output: str, schema: str, trials: Sequence[Trial], rows: Mapping[str, Measurement | Shown], **facts: Any
) -> None:
    """Print trials with state and rate; those without a row are waiting. `facts` are added to the JSON."""
    documents = trial_documents(trials, rows)
    if output == "json":
        print_json({"schema": schema, **facts, "trials": documents})
        return
    states = [document["state"].replace("_", " ") for document in documents]
    measured = [document["throughput_samples_per_second"] for document in documents]
    rates = ["-" if rate is None else format_rate(rate) for rate in measured]
    click.echo("\n".join(trial_table(trials, {"state": states, "samples/s": rates})))
    parts = [f"{count} {state}" for state, count in Counter(states).most_common()]
    counted = format_counted(len(trials), "trial")
    click.echo(f"\n{counted}: {', '.join(parts)}." if trials else "\nNo trials yet.")


def trial_table(
    trials: Sequence[Trial], further: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> list[str]:
    """A table with a line for each trial; `further` has more columns by heading."""
    cells = [(*_cells(trial), *more) for trial, *more in zip(trials, *further.values(), strict=True)]
    right = (*_RIGHT, len(_COLUMNS) + len(further) - 1) if further else _RIGHT
    return table((*_COLUMNS, *further), cells, right=right)


def _cells(trial: Trial) -> tuple[str, ...]:
    workload, resources = trial.workload, trial.resources
    read_rate = resources.disk.read_mib_per_second  # None: no limit
    return (
        trial.trial_id[:8],
        workload.network,
        workload.task.value,
        steps_text(trial),
        str(workload.batch_size),
        f"{resources.vcpus:g}",
        format_mib(resources.memory_mib),
        resources.disk.type + ("" if read_rate is None else f" {read_rate:.4g} MiB/s"),
        trial.cache.value,
    )


_SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def dataset_progress(doing: str = "making", unit: str = "images") -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows progress on a data set: a bar on a terminal, else a line every 5 s."""
    label, bars, last = f"{doing} the data set", list[Any](), 0.0

    def progress(made: int, total: int) -> None:
        nonlocal last
        if is_terminal(sys.stderr):
            if not bars:
                bar = click.progressbar(length=total, label=label, show_pos=True, file=sys.stderr)
                bars.append(shown.enter_context(bar))
            bars[0].update(made - bars[0].pos)
        elif made == total or time.monotonic() - last > _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            tell(f"{label}: {made} of {total} {unit}")

    with ExitStack() as shown:
        yield progress


@contextmanager
def trial_progress(tally: Tally) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows a sweep's progress: redrawn on a terminal, else a line for each trial."""
    if not is_terminal(sys.stderr):
        yield lambda progress: _tell_line(progress, tally)
        return
    with live_block(lambda: view_lines(tally.standing()), stderr=True) as print_above:

        def update(progress: Progress) -> None:
            if progress.measurement:
                print_above(result_line(progress, progress.measurement))

        yield update


def result_line(progress: Progress, measurement: Measurement) -> str:
    """A line such as '[3/24] googlenet inference on cpu, 1 vCPU, ...: 123 samples/s'."""
    rate, head = measurement.throughput_samples_per_second, f"[{progress.done}/{progress.total}]"
    result = f"{measurement.status.value.replace('_', ' ')} ({measurement.reason})"
    if measurement.status is Status.OK and rate:
        share = measurement.stall_share or 0.0
        stalls = f", {100 * share:.0f} % of the time in stalls" if share >= _WORTH_A_WORD else ""
        cold = first_minute_rate(measurement)  # None for runs that are too short
        begun = "" if cold is None else f" ({format_rate(cold)} in the first minute)"
        result = f"{format_rate(rate)} samples/s{begun}{stalls}"
    return f"{head} {trial_name(measurement.trial)}: {result}"


def _tell_line(progress: Progress, tally: Tally) -> None:
    if progress.measurement:
        status = tally.standing()
        left = f", {format_duration(status.rest_seconds)} left" if status.left else ""
        cost = "" if status.usd is None else f", {format_usd(status.usd)} so far"
        tell(f"{result_line(progress, progress.measurement)}{left}{cost}")
    elif progress.done == 0 and progress.skipped and progress.started:
        tell(f"{progress.skipped} trials are measured already")
