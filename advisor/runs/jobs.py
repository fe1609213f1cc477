"""Jobs in one table: schedules that are due and sweeps started over HTTP, a process each.

That process belongs to no daemon and no server: one that is killed loses nothing. Where it is killed itself,
the kernel ends its command after it, and its lock with it. A started sweep is `starting` while its row is
there and its process not yet, and `lost` where that was killed before it could say how it ended; its logs lie
in its folder on the machine that runs it."""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import Trial
from advisor.errors import AdvisorError, DataError, UsageError
from advisor.files import state_folder, user_folder
from advisor.messages import Message
from advisor.questions.reading import from_values
from advisor.runs.processes import ADVISOR, answer_of, command_process, end, failure, start_executor
from advisor.runs.questions import words_of
from advisor.runs.schedules import checked_price, is_sweep, iso_text, month_cost, started_as
from advisor.runs.sweep_questions import Allowed, NewSweep, SweepRun
from advisor.runs.sweeps.data import planned_data
from advisor.runs.sweeps.status import shown_rows, snapshot_document, trial_documents
from advisor.runs.sweeps.sweeping import plan_sweep, sweep_runs_here
from advisor.store.locks import HeldLock
from advisor.store.measurements import SqlStore
from advisor.store.records import Ending, Run, RunState, Schedule
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import Owner, this_process
from advisor.sweeps.watching.shared import look_at

ONE, LIST, TRIALS = "advisor.sweep-job/1", "advisor.sweep-jobs/1", "advisor.sweep-list/1"
ID = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{8}")
KEPT = 50
# Until then a process that was started has taken its run in hand, however busy the machine is; one
# that comes later gives up.
STARTING_SECONDS = 120.0
# Each launches within a budget of its own; a client that asks in a loop is stopped here.
MOST_ON_AWS = 4


