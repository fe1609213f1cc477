"""Jobs: due times of schedules and sweeps started over HTTP, in one table, with one process for each.

The process outlives the daemon or server that started it. If it is killed itself, the kernel also ends its
command and frees its lock. A started sweep is `starting` until its process has taken the row, and `lost` if
the process was killed before it stored how it ended; its logs are in a folder on the machine that ran it."""

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
from advisor.files import state_folder, system_errors, user_folder
from advisor.messages import Message
from advisor.questions.reading import from_values
from advisor.runs.processes import ADVISOR, answer_of, command_process, end, failure, start_executor
from advisor.runs.questions import command_words
from advisor.runs.schedules import checked_price, checked_sweep, is_sweep, iso_text, month_cost, started_as
from advisor.runs.sweep_questions import Allowed, NewSweep, SweepRun
from advisor.runs.sweeps.data import planned_data
from advisor.runs.sweeps.status import shown_rows, snapshot_document, trial_documents
from advisor.runs.sweeps.sweeping import plan_sweep, sweep_runs_here
from advisor.store.locks import HeldLock
from advisor.store.measurements import SqlStore
from advisor.store.records import Ending, Run, RunState, Schedule
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import Owner, this_process
from advisor.sweeps.watching.progress import look_at

JOB_SCHEMA, JOBS_SCHEMA, TRIALS_SCHEMA = "advisor.sweep-job/1", "advisor.sweep-jobs/1", "advisor.sweep-list/1"
ID = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{8}")
MOST_KEPT = 50
# A started process takes its run within this time even on a busy machine; a later one gives up.
STARTING_SECONDS = 120.0
# Each has a separate budget; this limit stops a client that starts sweeps in a loop.
MOST_ON_AWS = 4


