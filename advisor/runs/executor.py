"""The process of one run: takes it in hand, runs its command to its end, keeps what came of it.

One for all runs: a due time of a schedule, and a sweep that was started over HTTP, on this machine
or on AWS. It belongs to no daemon and no server: one that is killed loses nothing. Where this
process is killed, the kernel ends the command after it, and its lock with it.
"""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from advisor.errors import AdvisorError, DataError, UsageError
from advisor.files import state_folder
from advisor.messages import Message
from advisor.runs.cron import month_of, usd_left
from advisor.runs.processes import answer_of, command_process, end, failure
from advisor.runs.schedules import is_sweep, started_as
from advisor.runs.started import StartedSweep, SweepState, command_of
from advisor.store.locks import HeldLock
from advisor.store.records import Ending, Run, RunState, Schedule
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import Owner, this_process

_LOOK_EVERY_SECONDS = 0.5
_ASK_DATABASE_EVERY_SECONDS = 1.0
_NOTE_COST_EVERY_SECONDS = 20.0
# Notes are kept in English, and shown in a reader's language.
STOPPED = str(Message("it was stopped half-way, with its daemon or by a signal; it continues later"))
_BUDGET = str(Message("it was stopped: the budget of the month is spent"))
_ASKED = str(Message("somebody asked it to stop; what was measured is kept"))
_ENDED = str(Message("its process was stopped; what was measured is kept"))
_LOST = "the database gave this run to another process; this one leaves it"
# A started sweep stands behind whoever answers requests: for the scheduler's choice, and for the
# kernel's when memory runs out (proc(5): 1000 is the first to go).
_NICE, _OOM_SCORE = 10, 800

# What follows a sweep that measured something: the run's `fit` and `drift`.
Follow = Callable[[Run], Mapping[str, Any]]
# The report on a schedule's plan: the run, why it failed (or ""), where its log goes.
Report = Callable[[Run, str, Path], Mapping[str, Any]]


class Work(Struct):
    """A run in hand: whose, since when (`clock`), and what ends it before its command does."""

    book: ScheduleBook
    run: Run
    schedule: Schedule | None
    owner: Owner
    lock: HeldLock
    log: Path
    clock: Callable[[], float]
    begun: float = 0.0
    _asked_at: float = -math.inf
    _noted_at: float = 0.0

    def __post_init__(self) -> None:
        self.begun = self.clock()
        self._noted_at = time.monotonic()

    @property
    def was_cut_off(self) -> bool:
        """Whether a process had it in hand before, and could not say what it did."""
        return self.run.begun_at is not None

    @property
    def cost_usd(self) -> float | None:
        """The cost so far, by the host's price; None where no price is known."""
        hourly = self.schedule.usd_per_hour if self.schedule else None
        if hourly is None:
            return None
        return (self.run.cost_usd or 0.0) + hourly * (self.clock() - self.begun) / 3600

    def must_stop(self) -> bool:
        """Whether somebody asked for its end; notes its cost. `DataError` once the run is another
        process's. A database that is away changes nothing: nobody else can take the run then."""
        now = time.monotonic()
        if now - self._asked_at < _ASK_DATABASE_EVERY_SECONDS:
            return False
        self._asked_at = now
        try:
            self._hold()
            if self.cost_usd is not None and now - self._noted_at >= _NOTE_COST_EVERY_SECONDS:
                self._noted_at = now
                self.book.runs.note_cost(self.run.number, self.owner, self.cost_usd)
            row = self.book.runs.numbered(self.run.number)
        except DataError:
            return False
        if row is None or row.owner != self.owner.name:
            raise DataError(_LOST)
        return row.stop_at is not None

    def _hold(self) -> None:
        """A server that came back has forgotten who held what."""
        if not self.lock.is_held():
            self.lock = self.book.runs.hold_again(self.run.number) or self.lock


def execute(
    book: ScheduleBook,
    number: int,
    *,
    follow: Follow,
    report: Report,
    clock: Callable[[], float] = time.time,
    started: Callable[[Sequence[str], float], list[str]] = started_as,
) -> Ending | None:
    """Run what is due. None when the run is not due: another process has it, or had it.
    `UsageError` where there is none of that number, or it was asked for too long ago."""
    run = book.runs.numbered(number)
    if run is None:
        raise UsageError("there is no run {number}", number=number)
    schedule = None if run.schedule is None else book.numbered(run.schedule)
    sweep = StartedSweep(run) if run.sweep_id else None
    if sweep and sweep.state(clock()) is not SweepState.STARTING:
        raise UsageError(
            "sweep {sweep} is {state} and is not begun again",
            sweep=sweep.id,
            state=sweep.state(clock()).value,
        )
    log = sweep.talk_path if sweep else _log_path(schedule, run)
    owner = this_process()
    lock = book.runs.begin(number, owner, log=str(log), now=clock())
    if lock is None:
        return None
    work = Work(book, run, schedule, owner, lock, log, clock)
    try:
        with _handed_back(work):
            ending = _swept(work, sweep) if sweep else _scheduled(work, started, follow, report)
            book.runs.end(number, owner, ending, now=clock())
    finally:
        work.lock.release()
    return ending