class SweepState(StrEnum):
    """Where a started sweep stands."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


OPEN = (SweepState.STARTING, SweepState.RUNNING, SweepState.STOPPING)


class OtherSweep(UsageError):
    """A sweep runs already; `sweep_id` is None where it was started by hand or by a schedule."""

    def __init__(self, message: Message, sweep_id: str | None) -> None:
        super().__init__(message)
        self.sweep_id = sweep_id


class RequestedSweep(Struct, frozen=True, kw_only=True):
    """A sweep to start: `words` stand behind `advisor`; `trials` are planned here, and empty for AWS."""

    question: SweepRun
    words: tuple[str, ...]
    trials: tuple[Trial, ...] = ()


def requested_sweep(question: SweepRun, allowed: Allowed) -> RequestedSweep:
    """The sweep that a client asks for; `UsageError`, or `MeasuringError` for what this machine cannot
    measure."""
    sweep = allowed.resolved(question)
    words = sweep_words(sweep)
    if sweep.on_aws:
        from advisor.runs.cloud.fleet import launches

        since = sweep.fresh_since if isinstance(sweep, NewSweep) else None
        return RequestedSweep(question=sweep, words=(*words, f"--owner={launches(sweep, since)[0].owner}"))
    trials = plan_sweep(sweep, planned_data(sweep))
    checked_price(trials, sweep)
    return RequestedSweep(question=sweep, words=words, trials=tuple(trials))


def sweep_words(sweep: SweepRun) -> tuple[str, ...]:
    """The words behind `advisor` of a command that measures the same."""
    return ("sweep", "run", *words_of(sweep, without=("dry_run", "max_minutes")))


def start_sweep(
    book: ScheduleBook,
    requested: RequestedSweep,
    fields: Mapping[str, Any],
    *,
    max_minutes: float | None = None,
    database_url: str | None = None,
) -> Run:
    """Start it and return at once; `fields` are what the client asked. `OtherSweep` while one runs on this
    machine, or `MOST_ON_AWS` run there."""
    now, here = time.time(), this_process()
    _forget_oldest(book, now)
    sweep_id = f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
    folder = user_folder() / "service" / "sweeps" / sweep_id
    request = {
        "on": requested.question.on,
        "words": list(requested.words),
        "fields": dict(fields),
        "max_minutes": max_minutes,
        "planned": len(requested.trials) or None,
    }

    def refuse(open_runs: Sequence[Run]) -> None:
        running = [run for run in open_runs if run.place == here.place and sweep_state(run, now) in OPEN]
        _refuse_beside(requested, running)

    run = book.runs.start(sweep_id, request, here, now=now, log=str(folder / "talk.log"), refuse=refuse)
    try:
        folder.mkdir(parents=True)
        process = start_executor(run.number, database_url=database_url, log=folder / "start.log")
    except OSError as error:
        book.runs.give_up(run.number, "its process could not be started", now=now)
        raise DataError(
            "cannot write '{path}' ({reason})",
            path=str(folder),
            reason=error.strerror,
            hint=Message("free some space"),
        ) from error
    # Its row says how it ended; this only takes it out of the table of processes.
    threading.Thread(target=process.wait, name=f"sweep {sweep_id}", daemon=True).start()
    return run


def _forget_oldest(book: ScheduleBook, now: float) -> None:
    """Of those that have ended the latest stay."""
    old = [sweep for sweep in started_sweeps(book) if sweep_state(sweep, now) not in OPEN][KEPT:]
    if old:
        book.runs.forget([sweep.number for sweep in old])
    for sweep in old:
        shutil.rmtree(Path(sweep.log).parent, ignore_errors=True)


def _refuse_beside(requested: RequestedSweep, running: Sequence[Run]) -> None:
    on_aws = [sweep.sweep_id for sweep in running if is_on_aws(sweep)]
    here = [sweep.sweep_id for sweep in running if not is_on_aws(sweep)]
    if requested.question.on_aws:
        if len(on_aws) >= MOST_ON_AWS:
            message = Message("{sweeps} sweeps run on AWS; wait for one to end", sweeps=len(on_aws))
            raise OtherSweep(message, on_aws[0])
    elif here:
        message = Message(
            "sweep {sweep} runs on this machine, and two would spoil each other; wait for it "
            "to end, or end it: DELETE /v1/sweeps/{sweep}",
            sweep=here[0],
        )
        raise OtherSweep(message, here[0])
    elif sweep_runs_here():
        message = Message(
            "a sweep that was started by hand or by a schedule runs on this machine, and two would "
            "spoil each other; wait for it to end"
        )
        raise OtherSweep(message, None)


def stop_sweep(book: ScheduleBook, sweep_id: str) -> Run:
    """Ask a sweep to end as Ctrl-C would: a mark in its row, which its process sees on any machine."""
    book.runs.note_stop(sweep_id, now=time.time())
    return sweep_of(book, sweep_id)


def sweep_of(book: ScheduleBook, sweep_id: str) -> Run:
    """The started sweep of that id; `UsageError` where there is none."""
    run = book.runs.sweep(sweep_id) if book.is_ready and ID.fullmatch(sweep_id) else None
    if run is None:
        raise UsageError("there is no sweep '{sweep}'", sweep=sweep_id[:40])
    return run


def started_sweeps(book: ScheduleBook) -> list[Run]:
    """Every started sweep, the latest first."""
    return book.runs.sweeps() if book.is_ready else []


def sweep_state(sweep: Run, now: float) -> SweepState:
    """Where it stands at a moment (seconds since 1970)."""
    if sweep.state is RunState.DUE:
        return SweepState.LOST if now - sweep.due_at >= STARTING_SECONDS else SweepState.STARTING
    if sweep.state is not RunState.RUNNING:
        return SweepState(sweep.state.value)
    if not sweep.alive:
        return SweepState.LOST
    return SweepState.RUNNING if sweep.stop_at is None else SweepState.STOPPING


def is_on_aws(sweep: Run) -> bool:
    """Whether it measures elsewhere, and leaves this machine's quiet."""
    return sweep.request.get("on") != "here"


def events_path(sweep: Run) -> Path:
    """The log of its events, one JSON object a line; beside `log`, its stderr."""
    return Path(sweep.log).parent / "events.jsonl"


def command_of(sweep: Run) -> list[str]:
    """The whole command line; a sweep on AWS writes no log of events here."""
    log = [] if is_on_aws(sweep) else [f"--log-file={events_path(sweep)}"]
    return [*ADVISOR, *sweep.request["words"], *log, "-o", "json"]