class SweepState(StrEnum):
    """The state of a started sweep."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


ACTIVE = (SweepState.STARTING, SweepState.RUNNING, SweepState.STOPPING)


class OtherSweep(UsageError):
    """Another sweep runs; `sweep_id` is None if it was started by hand or by a schedule."""

    def __init__(self, message: Message, sweep_id: str | None) -> None:
        super().__init__(message)
        self.sweep_id = sweep_id


class RequestedSweep(Struct, frozen=True, kw_only=True):
    """A sweep to start: `words` follow `advisor` on the command line; `trials` are empty for AWS."""

    question: SweepRun
    words: tuple[str, ...]
    trials: tuple[Trial, ...] = ()


def requested_sweep(question: SweepRun, allowed: Allowed) -> RequestedSweep:
    """The sweep for a client's request; `UsageError` for a bad one, `MeasuringError` for one that this
    machine cannot measure."""
    sweep = allowed.resolved(question)
    words = sweep_words(sweep)
    if sweep.on_aws:
        return RequestedSweep(question=sweep, words=checked_sweep(words, sweep).words)
    trials = plan_sweep(sweep, planned_data(sweep))
    checked_price(trials, sweep)
    return RequestedSweep(question=sweep, words=words, trials=tuple(trials))


def sweep_words(sweep: SweepRun) -> tuple[str, ...]:
    """The command line, without `advisor`, that measures the same sweep."""
    return ("sweep", "run", *command_words(sweep, without=("dry_run", "max_minutes")))


def start_sweep(
    book: ScheduleBook,
    requested: RequestedSweep,
    fields: Mapping[str, Any],
    *,
    max_minutes: float | None = None,
    database_url: str | None = None,
) -> Run:
    """Start a sweep and return at once; `fields` are the client's request. `OtherSweep` while another sweep
    runs on this machine, or `MOST_ON_AWS` run on AWS."""
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
        running = [run for run in open_runs if run.place == here.place and sweep_state(run, now) in ACTIVE]
        _refuse_conflict(requested, running)

    run = book.runs.start(sweep_id, request, here, now=now, log=str(folder / "talk.log"), refuse=refuse)
    with system_errors(DataError, f"cannot write '{folder}'", hint="free some space"):
        folder.mkdir(parents=True)
        process = start_executor(run.number, database_url=database_url, log=folder / "start.log")
    # The row says how the process ended; waiting for it only prevents a zombie.
    threading.Thread(target=process.wait, name=f"sweep {sweep_id}", daemon=True).start()
    return run


def _forget_oldest(book: ScheduleBook, now: float) -> None:
    """Delete rows and folders of ended sweeps, except the `MOST_KEPT` latest."""
    old = [sweep for sweep in book.runs.sweeps() if sweep_state(sweep, now) not in ACTIVE][MOST_KEPT:]
    if old:
        book.runs.forget([sweep.number for sweep in old])
    for sweep in old:
        shutil.rmtree(Path(sweep.log).parent, ignore_errors=True)


def _refuse_conflict(requested: RequestedSweep, running: Sequence[Run]) -> None:
    on_aws = [sweep.sweep_id for sweep in running if is_on_aws(sweep)]
    here = [sweep.sweep_id for sweep in running if not is_on_aws(sweep)]
    if requested.question.on_aws:
        if len(on_aws) >= MOST_ON_AWS:
            message = Message("{sweeps} sweeps run on AWS; wait for one to end", sweeps=len(on_aws))
            raise OtherSweep(message, on_aws[0])
    elif here or sweep_runs_here():
        message = Message(
            "another sweep runs on this machine, and two would spoil each other; wait for it, or end it"
        )
        raise OtherSweep(message, here[0] if here else None)


def stop_sweep(book: ScheduleBook, sweep_id: str) -> Run:
    """Stop a sweep as Ctrl-C would: by a mark in its row, which its process sees on any machine."""
    book.runs.note_stop(sweep_id, now=time.time())
    return sweep_of(book, sweep_id)


def sweep_of(book: ScheduleBook, sweep_id: str) -> Run:
    """The started sweep with that id; `UsageError` where there is none."""
    run = book.runs.sweep(sweep_id) if ID.fullmatch(sweep_id) else None
    if run is None:
        raise UsageError("there is no sweep '{sweep}'", sweep=sweep_id[:40])
    return run


def sweep_state(sweep: Run, now: float) -> SweepState:
    """The state of a sweep at the time `now` (seconds since 1970)."""
    if sweep.state is RunState.DUE:
        return SweepState.LOST if now - sweep.due_at >= STARTING_SECONDS else SweepState.STARTING
    if sweep.state is not RunState.RUNNING:
        return SweepState(sweep.state.value)
    if not sweep.alive:
        return SweepState.LOST
    return SweepState.RUNNING if sweep.stop_at is None else SweepState.STOPPING


def is_on_aws(sweep: Run) -> bool:
    """True if the sweep measures on AWS, and so does not load this machine."""
    return sweep.request.get("on") != "here"


def events_path(sweep: Run) -> Path:
    """The file with the sweep's events, one JSON object a line, in the folder of its stderr (`log`)."""
    return Path(sweep.log).parent / "events.jsonl"


def command_of(sweep: Run) -> list[str]:
    """The sweep's command line; a sweep on AWS writes no events file here."""
    log = [] if is_on_aws(sweep) else [f"--log-file={events_path(sweep)}"]
    return [*ADVISOR, *sweep.request["words"], *log, "-o", "json"]


