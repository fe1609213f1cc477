"""/v1/sweeps: starts sweeps as separate processes, shows them, follows them live, and ends them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from advisor.errors import MeasuringError, UsageError
from advisor.runs import jobs
from advisor.runs.cloud.status import dry_run, why_not
from advisor.runs.sweep_questions import Allowed, NewSweep
from advisor.runs.sweeps.status import EventLog, trial_document
from advisor.service.answers import json_answer
from advisor.service.problems import Problem, without_folders
from advisor.service.questions import question_in_body
from advisor.service.settings import Settings
from advisor.service.stores import scheduled, stored
from advisor.service.visits import needs, require_spender, visit_of
from advisor.store.keys import Scope
from advisor.store.records import Run

router = APIRouter(prefix="/v1/sweeps", tags=["sweeps"])
PLAN = "advisor.sweep-plan/1"


def started_sweep(sweep_id: str, request: Request) -> Run:
    """The sweep with this id. Raises `Problem` 404 if there is none."""
    try:
        with scheduled(request.app.state.settings, reading=True) as book:
            return jobs.sweep_of(book, sweep_id)
    except UsageError as error:
        raise Problem(404, "unknown-sweep", error.message, hint="GET /v1/sweeps lists them") from error


@router.post("", status_code=202, dependencies=[needs(Scope.MEASURE)])
async def start(request: Request) -> Response:
    """Start a sweep; it goes on whatever becomes of the service. `dry_run` shows its plan.

    One measures on this machine at a time: another one is a 409 that names it. On AWS (`on`) it needs a
    `budget` and a key of scope admin."""
    question = await question_in_body(request, NewSweep)
    fields = msgspec.json.decode(await request.body())
    return await run_in_threadpool(started, question, fields, request)


@router.get("", dependencies=[needs(Scope.READ)])
def list_sweeps(request: Request) -> Response:
    """The latest first; and what the store tells of all that runs, by whomever it was started."""
    settings = request.app.state.settings
    with scheduled(settings, reading=True) as book:
        sweeps = book.runs.sweeps()
    with stored(settings, reading=True) as store:
        document = jobs.list_document(sweeps, store)
    return json_answer(without_folders(document))


@router.get("/{sweep_id}", dependencies=[needs(Scope.READ)])
def show(sweep_id: str, request: Request) -> Response:
    """How it stands; `status` is what `advisor sweep status -o json` tells of the same sweep."""
    sweep = started_sweep(sweep_id, request)
    with stored(request.app.state.settings, reading=True) as store:
        status = jobs.status_document(sweep, store, allowed_by(request))
    return json_answer({**_document(sweep), "status": without_folders(status)})


@router.get("/{sweep_id}/trials", dependencies=[needs(Scope.READ)])
def list_trials(sweep_id: str, request: Request) -> Response:
    """Its trials, each with its state and rate: what `advisor sweep list -o json` tells."""
    sweep = started_sweep(sweep_id, request)
    with stored(request.app.state.settings, reading=True) as store:
        document = jobs.trials_document(sweep, store, allowed_by(request))
    return json_answer(without_folders(document))


@router.delete("/{sweep_id}", status_code=202, dependencies=[needs(Scope.MEASURE)])
def stop(sweep_id: str, request: Request) -> Response:
    """End it as Ctrl-C would: what was measured is kept. Again, nothing happens."""
    sweep = started_sweep(sweep_id, request)
    visit_of(request).subject = sweep.sweep_id
    with scheduled(request.app.state.settings, reading=False) as book:
        document = _document(jobs.stop_sweep(book, sweep.sweep_id))
    return json_answer(document, 202 if document["runs"] else 200)


async def taken_seat(request: Request) -> AsyncIterator[None]:
    """A route dependency that counts a listener while it listens. `Problem` 503 above `MOST_LISTENERS`."""
    state = request.app.state
    state.listeners = getattr(state, "listeners", 0)
    if state.listeners >= MOST_LISTENERS:
        detail = f"{MOST_LISTENERS} listen here already"
        hint = "read GET /v1/sweeps/{id} now and then instead"
        raise Problem(503, "too-many-listeners", detail, hint=hint, retry=10)
    state.listeners += 1
    try:
        yield
    finally:
        state.listeners -= 1


@router.get(
    "/{sweep_id}/events",
    response_class=EventSourceResponse,
    dependencies=[needs(Scope.READ), Depends(taken_seat)],
)
async def events(
    sweep: Annotated[Run, Depends(started_sweep)],
    request: Request,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> AsyncIterator[ServerSentEvent]:
    """What happens, as it happens (Server-Sent Events): `trial_started`, `trial_done` with its rate,
    `trial_failed`, `progress`, and `end` as the last. `Last-Event-ID` goes on behind it."""
    settings = request.app.state.settings
    async for event in followed(sweep, last_event_id, settings, allowed_by(request)):
        yield event


def allowed_by(request: Request) -> Allowed:
    """The data sets and code that clients may use, as options of `advisor serve` allow them."""
    settings = request.app.state.settings
    return Allowed(data=settings.allowed_data, code=settings.allowed_code)


def started(question: NewSweep, fields: Mapping[str, Any], request: Request) -> Response:
    """Start a sweep and return its document, or its plan with `dry_run`. `fields` is the client's JSON."""
    if question.on_aws:
        require_spender(request)
    try:
        sweep = jobs.requested_sweep(question, allowed_by(request))
    except MeasuringError as error:
        raise Problem(422, "unmeasurable", error.message, hint=error.hint) from error
    if question.dry_run and question.on_aws:
        return json_answer(without_folders(dry_run(sweep.question, question.fresh_since)))
    if question.dry_run:
        trials = [trial_document(trial) for trial in sweep.trials]
        return json_answer(without_folders({"schema": PLAN, "trials": trials}))
    if question.on_aws and (reason := why_not(dry_run(sweep.question, question.fresh_since))):
        raise Problem(422, "cannot-launch", reason)
    settings = request.app.state.settings
    # Only the fields that describe the sweep; the others say how to start it.
    described = {
        name: value
        for name, value in fields.items()
        if value is not None and name not in ("dry_run", "max_minutes")
    }
    try:
        with scheduled(settings, reading=False) as book:
            sweep_now = jobs.start_sweep(
                book, sweep, described, max_minutes=question.max_minutes, database_url=settings.database_url
            )
    except jobs.OtherSweep as error:
        where = f"{router.prefix}/{error.sweep_id}" if error.sweep_id else router.prefix
        more: dict[str, Any] = {"sweep": error.sweep_id, "running": where}
        raise Problem(409, "sweep-runs", str(error), hint=f"follow it: {where}", retry=60, **more) from error
    visit_of(request).subject = sweep_now.sweep_id
    return json_answer(_document(sweep_now), 202, {"Location": _path(sweep_now)})


