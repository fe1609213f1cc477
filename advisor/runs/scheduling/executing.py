"""The process of one run: takes it in hand, runs its command, says what came of it.

It belongs to no daemon: one that is killed loses nothing, since this goes on, and the run's row
tells the next one that it does.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError, DataError, UsageError
from advisor.places import state_folder
from advisor.runs.scheduling.beating import Beating, beating
from advisor.runs.scheduling.child import command_process, ended
from advisor.runs.scheduling.commands import is_sweep, started_as
from advisor.runs.scheduling.deciding import month_of, usd_left
from advisor.runs.scheduling.refitting import LAST
from advisor.runs.scheduling.results import Result, result_of
from advisor.runs.scheduling.telling import report_lost, report_of, report_process
from sweeps.store.owners import Owner, this_process
from sweeps.store.schedule_book import ScheduleBook
from sweeps.store.schedule_words import Ending, Run, RunState, Schedule

_LOOK_EVERY_SECONDS = 0.5
STOPPED = "it was ended in its middle, with its daemon or by a signal; it is gone on with"
_BUDGET = "ended before its end: the budget of the month is spent"

Follow = Callable[[Run], Mapping[str, Any]]
# What is said of a run that has ended, by a process of its own: the run, and why it failed.
Tell = Callable[[Run, str, Path], subprocess.Popen[bytes]]


@dataclass(slots=True)
class Work:
    """A run in hand: whose, of what, since when (`clock`), and what it had cost before."""

    run: Run
    schedule: Schedule
    owner: Owner
    log: Path
    clock: Callable[[], float]
    begun: float = field(init=False)

    def __post_init__(self) -> None:
        self.begun = self.clock()

    @property
    def was_cut_off(self) -> bool:
        """Whether a process had it in hand before, and told nobody what it did."""
        return self.run.begun_at is not None

    @property
    def cost_usd(self) -> float | None:
        """What it costs so far, by the host's price; None where no price is known."""
        hourly = self.schedule.usd_per_hour
        if hourly is None:
            return None
        return (self.run.cost_usd or 0.0) + hourly * (self.clock() - self.begun) / 3600


def execute(
    book: ScheduleBook,
    number: int,
    *,
    follow: Follow,
    clock: Callable[[], float] = time.time,
    started: Callable[[Sequence[str], float], list[str]] = started_as,
    tell: Tell = report_process,
) -> Ending | None:
    """Run what is due; `follow` is what comes after a sweep that measured something, `tell` starts
    what reports on the schedule's plan.

    None when the run is not due: another process has it, or had it. `UsageError` where there is
    none of that number.
    """
    run = book.runs.one(number)
    schedule = book.numbered(run.schedule) if run else None
    if run is None or schedule is None:
        raise UsageError(f"there is no run {number}")
    owner, log = this_process(), log_path(schedule, run)
    if not book.runs.begin(number, owner, log=str(log), now=clock()):
        return None
    work = Work(run, schedule, owner, log, clock)
    command = started(schedule.command, run.due_at)
    with _handed_back(book, work):
        ending = _worked(book, work, command, follow, tell)
        book.runs.end(number, owner, ending, now=clock())
    return ending


def log_path(schedule: Schedule, run: Run) -> Path:
    """Where a run's talk is kept; its document lies beside it, as .json."""
    when = datetime.fromtimestamp(run.due_at, UTC).strftime("%Y%m%dT%H%M%SZ")
    return state_folder() / "schedules" / f"{schedule.name}-{schedule.number}" / f"{when}.log"


@contextmanager
def _handed_back(book: ScheduleBook, work: Work) -> Iterator[None]:
    """A run that is interrupted is somebody else's to go on with, at once."""
    try:
        yield
    except KeyboardInterrupt:
        book.runs.hand_back(work.run.number, work.owner, STOPPED, work.cost_usd)
        raise