def sweep_document(sweep: Run) -> dict[str, Any]:
    """`advisor.sweep-job/1` without the status of its trials."""
    state, request, reason = sweep_state(sweep, time.time()), sweep.request, sweep.note
    if state is SweepState.LOST:
        reason = str(
            Message(
                "its process was killed, or never came up; what was measured is kept: start the "
                "same sweep again to continue"
            )
        )
    return {
        "schema": ONE,
        "id": sweep.sweep_id,
        "state": state.value,
        "runs": state in OPEN,
        "on": request["on"],
        "asked": request["fields"],
        "max_minutes": request["max_minutes"],
        "planned_trials": request["planned"],
        "asked_at": iso_text(sweep.due_at, "auto"),
        "begun_at": iso_text(sweep.begun_at, "auto"),
        "stop_asked_at": iso_text(sweep.stop_at, "auto"),
        "ended_at": iso_text(sweep.ended_at, "auto"),
        "exit_code": sweep.exit_code,
        "reason": reason,
        "host": sweep.host if sweep.begun_at is not None else None,
        "pid": sweep.pid,
    }


def status_document(sweep: Run, store: SqlStore, allowed: Allowed) -> dict[str, Any] | None:
    """The document of `advisor sweep status -o json`; None for AWS and for sweeps never planned."""
    trials = trials_of(sweep, allowed)
    if trials is None:
        return None
    return snapshot_document(look_at(store, [trial.trial_id for trial in trials]))


def trials_document(sweep: Run, store: SqlStore, allowed: Allowed) -> dict[str, Any]:
    """As `advisor sweep list -o json` has the same sweep: each trial, its state and rate."""
    trials = trials_of(sweep, allowed) or ()
    rows, _ = shown_rows(store, trials)
    return {"schema": TRIALS, "trials": trial_documents(trials, rows)}


def list_document(sweeps: Sequence[Run], store: SqlStore) -> dict[str, Any]:
    """All sweeps, latest first, whoever started them; `status` is of all that the store holds."""
    documents = [sweep_document(sweep) for sweep in sweeps]
    running = [document["id"] for document in documents if document["runs"]]
    status = snapshot_document(look_at(store))
    return {"schema": LIST, "sweeps": documents, "running": running, "status": status}


def trials_of(sweep: Run, allowed: Allowed) -> tuple[Trial, ...] | None:
    """As the machine plans them now: once the data are made, the ids are those measured."""
    if is_on_aws(sweep):
        return None
    try:
        return requested_sweep(from_values(NewSweep, sweep.request["fields"]), allowed).trials
    except AdvisorError:
        return None  # a data set or a network that is allowed no more


_LOOK_EVERY_SECONDS = 0.5
_ASK_DATABASE_EVERY_SECONDS = 1.0
_NOTE_COST_EVERY_SECONDS = 20.0
# Notes are kept in English, and shown in a reader's language.
STOPPED = str(Message("it was stopped half-way, with its daemon or by a signal; it continues later"))
_BUDGET = str(Message("it was stopped: the budget of the month is spent"))
_UNUSABLE = str(Message("0 usable: other processes took what its trials needed"))
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
# The command line of a scheduled command at its due time.
Started = Callable[[Sequence[str], float], list[str]]


class Work(Struct):
    """A run in hand: whose, since when, and what ends it before its command does."""

    book: ScheduleBook
    run: Run
    schedule: Schedule | None
    owner: Owner
    lock: HeldLock
    log: Path
    clock: Callable[[], float]
    begun: float
    _asked_at: float = -math.inf
    _noted_at: float = field(default_factory=time.monotonic)

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
        runs, number = self.book.runs, self.run.number
        try:
            if not self.lock.is_held():  # a server that came back has forgotten who held what
                self.lock = runs.hold_again(number) or self.lock
            if self.cost_usd is not None and now - self._noted_at >= _NOTE_COST_EVERY_SECONDS:
                self._noted_at = now
                runs.note_cost(number, self.owner, self.cost_usd)
            row = runs.numbered(number)
        except DataError:
            return False
        if row is None or row.owner != self.owner.name:
            raise DataError(_LOST)
        return row.stop_at is not None