def _document(sweep: Run) -> dict[str, Any]:
    path = _path(sweep)
    links = {"self": path, "events": f"{path}/events", "trials": f"{path}/trials"}
    return {**without_folders(jobs.sweep_document(sweep)), "links": links}


def _path(sweep: Run) -> str:
    return f"{router.prefix}/{sweep.sweep_id}"


MOST_LISTENERS = 32
LOOK_EVERY_SECONDS = 0.5
_RETRY_MILLISECONDS = 2000
_WITH_PROGRESS = ("began", "trial_done", "trial_failed")


async def followed(
    sweep: Run, last_id: str | None, settings: Settings, allowed: Allowed
) -> AsyncIterator[ServerSentEvent]:
    """The events of a sweep after the one with id `last_id` (all if None), until the sweep has ended. The
    framework keeps a quiet connection open by a comment every 15 s."""
    # A sweep on AWS keeps its events there; here its log only reports progress.
    path = Path(sweep.log) if jobs.is_on_aws(sweep) else jobs.events_path(sweep)
    log, has_progress = EventLog(path, last_id, says=jobs.is_on_aws(sweep)), False
    yield ServerSentEvent(retry=_RETRY_MILLISECONDS, comment=f"sweep {sweep.sweep_id}")
    while True:
        # The state is read before the log, so that events written just before the end are not missed.
        sweep = await run_in_threadpool(_now, sweep, settings)
        over = jobs.sweep_state(sweep, time.time()) not in jobs.ACTIVE
        events = await run_in_threadpool(log.look)
        for event in events:
            yield ServerSentEvent(id=event.id, event=event.name, data=without_folders(event.facts))
        if any(event.name in _WITH_PROGRESS for event in events) or (over and not has_progress):
            has_progress = True
            status = await run_in_threadpool(_status, sweep, settings, allowed)
            yield ServerSentEvent(event="progress", data=without_folders(status))
        if over and not events:
            yield ServerSentEvent(event="end", data=without_folders(jobs.sweep_document(sweep)))
            return
        if not events:
            await asyncio.sleep(LOOK_EVERY_SECONDS)


def _now(sweep: Run, settings: Settings) -> Run:
    """The sweep as the database has it now; unchanged if the database is unavailable."""
    with suppress(Problem), scheduled(settings, reading=True) as book:
        return jobs.sweep_of(book, sweep.sweep_id)
    return sweep


def _status(sweep: Run, settings: Settings, allowed: Allowed) -> dict[str, Any] | None:
    try:
        with stored(settings, reading=True) as store:
            return jobs.status_document(sweep, store, allowed)
    except Problem:
        return None  # the next progress event has it
