"""Sweeps that somebody starts over HTTP and does not wait for: rows of the run table, due at once.

`starting`: the row is there, its process not yet. `lost`: its process was killed before it could
say how it ended. The logs of a sweep lie in its folder on the machine that runs it.
"""

from __future__ import annotations

import re
import secrets
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from advisor.domain import Trial
from advisor.errors import AdvisorError, DataError, UsageError
from advisor.files import user_folder
from advisor.messages import Message
from advisor.questions.reading import from_values
from advisor.runs.processes import ADVISOR, start_executor
from advisor.runs.questions import words_of
from advisor.runs.sweep_questions import Allowed, NewSweep, SweepRun
from advisor.runs.sweeps.data import planned_data
from advisor.runs.sweeps.status import shown_rows, snapshot_document, trial_documents
from advisor.runs.sweeps.sweeping import host_usd_per_hour, plan_sweep, sweep_runs_here
from advisor.store.measurements import SqlStore
from advisor.store.records import Run, RunState
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import this_process
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
    """One that can be started: `words` stand behind `advisor`; `trials` are those of this machine's
    plan (none of a sweep on AWS, which is planned for its instance)."""

    question: SweepRun
    words: tuple[str, ...]
    trials: tuple[Trial, ...] = ()


class StartedSweep(Struct, frozen=True):
    """A started sweep, as its row was at one moment."""

    run: Run

    @property
    def id(self) -> str:
        """By which a client names it; in the order of their starts."""
        return self.run.sweep_id

    @property
    def folder(self) -> Path:
        """Where its logs lie."""
        return Path(self.run.log).parent

    @property
    def events_path(self) -> Path:
        """The log of its events, one JSON object a line."""
        return self.folder / "events.jsonl"

    @property
    def talk_path(self) -> Path:
        """Its stderr; the document that it printed lies beside it, as .json."""
        return Path(self.run.log)

    @property
    def on_aws(self) -> bool:
        """Whether it measures elsewhere, and leaves this machine's quiet."""
        return self.run.request.get("on") != "here"

    @property
    def words(self) -> tuple[str, ...]:
        """Its command, without `advisor`."""
        return tuple(self.run.request["words"])

    @property
    def fields(self) -> Mapping[str, Any]:
        """What its client asked."""
        fields: Mapping[str, Any] = self.run.request["fields"]
        return fields

    @property
    def max_minutes(self) -> float | None:
        """It is ended after so long."""
        minutes: float | None = self.run.request["max_minutes"]
        return minutes

    def state(self, now: float) -> SweepState:
        """Where it stands at a moment (seconds since 1970)."""
        run = self.run
        if run.state is RunState.DUE:
            late = now - run.due_at >= STARTING_SECONDS
            return SweepState.LOST if late else SweepState.STARTING
        if run.state is RunState.RUNNING:
            if not run.alive:
                return SweepState.LOST
            return SweepState.RUNNING if run.stop_at is None else SweepState.STOPPING
        return SweepState(run.state.value)


def requested_sweep(question: SweepRun, allowed: Allowed) -> RequestedSweep:
    """The sweep that a client asks for. `UsageError` names what is wrong, as the command would;
    `MeasuringError` what this machine cannot measure."""
    sweep = allowed.resolved(question)
    words = sweep_words(sweep)
    if sweep.on_aws:
        from advisor.runs.cloud.fleet import launches

        since = sweep.fresh_since if isinstance(sweep, NewSweep) else None
        owner = launches(sweep, since)[0].owner
        return RequestedSweep(question=sweep, words=(*words, f"--owner={owner}"))
    trials = plan_sweep(sweep, planned_data(sweep))
    if sweep.adaptive:
        from advisor.runs.adaptive.planning import adaptive_from  # loads SciPy

        adaptive_from(trials, sweep)
    host_usd_per_hour(sweep)
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
) -> StartedSweep:
    """Start it; returns at once. `fields` are what the client asked, for those who look later.

    `OtherSweep` while one measures on this machine (two would measure each other), or while
    `MOST_ON_AWS` run there.
    """
    now = time.time()
    _forget_old(book, now)
    sweep_id = f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
    folder = user_folder() / "service" / "sweeps" / sweep_id
    request = {
        "on": requested.question.on,
        "words": list(requested.words),
        "fields": dict(fields),
        "max_minutes": max_minutes,
        "planned": len(requested.trials) or None,
    }
    here = this_process()

    def refuse(open_runs: Sequence[Run]) -> None:
        sweeps = (StartedSweep(run) for run in open_runs if run.place == here.place)
        _refuse_beside(requested, [sweep for sweep in sweeps if sweep.state(now) in OPEN])

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
    return StartedSweep(run)


def stop_sweep(book: ScheduleBook, sweep_id: str) -> StartedSweep:
    """Ask a sweep to end as Ctrl-C would; one that has ended stays as it is. Its process looks
    into its row, so that it can be asked from any machine."""
    book.runs.note_stop(sweep_id, now=time.time())
    return sweep_of(book, sweep_id)


