"""/v1/sweeps: started as processes of their own, looked at, followed live, ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from advisor.errors import UsageError
from advisor.runs.started import StartedSweep, sweep_of
from advisor.service.access import Scope, audit_subject, needs
from advisor.service.answers import json_answer
from advisor.service.live_events import following, taken_seat
from advisor.service.openapi.parts import described, problem, refusals
from advisor.service.private import without_paths
from advisor.service.problems import Problem
from advisor.service.routes.sweep_words import StartedWords, allowed_by, checked
from advisor.service.stores import scheduled, stored

if TYPE_CHECKING:
    from advisor.runs.started import OtherSweep
    from advisor.runs.started_fields import RequestedSweep

# What plans and starts sweeps is loaded by the first who asks for one, not at the start.
router = APIRouter(prefix="/v1/sweeps", tags=["sweeps"])
PLAN = "advisor.sweep-plan/1"


def refusals_of_one() -> dict[int | str, dict[str, Any]]:
    """What a route about one sweep may refuse."""
    return {**refusals(), **refusals(404)}


_ONE = {**described("SweepJob"), **refusals(404)}
_ENDED = {**_ONE, 202: described("SweepJob")[200]}
_STARTED: dict[int | str, dict[str, Any]] = {
    **refusals(),
    200: {"description": "The plan, with `dry_run`.",
          "content": {"application/json": {"schema": {"type": "object"}}}},
    202: {**described("SweepJob")[200], "description": "It was started; see Location."},
    409: problem("Another sweep runs on this machine; `sweep` names it."),
}  # fmt: skip


@router.post("", status_code=202, dependencies=[needs(Scope.MEASURE)], responses=_STARTED)
def start(words: StartedWords, request: Request) -> Response:
    """Start a sweep; it goes on whatever becomes of the service. `dry_run` shows its plan.

    One measures on this machine at a time: another one is a 409 that names it. On AWS (`on`) it
    needs a `budget` and a key of scope admin."""
    from advisor.runs.cloud.request import dry_run, why_not
    from advisor.runs.started import OtherSweep, start_sweep

    asked = checked(words, request)
    if words.dry_run:
        return json_answer(without_paths(_plan(asked)))
    if asked.on_aws and (reason := why_not(dry_run(asked.words))):
        raise Problem(422, "cannot-launch", reason)
    try:
        settings = request.app.state.settings
        with scheduled(settings, reading=False) as book:
            sweep = start_sweep(
                book, asked, words.fields(), max_minutes=words.max_minutes,
                database_url=settings.database_url,
            )  # fmt: skip
    except OtherSweep as error:
        raise _conflict(error) from error
    audit_subject(request, sweep.id)
    answer = json_answer(_document(sweep), 202)
    answer.headers["Location"] = _path(sweep)
    return answer


@router.get("", dependencies=[needs(Scope.READ)], responses=described("SweepJobs"))
def listed(request: Request) -> Response:
    """The latest first; and what the store tells of all that runs, by whomever it was started."""
    from advisor.runs.started import list_document, started_sweeps

    settings = request.app.state.settings
    with scheduled(settings, reading=True) as book:
        sweeps = started_sweeps(book)
    with stored(settings, reading=True) as store:
        document = list_document(sweeps, store)
    return json_answer(without_paths(document))


def _followed(sweep_id: str, request: Request) -> StartedSweep:
    return _sweep(sweep_id, request)


@router.get("/{sweep_id}", dependencies=[needs(Scope.READ)], responses=_ONE)
def shown(sweep_id: str, request: Request) -> Response:
    """How it stands; `status` is what `advisor sweep status -o json` tells of the same sweep."""
    from advisor.runs.started import status_document

    sweep = _sweep(sweep_id, request)
    with stored(request.app.state.settings, reading=True) as store:
        status = status_document(sweep, store, allowed_by(request))
    return json_answer({**_document(sweep), "status": without_paths(status)})


@router.get("/{sweep_id}/trials", dependencies=[needs(Scope.READ)], responses=refusals_of_one())
def trials(sweep_id: str, request: Request) -> Response:
    """Its trials, each with its state and rate: what `advisor sweep list -o json` tells."""
    from advisor.runs.started import trials_document

    sweep = _sweep(sweep_id, request)
    with stored(request.app.state.settings, reading=True) as store:
        document = trials_document(sweep, store, allowed_by(request))
    return json_answer(without_paths(document))


@router.delete(
    "/{sweep_id}", status_code=202, dependencies=[needs(Scope.MEASURE)], responses=_ENDED
)
def stop(sweep_id: str, request: Request) -> Response:
    """End it as Ctrl-C would: what was measured is kept. Again, nothing happens."""
    from advisor.runs.started import stop_sweep

    sweep = _sweep(sweep_id, request)
    audit_subject(request, sweep.id)
    with scheduled(request.app.state.settings, reading=False) as book:
        document = _document(stop_sweep(book, sweep.id))
    return json_answer(document, 202 if document["runs"] else 200)


@router.get(
    "/{sweep_id}/events",
    response_class=EventSourceResponse,
    dependencies=[needs(Scope.READ), Depends(taken_seat)],
    responses=refusals_of_one(),
)
async def events(
    sweep: Annotated[StartedSweep, Depends(_followed)],
    request: Request,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> AsyncIterator[ServerSentEvent]:
    """What happens, as it happens (Server-Sent Events): `trial_started`, `trial_done` with its
    rate, `trial_failed`, `progress`, and `end` as the last. `Last-Event-ID` goes on behind it."""
    settings = request.app.state.settings
    async for event in following(sweep, last_event_id, settings, allowed_by(request)):
        yield event


def _plan(asked: RequestedSweep) -> Mapping[str, Any]:
    from advisor.runs.cloud.request import dry_run
    from advisor.runs.sweeps.status import trial_document

    if asked.on_aws:
        return dry_run(asked.words)
    return {"schema": PLAN, "trials": [trial_document(trial) for trial in asked.trials]}


def _sweep(sweep_id: str, request: Request) -> StartedSweep:
    try:
        with scheduled(request.app.state.settings, reading=True) as book:
            return sweep_of(book, sweep_id)
    except UsageError as error:
        raise Problem(
            404, "unknown-sweep", str(error), way_out="GET /v1/sweeps lists them"
        ) from error


def _document(sweep: StartedSweep) -> dict[str, Any]:
    from advisor.runs.started import sweep_document

    path = _path(sweep)
    links = {"self": path, "events": f"{path}/events", "trials": f"{path}/trials"}
    return {**without_paths(sweep_document(sweep)), "links": links}


def _path(sweep: StartedSweep) -> str:
    return f"{router.prefix}/{sweep.id}"


def _conflict(error: OtherSweep) -> Problem:
    where = f"{router.prefix}/{error.sweep_id}" if error.sweep_id else router.prefix
    return Problem(
        409, "sweep-runs", str(error), sweep=error.sweep_id, running=where,
        way_out=f"follow it: {where}", headers={"Retry-After": "60"},
    )  # fmt: skip
