"""A started sweep, followed live: each listener reads the log by itself, so that any worker serves
any of them; so many at once a worker, since each holds a connection open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.sse import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from advisor.runs.events import EventLog
from advisor.runs.started import OPEN, StartedSweep, sweep_of
from advisor.service.problems import Problem, without_folders
from advisor.service.settings import Settings
from advisor.service.stores import scheduled, stored

if TYPE_CHECKING:
    from advisor.runs.sweep_questions import Allowed

MOST_LISTENERS = 32
LOOK_EVERY_SECONDS = 0.5
_RETRY_MILLISECONDS = 2000
_WITH_PROGRESS = ("began", "trial_done", "trial_failed")


async def taken_seat(request: Request) -> AsyncIterator[None]:
    """A dependency: one of this worker's seats for listeners, given back when the client has gone
    or all is told. `Problem` 503 where none is free."""
    state = request.app.state
    state.listeners = getattr(state, "listeners", 0)
    if state.listeners >= MOST_LISTENERS:
        raise Problem(
            503,
            "too-many-listeners",
            f"{MOST_LISTENERS} listen here already",
            hint="read GET /v1/sweeps/{id} now and then instead",
            headers={"Retry-After": "10"},
        )
    state.listeners += 1
    try:
        yield
    finally:
        state.listeners -= 1


async def followed(
    sweep: StartedSweep, last_id: str | None, settings: Settings, allowed: Allowed
) -> AsyncIterator[ServerSentEvent]:
    """Its events from behind `last_id` (from the first one without) until it has ended. What keeps
    a quiet connection awake, a comment every 15 s, is the framework's."""
    from advisor.runs.started import sweep_document

    # A sweep on AWS has its events there; here it says how it goes.
    path = sweep.talk_path if sweep.on_aws else sweep.events_path
    log, has_progress = EventLog(path, last_id, says=sweep.on_aws), False
    yield ServerSentEvent(retry=_RETRY_MILLISECONDS, comment=f"sweep {sweep.id}")
    while True:
        # Looked at before the log: what it wrote before its end is read after that.
        sweep = await run_in_threadpool(_now, sweep, settings)
        over = sweep.state(time.time()) not in OPEN
        events = await run_in_threadpool(log.look)
        for event in events:
            yield ServerSentEvent(id=event.id, event=event.name, data=without_folders(event.facts))
        if any(event.name in _WITH_PROGRESS for event in events) or (over and not has_progress):
            has_progress = True
            status = await run_in_threadpool(_status, sweep, settings, allowed)
            yield ServerSentEvent(event="progress", data=without_folders(status))
        if over and not events:
            yield ServerSentEvent(event="end", data=without_folders(sweep_document(sweep)))
            return
        if not events:
            await asyncio.sleep(LOOK_EVERY_SECONDS)


def _now(sweep: StartedSweep, settings: Settings) -> StartedSweep:
    """As its row is now; as it was last where the database is away."""
    with suppress(Problem), scheduled(settings, reading=True) as book:
        return sweep_of(book, sweep.id)
    return sweep


def _status(sweep: StartedSweep, settings: Settings, allowed: Allowed) -> dict[str, Any] | None:
    from advisor.runs.started import status_document

    try:
        with stored(settings, reading=True) as store:
            return status_document(sweep, store, allowed)
    except Problem:
        return None  # the next one tells
