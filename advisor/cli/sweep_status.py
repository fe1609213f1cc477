"""The commands `advisor sweep status`, `stop` and `log`."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.printing import is_terminal, live_block, print_answer, tell
from advisor.cli.questions import SectionedCommand, output_in, question_options, typed_option
from advisor.cli.sweep_view import dataset_progress, fail_if_damaged, print_damaged
from advisor.errors import DataError, MeasuringError, UsageError
from advisor.files import sweep_log_path
from advisor.messages import format_counted, format_duration
from advisor.quantities import parse_positive
from advisor.questions.fields import Number
from advisor.render.text import table
from advisor.runs.sweep_questions import SweepGrid
from advisor.runs.sweeps.data import planned_data
from advisor.runs.sweeps.status import counts_of, drivers_here, not_ended, snapshot_document
from advisor.runs.sweeps.sweeping import plan_sweep
from advisor.store import default_database_url
from advisor.sweeps.events import this_node
from advisor.sweeps.watching.logfile import log_lines, row_story, story_of, story_text, without_secrets
from advisor.sweeps.watching.progress import look_at

if TYPE_CHECKING:
    from advisor.sweeps.watching.progress import Snapshot


_COLUMNS = ("trial", "since", "lease left", "by", "running now")  # the widest last
_UNKNOWN_REST = "Trials that have not begun are not counted: describe the sweep with its options."


def snapshot_lines(snapshot: Snapshot, trouble: str = "", *, is_described: bool = True) -> list[str]:
    """The text of `sweep status`: trials counted by result, running trials, and the expected end of a sweep
    that is described. The store alone does not know which trials a sweep will begin."""
    lines = [format_counted(snapshot.total, "trial")]
    lines += [f"{count:6}  {name.replace('_', ' ')}" for name, count in counts_of(snapshot).items()]
    if snapshot.running:
        rows = [
            (
                trial.trial_id[:8],
                format_duration(trial.seconds_held or 0.0),
                format_duration(trial.seconds_left),
                trial.driver,
                trial.label or "-",
            )
            for trial in snapshot.running
        ]
        lines += ["", *table(_COLUMNS, rows, right=(1, 2))]
    if snapshot.submitted:
        lines += ["", f"Submitted, and not begun: {format_counted(snapshot.submitted, 'trial')}."]
    if snapshot.left:
        lines += ["", *(_end_lines(snapshot) if is_described or snapshot.is_idle else [_UNKNOWN_REST])]
    if trouble:
        lines += ["", f"As of {snapshot.at:%H:%M:%S} UTC, since then: {trouble}"]
    return lines


def _end_lines(snapshot: Snapshot) -> list[str]:
    if snapshot.is_idle:
        return ["Nobody measures them now."]
    end, pace = snapshot.expected_end, snapshot.pace
    if end is None or pace is None:
        return ["Too few trials have ended to tell when the rest will."]
    left = format_duration((end - snapshot.at).total_seconds())
    return [
        f"About {left} left, until {end:%H:%M} UTC: {pace.seconds_a_trial:.3g} s a trial "
        f"by the last {pace.trials} that began."
    ]


_PATIENCE_SECONDS = 2.0
_QUIET_LOOKS = 2  # nothing runs for a moment between two trials, so one idle look proves nothing
Show = Callable[["Snapshot", str], None]


def _seconds(text: str) -> float:
    """Parse '2s' or '2' as 2.0 seconds; `UsageError` above an hour."""
    seconds = parse_positive(text.strip().removesuffix("s"), "--every")
    if seconds > 3600:
        raise UsageError(f"--every takes at most an hour (3600s), not '{text}'", field="every")
    return seconds


@click.command(cls=SectionedCommand)
@question_options(SweepGrid)
@click.option("--watch", is_flag=True, help="Refresh until Ctrl-C, or until nothing is left.")
@click.option("--every", metavar="SECONDS", default="2s", show_default=True, help="Time between refreshes.")
@output_in("table", "json", help="json with --watch: one line for each refresh.")
def status(question: SweepGrid, output: str, watch: bool, every: str) -> None:
    """Show the progress of a sweep, or of the whole store: what runs where, how trials ended,
    what is left and how long it takes. Changes nothing."""
    seconds, trial_ids = _seconds(every), _described(question)
    if watch:
        with suppress(KeyboardInterrupt), _shown(output, trial_ids is not None) as show:
            _watch(trial_ids, seconds, show)
        return
    from advisor.store.measurements import open_store

    with closing(open_store(reading=True)) as store:
        stored = store.read(trial_ids)
        snapshot = look_at(store, trial_ids, {row.trial_id for row in stored.damaged})
    print_damaged(stored)
    print_answer(
        output,
        snapshot_document(snapshot),
        lambda: snapshot_lines(snapshot, is_described=trial_ids is not None),
    )
    fail_if_damaged(stored)


def _watch(trial_ids: list[str] | None, seconds: float, show: Show) -> None:
    """Show the state repeatedly until the sweep is over. After the first read, wait out database errors."""
    from advisor.store.measurements import SqlStore

    snapshot: Snapshot | None = None
    quiet = 0
    with closing(SqlStore(default_database_url(), reading=True, patience_seconds=_PATIENCE_SECONDS)) as store:
        while True:
            trouble = ""
            try:
                snapshot = look_at(store, trial_ids)
            except DataError as error:
                if snapshot is None:
                    raise
                trouble = without_secrets(str(error))
            show(snapshot, trouble)
            # A sweep given by options is over when all is measured, the whole store when nothing runs.
            over = snapshot.is_idle if trial_ids is None else snapshot.is_over
            quiet = quiet + 1 if over and not trouble else 0
            if quiet >= _QUIET_LOOKS:
                return
            time.sleep(seconds)


@contextmanager
def _shown(output: str, is_described: bool) -> Iterator[Show]:
    """Yield a function that shows a state: redrawn on a terminal, else printed on a change, or JSON lines."""
    if output == "json":
        yield lambda snapshot, trouble: click.echo(json.dumps(snapshot_document(snapshot, trouble)))
    elif is_terminal(sys.stdout):
        latest: list[str] = ["looking"]

        def redraw(snapshot: Snapshot, trouble: str) -> None:
            latest[:] = snapshot_lines(snapshot, trouble, is_described=is_described)

        with live_block(lambda: latest, stderr=False):
            yield redraw
    else:
        last: list[Any] = []

        def show(snapshot: Snapshot, trouble: str) -> None:
            running = [trial.trial_id for trial in snapshot.running]
            now = [snapshot.total, dict(snapshot.counts), running, snapshot.submitted, trouble]
            if now != last:
                last[:] = now
                lines = snapshot_lines(snapshot, trouble, is_described=is_described)
                click.echo("\n".join([*lines, ""]))

        yield show


@click.command()
def stop() -> None:
    """End the sweeps of this machine that measure into the store, as Ctrl-C would: finished trials
    stay, and the same `sweep run` continues. Those of other machines are named."""
    from advisor.store.measurements import open_store

    with closing(open_store(reading=True)) as store:
        held = store.running().values()
        here = drivers_here(store.identity) | {lease.pid for lease in held if lease.here}
    elsewhere = sorted({lease.driver for lease in held if not lease.here})
    refused = not_ended(here)
    for pid in sorted(here - refused.keys()):
        click.echo(f"stopping: {this_node()} (process {pid})")
    if refused:
        processes = ", ".join(f"process {pid} ({why})" for pid, why in refused.items())
        raise MeasuringError(f"not stopped: {processes}", hint="stop them as the user that started them")
    if elsewhere:
        raise MeasuringError(
            f"measured elsewhere: {', '.join(elsewhere)}",
            hint="stop it there; on a cluster by a Ray job that runs `advisor sweep stop` with the "
            "same ADVISOR_DATABASE_URL",
        )
    if not here:
        raise MeasuringError(
            "nobody measures into this store now", hint="set ADVISOR_DATABASE_URL to that of the sweep"
        )


def _described(question: SweepGrid) -> list[str] | None:
    if question.is_empty:
        return None
    with dataset_progress("fetching", "files") as fetching:
        data = planned_data(question, fetching)
    return [trial.trial_id for trial in plan_sweep(question, data)]


@click.command()
@click.argument("trial_id", required=False)
@click.option("--log-file", type=click.Path(path_type=Path), help="Log file of `sweep run --log-file`.")
@typed_option(Number(whole=True), "--last", default=50, help="Without a trial: number of events.")
@output_in("table", "json", help="json: the lines of the log.")
def log(trial_id: str | None, log_file: Path | None, last: int, output: str) -> None:
    """What happened to a trial, in order: planning, attempts, limits, steady state, storing.

    TRIAL_ID is an id of `sweep list`, or how it begins. Where no log of this machine tells of it, its stored
    row does. Without one: the latest events of all."""
    path = log_file or sweep_log_path()
    if log_file and not log_file.exists():
        raise UsageError(f"there is no log '{log_file}'", hint="leave --log-file out for the usual one")
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder", hint=f"name the log in it: --log-file {path}/FILE")
    if trial_id is None:
        _print(output, deque(log_lines(path), maxlen=last), of_many=True)
        return
    _print(output, _story(path, trial_id.lower()))


def _story(path: Path, beginning: str) -> list[Mapping[str, Any]]:
    from advisor.store.measurements import open_store

    story, stored = story_of(log_lines(path), beginning), None
    named = {str(line["trial_id"]) for line in story}
    if not story:
        with closing(open_store(reading=True)) as store:
            named = {name for name in store.summaries() if name.startswith(beginning)}
            stored = store.read(named) if len(named) == 1 else None
    if not named:
        raise UsageError(f"neither log nor store knows a trial '{beginning}'", hint="see: sweep list")
    if len(named) > 1:
        raise UsageError(f"'{beginning}' may mean {', '.join(sorted(named)[:4])}", hint="give more of it")
    if stored is None:
        return story
    tell("no log of this machine tells of it; this is what its stored row tells")
    if stored.damaged:
        raise DataError(stored.damaged[0].reason)
    return row_story(stored.measurements[0])


def _print(output: str, lines: Iterable[Mapping[str, Any]], *, of_many: bool = False) -> None:
    shown = list(lines)
    if output == "json":
        click.echo("".join(json.dumps(line) + "\n" for line in shown), nl=False)
    elif shown:
        click.echo("\n".join(story_text(shown, of_many=of_many)))
    else:
        click.echo("Nothing is logged yet.")