def sweep_of(book: ScheduleBook, sweep_id: str) -> StartedSweep:
    """The started sweep of that id; `UsageError` where there is none."""
    run = book.runs.sweep(sweep_id) if book.is_ready and ID.fullmatch(sweep_id) else None
    if run is None:
        raise UsageError("there is no sweep '{sweep}'", sweep=sweep_id[:40])
    return StartedSweep(run)


def started_sweeps(book: ScheduleBook) -> list[StartedSweep]:
    """Every started sweep, the latest first."""
    return [StartedSweep(run) for run in book.runs.sweeps()] if book.is_ready else []


def command_of(sweep: StartedSweep) -> list[str]:
    """The whole command line; a sweep on AWS writes no log of events here."""
    log = [] if sweep.on_aws else [f"--log-file={sweep.events_path}"]
    return [*ADVISOR, *sweep.words, *log, "-o", "json"]


def sweep_document(sweep: StartedSweep) -> dict[str, Any]:
    """`advisor.sweep-job/1` without the status of its trials."""
    run, state = sweep.run, sweep.state(time.time())
    return {
        "schema": ONE,
        "id": sweep.id,
        "state": state.value,
        "runs": state in OPEN,
        "on": run.request["on"],
        "asked": sweep.fields,
        "max_minutes": sweep.max_minutes,
        "planned_trials": run.request["planned"],
        "asked_at": _iso(run.due_at),
        "begun_at": _iso(run.begun_at),
        "stop_asked_at": _iso(run.stop_at),
        "ended_at": _iso(run.ended_at),
        "exit_code": run.exit_code,
        "reason": _reason(run, state),
        "host": run.host if run.begun_at is not None else None,
        "pid": run.pid,
    }


def status_document(sweep: StartedSweep, store: SqlStore, allowed: Allowed) -> dict[str, Any] | None:
    """As `advisor sweep status -o json` has the same sweep; None of one on AWS, and of one that
    could not be planned any more."""
    trials = trials_of(sweep, allowed)
    if trials is None:
        return None
    return snapshot_document(look_at(store, [trial.trial_id for trial in trials]))


def trials_document(sweep: StartedSweep, store: SqlStore, allowed: Allowed) -> dict[str, Any]:
    """As `advisor sweep list -o json` has the same sweep: each trial, its state and rate."""
    trials = trials_of(sweep, allowed) or ()
    rows, _ = shown_rows(store, trials)
    return {"schema": TRIALS, "trials": trial_documents(trials, rows)}


def list_document(sweeps: Sequence[StartedSweep], store: SqlStore) -> dict[str, Any]:
    """All of them, the latest first; `status` is of all that the store holds or that runs, by
    whomever it was started."""
    documents = [sweep_document(sweep) for sweep in sweeps]
    return {
        "schema": LIST,
        "sweeps": documents,
        "running": [document["id"] for document in documents if document["runs"]],
        "status": snapshot_document(look_at(store)),
    }


def trials_of(sweep: StartedSweep, allowed: Allowed) -> tuple[Trial, ...] | None:
    """As the machine plans them now: once the data are made, the ids are those measured."""
    if sweep.on_aws:
        return None
    try:
        return requested_sweep(from_values(NewSweep, sweep.fields), allowed).trials
    except AdvisorError:
        return None  # a data set or a network that is allowed no more


def _refuse_beside(requested: RequestedSweep, running: Sequence[StartedSweep]) -> None:
    if requested.question.on_aws:
        there = [sweep for sweep in running if sweep.on_aws]
        if len(there) >= MOST_ON_AWS:
            message = Message("{sweeps} sweeps run on AWS; wait for one to end", sweeps=len(there))
            raise OtherSweep(message, there[0].id)
        return
    for sweep in running:
        if not sweep.on_aws:
            message = Message(
                "sweep {sweep} runs on this machine, and two would spoil each other; wait for it "
                "to end, or end it: DELETE /v1/sweeps/{sweep}",
                sweep=sweep.id,
            )
            raise OtherSweep(message, sweep.id)
    if sweep_runs_here():
        message = Message(
            "a sweep that was started by hand or by a schedule runs on this machine, and two would "
            "spoil each other; wait for it to end"
        )
        raise OtherSweep(message, None)


def _forget_old(book: ScheduleBook, now: float) -> None:
    """Remove the oldest of those that have ended, so that the latest `KEPT` stay."""
    ended = [sweep for sweep in started_sweeps(book) if sweep.state(now) not in OPEN][KEPT:]
    if ended:
        book.runs.forget([sweep.run.number for sweep in ended])
    for sweep in ended:
        shutil.rmtree(sweep.folder, ignore_errors=True)


def _reason(run: Run, state: SweepState) -> str:
    if state is SweepState.LOST:
        return str(
            Message(
                "its process was killed, or never came up; what was measured is kept: start the "
                "same sweep again to continue"
            )
        )
    return run.note


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