def sweep_document(sweep: Run) -> dict[str, Any]:
    """The document `advisor.sweep-job/1` without the status of the trials."""
    state, request, reason = sweep_state(sweep, time.time()), sweep.request, sweep.note
    if state is SweepState.LOST:
        reason = str(
            Message(
                "its process was killed, or never came up; what was measured is kept: start the "
                "same sweep again to continue"
            )
        )
    return {
        "schema": JOB_SCHEMA,
        "id": sweep.sweep_id,
        "state": state.value,
        "runs": state in ACTIVE,
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
    """The document of `advisor sweep status -o json`; None for sweeps on AWS, or never planned."""
    trials = trials_of(sweep, allowed)
    if trials is None:
        return None
    return snapshot_document(look_at(store, [trial.trial_id for trial in trials]))


def trials_document(sweep: Run, store: SqlStore, allowed: Allowed) -> dict[str, Any]:
    """The trials with state and rate, as in `advisor sweep list -o json`."""
    trials = trials_of(sweep, allowed) or ()
    rows, _ = shown_rows(store, trials)
    return {"schema": TRIALS_SCHEMA, "trials": trial_documents(trials, rows)}


def list_document(sweeps: Sequence[Run], store: SqlStore) -> dict[str, Any]:
    """The document of all started sweeps, latest first; `status` covers all trials in the store."""
    documents = [sweep_document(sweep) for sweep in sweeps]
    running = [document["id"] for document in documents if document["runs"]]
    status = snapshot_document(look_at(store))
    return {"schema": JOBS_SCHEMA, "sweeps": documents, "running": running, "status": status}


def trials_of(sweep: Run, allowed: Allowed) -> tuple[Trial, ...] | None:
    """The sweep's trials as planned now (None for AWS); their ids are final once the data set is made."""
    if is_on_aws(sweep):
        return None
    try:
        return requested_sweep(from_values(NewSweep, sweep.request["fields"]), allowed).trials
    except AdvisorError:
        return None  # its data set or network is no longer allowed


_LOOK_EVERY_SECONDS = 1.0
_NOTE_COST_EVERY_SECONDS = 20.0
# Notes are kept in English, and shown in a reader's language.
STOPPED = str(Message("it was stopped half-way, with its daemon or by a signal; it continues later"))
_BUDGET = str(Message("it was stopped: the budget of the month is spent"))
_UNUSABLE = str(Message("0 usable: other processes took what its trials needed"))
_ASKED = str(Message("somebody asked it to stop; what was measured is kept"))
_ENDED = str(Message("its process was stopped; what was measured is kept"))
_LOST = "the database gave this run to another process; this one leaves it"
# A started sweep yields to the server that answers requests: it gets less CPU time, and the kernel kills it
# earlier when memory runs out (proc(5): 1000 is killed first).
_NICE, _OOM_SCORE = 10, 800

# Called after a sweep that measured something; returns `fit` and `drift` for the run's report.
Follow = Callable[[Run], Mapping[str, Any]]
# Makes the report on a schedule's plan; the text is why the run failed, or empty.
Report = Callable[[Schedule, str], Mapping[str, Any]]
# Turns a scheduled command and its due time into a command line.
Started = Callable[[Sequence[str], float], list[str]]


class Work(Struct):
    """A run that this process executes."""

    book: ScheduleBook
    run: Run
    schedule: Schedule | None
    owner: Owner
    lock: HeldLock
    log: Path
    begun: float
    _noted_at: float = field(default_factory=time.monotonic)

    @property
    def cost_usd(self) -> float | None:
        """The cost so far, by the host's price; None where the price is unknown."""
        hourly = self.schedule.usd_per_hour if self.schedule else None
        if hourly is None:
            return None
        return (self.run.cost_usd or 0.0) + hourly * (time.time() - self.begun) / 3600

    def must_stop(self) -> bool:
        """True if a stop was requested; also stores the cost. `DataError` once another process has the run.
        False while the database cannot be reached: no other process can take the run then."""
        now, runs, number = time.monotonic(), self.book.runs, self.run.number
        try:
            if not self.lock.is_held():  # a restarted server has forgotten all locks
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
    book: ScheduleBook, number: int, *, follow: Follow, report: Report, started: Started = started_as
) -> Ending | None:
    """Execute a due run; None if another process has or had it. `UsageError` for an unknown number, and for
    a sweep that was requested more than `STARTING_SECONDS` ago."""
    run = book.runs.numbered(number)
    if run is None:
        raise UsageError("there is no run {number}", number=number)
    schedule = None if run.schedule is None else book.numbered(run.schedule)
    if schedule is None and (state := sweep_state(run, time.time())) is not SweepState.STARTING:
        raise UsageError(
            "sweep {sweep} is {state} and is not begun again", sweep=run.sweep_id, state=state.value
        )
    log = Path(run.log) if schedule is None else _log_of(schedule, run)
    owner = this_process()
    lock = book.runs.begin(number, owner, log=str(log), now=time.time())
    if lock is None:
        return None
    work = Work(book, run, schedule, owner, lock, log, time.time())
    try:
        try:
            if schedule is None:
                ending = _sweep_end(work)
            else:
                ending = _schedule_end(work, schedule, started, follow, report)
        except (AdvisorError, OSError) as error:
            ending = Ending(state=RunState.FAILED, note=str(error), cost_usd=work.cost_usd)
        book.runs.end(number, owner, ending, now=time.time())
    except KeyboardInterrupt:
        # Another process continues a due time at once. A started sweep is not continued: its client sees
        # that it was stopped, and may start it again.
        if schedule is None:
            book.runs.end(number, owner, Ending(state=RunState.STOPPED, note=_ENDED), now=time.time())
        else:
            book.runs.hand_back(number, owner, STOPPED, work.cost_usd)
        raise
    finally:
        work.lock.release()
    return ending