def _worked(
    book: ScheduleBook, work: Work, command: Sequence[str], follow: Follow, tell: Tell
) -> Ending:
    """Run the command to its end, or to that of the budget; then what follows it."""
    try:
        if not Path(work.schedule.folder).is_dir():
            raise UsageError(f"there is no folder {work.schedule.folder} on this machine")
        left = _usd_left(book, work)
        with (
            command_process(command, work.schedule.folder, work.log) as process,
            beating(book, work.run.number, work.owner, lambda: work.cost_usd) as beats,
        ):
            stopped = _waited(process, work, left, beats)
            result = result_of(work.log)
            report = _followed(work, follow) if _has_measured(work, result, stopped) else {}
            why = stopped or (_why(process.returncode, work.log) if process.returncode else "")
            report = {**report, **_told(work, tell, why, beats)}
    except (AdvisorError, OSError) as error:
        return Ending(state=RunState.FAILED, note=str(error), cost_usd=work.cost_usd)
    return _ending(work, process.returncode, stopped, result, report)


def _usd_left(book: ScheduleBook, work: Work) -> float | None:
    """What the month's budget has for this run; its own cost so far is not taken off twice."""
    due = work.run.due_at
    runs = book.runs.between(work.schedule.number, *month_of(work.schedule.timezone, due))
    return usd_left(work.schedule, [run for run in runs if run.number != work.run.number], due)


def _waited(process: subprocess.Popen[bytes], work: Work, usd: float | None, beats: Beating) -> str:
    """Wait for the command; ends it, and tells why, where the budget is spent or the run is
    another process's by now."""
    while process.poll() is None:
        if beats.lost:
            ended(process)
            raise DataError("the database gave this run to another process; this one leaves it")
        if usd is not None and (work.cost_usd or 0.0) >= usd:
            ended(process)
            return _BUDGET
        try:
            process.wait(_LOOK_EVERY_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    return ""


def _has_measured(work: Work, result: Result, stopped: str) -> bool:
    """Whether there may be something new to fit on. Who was cut off has told nobody how much it
    measured, and a sweep on a shared database does not know: then the store tells."""
    cut_off = bool(stopped or work.was_cut_off)
    return is_sweep(work.schedule.command) and (cut_off or result.trials != 0)


def _followed(work: Work, follow: Follow) -> Mapping[str, Any]:
    """What comes after a sweep; where that fails the sweep has not failed."""
    try:
        return follow(work.run)
    except AdvisorError as error:
        return {"fit": {"kept": LAST, "why": str(error)}}


def _told(work: Work, tell: Tell, failed: str, beats: Beating) -> Mapping[str, Any]:
    """The report on the schedule's plan, and where it went. Whatever becomes of that, the run has
    ended as it has."""
    if work.schedule.reporting is None:
        return {}
    log = work.log.with_suffix(".sending.log")
    try:
        process = tell(work.run, failed, log)
    except OSError as error:
        return {"sizing_report": report_lost(str(error))}
    try:
        _waited(process, work, None, beats)
    finally:
        ended(process)
    return {"sizing_report": report_of(process.returncode, log)}


def _ending(
    work: Work, code: int, stopped: str, result: Result, report: Mapping[str, Any]
) -> Ending:
    ok = code == 0 and not stopped
    return Ending(
        state=RunState.DONE if ok else RunState.FAILED,
        note="" if ok else stopped or _why(code, work.log),
        exit_code=code,
        cost_usd=_cost(work, result),
        trials=result.trials,
        report=report,
    )


def _cost(work: Work, result: Result) -> float | None:
    """What a cloud took, all of the sweep's instances together, else the host's price; None where
    that was spent by a process before this one, and is not known (it counts with its most)."""
    if result.cost_usd is None:
        return work.cost_usd
    return None if work.was_cut_off and not result.cost_usd else result.cost_usd


def _why(code: int, log: Path) -> str:
    """The last thing that a command said before it failed."""
    ending = f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return f"{ending}: {lines[-1].strip()}" if lines else ending