def execute(
    book: ScheduleBook,
    number: int,
    *,
    follow: Follow,
    report: Report,
    clock: Callable[[], float] = time.time,
    started: Started = started_as,
) -> Ending | None:
    """Run what is due; None where another process has it, or had it. `UsageError` for an unknown number, and
    for a sweep that was asked for too long ago."""
    run = book.runs.numbered(number)
    if run is None:
        raise UsageError("there is no run {number}", number=number)
    schedule = None if run.schedule is None else book.numbered(run.schedule)
    if schedule is None and (state := sweep_state(run, clock())) is not SweepState.STARTING:
        raise UsageError(
            "sweep {sweep} is {state} and is not begun again", sweep=run.sweep_id, state=state.value
        )
    log = Path(run.log) if schedule is None else _log_of(schedule, run)
    owner = this_process()
    lock = book.runs.begin(number, owner, log=str(log), now=clock())
    if lock is None:
        return None
    work = Work(book, run, schedule, owner, lock, log, clock, clock())
    try:
        try:
            ending = _swept(work) if schedule is None else _scheduled(work, schedule, started, follow, report)
        except (AdvisorError, OSError) as error:
            ending = Ending(state=RunState.FAILED, note=str(error), cost_usd=work.cost_usd)
        book.runs.end(number, owner, ending, now=clock())
    except KeyboardInterrupt:
        # A due time is somebody else's to go on with, at once. Nobody goes on with a started sweep: whoever
        # started it sees that it was ended, and may start it again.
        if schedule is None:
            book.runs.end(number, owner, Ending(state=RunState.STOPPED, note=_ENDED), now=clock())
        else:
            book.runs.hand_back(number, owner, STOPPED, work.cost_usd)
        raise
    finally:
        work.lock.release()
    return ending


def _log_of(schedule: Schedule, run: Run) -> Path:
    """The command's stderr; the document that it prints lies beside it, as .json."""
    when = datetime.fromtimestamp(run.due_at, UTC).strftime("%Y%m%dT%H%M%SZ")
    return state_folder() / "schedules" / f"{schedule.name}-{schedule.number}" / f"{when}.log"


def _swept(work: Work) -> Ending:
    _step_back()
    minutes = work.run.request["max_minutes"]
    limit = time.monotonic() + 60 * minutes if minutes else math.inf
    over = f"its {minutes:g} minutes are over; what was measured is kept" if minutes else ""
    command, folder = command_of(work.run), str(work.log.parent)
    return _commanded(work, command, folder, lambda: over if time.monotonic() >= limit else "")


def _scheduled(work: Work, schedule: Schedule, started: Started, follow: Follow, report: Report) -> Ending:
    due = work.run.due_at
    if not Path(schedule.folder).is_dir():
        raise UsageError("there is no folder {path} on this machine", path=schedule.folder)
    # The rest of the month's budget for this run; its own cost so far is not subtracted twice.
    _, left = month_cost(work.book, schedule, due, besides=work.run.number)
    most = math.inf if left is None else left
    ending = _commanded(
        work,
        started(schedule.command, due),
        schedule.folder,
        lambda: _BUDGET if (work.cost_usd or 0.0) >= most else "",
    )
    done: dict[str, Any] = {}
    # A process that had the run in hand before could not say how much it measured, and a sweep on a
    # shared database does not know: then the store is looked at.
    if is_sweep(schedule.command) and (work.run.begun_at or ending.trials != 0):
        try:
            done |= follow(work.run)
        except AdvisorError as error:  # of the fit: the sweep has not failed
            done |= {"fit": {"kept": "last", "why": str(error)}}
    if schedule.reporting is not None:
        failed = ending.note if ending.state is RunState.FAILED else ""
        done |= {"sizing_report": report(work.run, failed, work.log)}
    return replace(ending, report=done)


def _commanded(work: Work, command: Sequence[str], folder: str, over: Callable[[], str]) -> Ending:
    """Run a command to its end, or until `over` gives a reason or somebody asks. Its document tells what was
    measured, and what a sweep on AWS spent."""
    why = ""
    with command_process(command, folder, work.log) as process:
        while process.poll() is None and not why:
            if why := over() or (_ASKED if work.must_stop() else ""):
                end(process)
            else:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_EVERY_SECONDS)
    document, code = answer_of(work.log) or {}, process.returncode
    trials, spent = document.get("measured_now"), document.get("spent_usd")
    cost = work.cost_usd
    if isinstance(spent, int | float) and not isinstance(spent, bool) and 0 <= spent < math.inf:
        # The cloud's, all of the sweep's instances together; unknown where an earlier process spent it (it
        # counts with its most).
        cost = None if work.run.begun_at and not spent else float(spent)
    is_spoiled = bool(trials) and document.get("usable_now") == 0
    state, note = RunState.DONE, _UNUSABLE if is_spoiled else ""
    if why:
        state, note = RunState.FAILED if work.schedule else RunState.STOPPED, why
    elif code:
        state, note = RunState.FAILED, failure(code, work.log)
    return Ending(
        state=state,
        note=note,
        exit_code=code,
        cost_usd=cost,
        trials=trials if isinstance(trials, int) and not isinstance(trials, bool) else None,
    )


def _step_back() -> None:
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