def _log_of(schedule: Schedule, run: Run) -> Path:
    """The file for the command's stderr; the document that the command prints has the ending .json."""
    when = datetime.fromtimestamp(run.due_at, UTC).strftime("%Y%m%dT%H%M%SZ")
    return state_folder() / "schedules" / f"{schedule.name}-{schedule.number}" / f"{when}.log"


def _sweep_end(work: Work) -> Ending:
    _lower_priority()
    minutes = work.run.request["max_minutes"]
    limit = time.monotonic() + 60 * minutes if minutes else math.inf
    over = f"its {minutes:g} minutes are over; what was measured is kept" if minutes else ""
    command, folder = command_of(work.run), str(work.log.parent)
    return _command_end(work, command, folder, lambda: over if time.monotonic() >= limit else "")


def _schedule_end(work: Work, schedule: Schedule, started: Started, follow: Follow, report: Report) -> Ending:
    due = work.run.due_at
    if not Path(schedule.folder).is_dir():
        raise UsageError("there is no folder {path} on this machine", path=schedule.folder)
    # The rest of the month's budget, without this run's cost: `work.cost_usd` includes earlier attempts.
    _, left = month_cost(work.book, schedule, due, besides=work.run.number)
    most = math.inf if left is None else left
    ending = _command_end(
        work,
        started(schedule.command, due),
        schedule.folder,
        lambda: _BUDGET if (work.cost_usd or 0.0) >= most else "",
    )
    done: dict[str, Any] = {}
    # With an earlier attempt, or a shared database, the number of trials is unknown: ask the store then.
    if is_sweep(schedule.command) and (work.run.begun_at or ending.trials != 0):
        try:
            done |= follow(work.run)
        except AdvisorError as error:  # the fit failed, not the sweep
            done |= {"fit": {"kept": "last", "why": str(error)}}
    if schedule.reporting is not None:
        failed = ending.note if ending.state is RunState.FAILED else ""
        done |= {"sizing_report": report(schedule, failed)}
    return replace(ending, report=done)


def _command_end(work: Work, command: Sequence[str], folder: str, over: Callable[[], str]) -> Ending:
    """Run a command until it ends, `over` returns a reason to stop it, or a stop is requested. The document
    that it prints has the number of trials, and the cost of a sweep on AWS."""
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
        # The cloud's figure for all instances. Unknown (and so counted as the run's limit) where an earlier
        # attempt spent it.
        cost = None if work.run.begun_at and not spent else float(spent)
    state, note = RunState.DONE, _UNUSABLE if trials and document.get("usable_now") == 0 else ""
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


def _lower_priority() -> None:
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