def _log_path(schedule: Schedule | None, run: Run) -> Path:
    """The path of a run's stderr; its document lies beside it, as .json."""
    assert schedule is not None
    when = datetime.fromtimestamp(run.due_at, UTC).strftime("%Y%m%dT%H%M%SZ")
    return state_folder() / "schedules" / f"{schedule.name}-{schedule.number}" / f"{when}.log"


@contextmanager
def _handed_back(work: Work) -> Iterator[None]:
    """A due time that is interrupted is somebody else's to go on with, at once. Nobody goes on with
    a started sweep: whoever started it sees that it was ended, and may start it again."""
    try:
        yield
    except KeyboardInterrupt:
        runs, number = work.book.runs, work.run.number
        if work.run.sweep_id:
            ended = Ending(state=RunState.STOPPED, note=_ENDED)
            runs.end(number, work.owner, ended, now=work.clock())
        else:
            runs.hand_back(number, work.owner, STOPPED, work.cost_usd)
        raise


def _swept(work: Work, sweep: StartedSweep) -> Ending:
    _step_back()
    minutes = sweep.max_minutes
    limit = time.monotonic() + 60 * minutes if minutes else math.inf
    over = f"its {minutes:g} minutes are over; what was measured is kept" if minutes else ""
    try:
        with command_process(command_of(sweep), str(sweep.folder), work.log) as process:
            why = _waited(process, work, lambda: over if time.monotonic() >= limit else "")
    except (AdvisorError, OSError) as error:
        return Ending(state=RunState.FAILED, note=str(error))
    if why:
        return Ending(state=RunState.STOPPED, note=why, exit_code=process.returncode)
    return _ending(work, process.returncode, "")


def _scheduled(
    work: Work, started: Callable[[Sequence[str], float], list[str]], follow: Follow, report: Report
) -> Ending:
    schedule = work.schedule
    assert schedule is not None
    try:
        if not Path(schedule.folder).is_dir():
            raise UsageError("there is no folder {path} on this machine", path=schedule.folder)
        left = _usd_left(work, schedule)
        command = started(schedule.command, work.run.due_at)
        with command_process(command, schedule.folder, work.log) as process:
            why = _waited(process, work, lambda: _BUDGET if (work.cost_usd or 0.0) >= left else "")
        ending = _ending(work, process.returncode, why)
        followed = _followed(work, follow) if _has_measured(work, ending, why) else {}
        sizing = {}
        if schedule.reporting is not None:
            failed = ending.note if ending.state is RunState.FAILED else ""
            sizing = {"sizing_report": report(work.run, failed, work.log)}
    except (AdvisorError, OSError) as error:
        return Ending(state=RunState.FAILED, note=str(error), cost_usd=work.cost_usd)
    return replace(ending, report={**followed, **sizing})


def _usd_left(work: Work, schedule: Schedule) -> float:
    """The rest of the month's budget for this run; its own cost so far is not subtracted twice."""
    due = work.run.due_at
    runs = work.book.runs.between(schedule.number, *month_of(schedule.timezone, due))
    left = usd_left(schedule, [run for run in runs if run.number != work.run.number], due)
    return math.inf if left is None else left


def _waited(process: subprocess.Popen[bytes], work: Work, over: Callable[[], str]) -> str:
    """Wait for the command. Ends it, and says why, when `over` does or somebody asks."""
    while process.poll() is None:
        why = over()
        if not why and work.must_stop():
            why = _ASKED
        if why:
            end(process)
            return why
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_EVERY_SECONDS)
    return ""


def _has_measured(work: Work, ending: Ending, stopped: str) -> bool:
    """Whether there may be something new to fit on. Who was cut off could not say how much it
    measured, and a sweep on a shared database does not know: then the store is looked at."""
    cut_off = bool(stopped or work.was_cut_off)
    assert work.schedule is not None
    return is_sweep(work.schedule.command) and (cut_off or ending.trials != 0)


def _followed(work: Work, follow: Follow) -> Mapping[str, Any]:
    """Runs the steps after a sweep; a failure of theirs does not fail the sweep."""
    try:
        return follow(work.run)
    except AdvisorError as error:
        return {"fit": {"kept": "last", "why": str(error)}}


def _ending(work: Work, code: int, stopped: str) -> Ending:
    """Out of the exit code and the command's document: `measured_now`, and `spent_usd` of a sweep
    on hosts that it launched itself. A command that was cut off has printed none."""
    document = answer_of(work.log) or {}
    trials = document.get("measured_now")
    ok = code == 0 and not stopped
    return Ending(
        state=RunState.DONE if ok else RunState.FAILED,
        note="" if ok else stopped or failure(code, work.log),
        exit_code=code,
        cost_usd=_cost(work, document.get("spent_usd")),
        trials=trials if isinstance(trials, int) and not isinstance(trials, bool) else None,
    )


def _cost(work: Work, spent: Any) -> float | None:
    """The cost of a run: the cloud's, all of the sweep's instances together, else by the host's price;
    None where an earlier process spent it and it is unknown (it counts with its most)."""
    if isinstance(spent, bool) or not isinstance(spent, int | float) or not 0 <= spent < math.inf:
        return work.cost_usd
    return None if work.was_cut_off and not spent else float(spent)


def _step_back() -> None:
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
