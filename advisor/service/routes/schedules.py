"""/v1/schedules: sweeps, fits and price refreshes that a daemon runs at set times."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from advisor.errors import UsageError
from advisor.files import user_folder
from advisor.runs import schedules
from advisor.runs.jobs import sweep_words
from advisor.runs.questions import ScheduleRequest, command_words
from advisor.runs.stored_rows import ScheduleDetails
from advisor.service.answers import json_answer
from advisor.service.problems import Problem, without_folders
from advisor.service.questions import question_in_body, question_in_link
from advisor.service.routes.sweeps import allowed_by
from advisor.service.stores import scheduled
from advisor.service.visits import needs, require_spender, visit_of
from advisor.store.keys import Scope
from advisor.store.records import NewSchedule, Schedule
from advisor.store.schedules import ScheduleBook

# The shortest interval for a key without scope admin; a run takes minutes to hours.
LEAST_SECONDS_BETWEEN = 3600.0
router = APIRouter(prefix="/v1/schedules", tags=["schedules"])


@router.get("", dependencies=[needs(Scope.READ)])
def list_schedules(request: Request) -> Response:
    """What `advisor schedule list -o json` tells; `leader` is the daemon that runs them."""
    now = time.time()
    with scheduled(request.app.state.settings, reading=True) as book:
        rows = [schedules.status_of(book, schedule, now) for schedule in book.all()]
        document = schedules.list_document(book.name, rows, book.leader(), now)
    return json_answer(without_folders(document))


@router.post("", status_code=201, dependencies=[needs(Scope.MEASURE)])
async def add(request: Request) -> Response:
    """Keep a schedule. The same one again is there already (200); another one of its name is a
    409. A sweep on AWS needs a `budget` and a key of scope admin."""
    return await run_in_threadpool(_add, await question_in_body(request, ScheduleRequest), request)


@router.get("/{name}", dependencies=[needs(Scope.READ)])
def show(name: str, request: Request) -> Response:
    """What `advisor schedule show -o json` tells: its runs, the fit after each, what drifted."""
    runs = question_in_link(request, ScheduleDetails).runs
    with scheduled(request.app.state.settings, reading=True) as book:
        return json_answer(_document(book, _named(book, name), runs))


@router.delete("/{name}", dependencies=[needs(Scope.MEASURE)])
def remove(name: str, request: Request) -> Response:
    """End a schedule; a run that goes on comes to its end, and its record stays."""
    with scheduled(request.app.state.settings, reading=False) as book:
        visit_of(request).subject = _named(book, name).name
        removed = book.remove(name, now=time.time())
        return json_answer({"removed": removed.name, "run_goes_on": book.running(removed.number)})


def _add(question: ScheduleRequest, request: Request) -> Response:
    now = time.time()
    command = _checked_command(question, request)
    new, due = schedules.new_schedule(question, command, _folder(), now)
    _check_pace(new, due, request)
    with scheduled(request.app.state.settings, reading=False) as book:
        is_there = any(schedule.name == new.name for schedule in book.all())
        try:
            kept = book.add(new, now=now)
        except UsageError as error:
            hint = f"DELETE {router.prefix}/{new.name} first, or choose another name"
            raise Problem(409, "schedule-exists", error.message, hint=hint) from error
        visit_of(request).subject = kept.name
        headers = {"Location": f"{router.prefix}/{kept.name}"}
        return json_answer(_document(book, kept, 10), 200 if is_there else 201, headers)


def _checked_command(question: ScheduleRequest, request: Request) -> schedules.Checked:
    parts = [question.sweep, question.fit, question.catalog_refresh]
    if sum(part is not None for part in parts) != 1:
        raise Problem(422, "invalid", "give exactly one of sweep, fit and catalog_refresh")
    if question.sweep is not None:
        if question.sweep.on_aws:
            require_spender(request)
        sweep = allowed_by(request).resolved(question.sweep)
        return schedules.checked_sweep(sweep_words(sweep), sweep)
    if question.catalog_refresh is not None:
        return schedules.Checked(("catalog", "refresh", *command_words(question.catalog_refresh)))
    return schedules.Checked(("fit",))


def _check_pace(new: NewSchedule, due: datetime, request: Request) -> None:
    """Raise `Problem` 403 for runs less than an hour apart, unless the caller has scope admin."""
    caller = visit_of(request).caller
    second = schedules.CronLine(new.cron, new.timezone).after(due)
    often = second is not None and (second - due).total_seconds() < LEAST_SECONDS_BETWEEN
    if often and (caller is None or caller.scope is not Scope.ADMIN):
        hint = "schedule it hourly at most, or use another key"
        detail = "more than once an hour needs a key of scope admin"
        raise Problem(403, "forbidden", detail, hint=hint, field="cron", scope=Scope.ADMIN.value)


def _folder() -> str:
    """The folder in which runs start: the user's data folder. `Problem` 503 if it cannot be created."""
    folder, detail = user_folder(), "the folder of the runs cannot be made"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "make the user's data directory writable"
        raise Problem(503, "folder-unwritable", detail, hint=hint) from error
    return str(folder)


def _document(book: ScheduleBook, schedule: Schedule, runs: int) -> dict[str, Any]:
    now = time.time()
    standing = schedules.status_of(book, schedule, now)
    document = schedules.one_document(standing, book.runs.latest(schedule.number, runs), now)
    shown: dict[str, Any] = without_folders(document)
    return shown


def _named(book: ScheduleBook, name: str) -> Schedule:
    try:
        return book.named(name)
    except UsageError as error:
        raise Problem(404, "unknown-schedule", error.message, hint="GET /v1/schedules lists them") from error
