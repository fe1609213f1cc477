"""A started sweep, followed live: each listener reads the log by itself, so that any worker serves
any of them; so many at once a worker, since each holds a connection open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.sse import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from advisor.runs.jobs.events import EventLog
from advisor.runs.jobs.records import OPEN, Job, known_job
from advisor.service.problems import Problem, without_folders
from advisor.service.settings import Settings
from advisor.service.stores import stored

if TYPE_CHECKING:
    from advisor.runs.jobs.asking import Allowed

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
            503, "too-many-listeners", f"{MOST_LISTENERS} listen here already",
            hint="read GET /v1/sweeps/{id} now and then instead",
            headers={"Retry-After": "10"},
        )  # fmt: skip
    state.listeners += 1
    try:
        yield
    finally:
        state.listeners -= 1


async def followed(
    job: Job, last_id: str | None, settings: Settings, allowed: Allowed
) -> AsyncIterator[ServerSentEvent]:
    """Its events from behind `last_id` (from the first one without) until it has ended. What keeps
    a quiet connection awake, a comment every 15 s, is the framework's."""
    from advisor.runs.jobs.standing import job_document

    # A sweep on AWS has its events there; here it says how it goes.
    path = job.talk_path if job.on_aws else job.events_path
    log, has_progress = EventLog(path, last_id, says=job.on_aws), False
    yield ServerSentEvent(retry=_RETRY_MILLISECONDS, comment=f"sweep {job.id}")
    while True:
        # Looked at before the log: what it wrote before its end is read after that.
        job = await run_in_threadpool(known_job, job.id)
        over = job.state(datetime.now(UTC)) not in OPEN
        events = await run_in_threadpool(log.look)
        for event in events:
            yield ServerSentEvent(id=event.id, event=event.name, data=without_folders(event.facts))
        if any(event.name in _WITH_PROGRESS for event in events) or (over and not has_progress):
            has_progress = True
            status = await run_in_threadpool(_status, job, settings, allowed)
            yield ServerSentEvent(event="progress", data=without_folders(status))
        if over and not events:
            yield ServerSentEvent(event="end", data=without_folders(job_document(job)))
            return
        if not events:
            await asyncio.sleep(LOOK_EVERY_SECONDS)


def _status(job: Job, settings: Settings, allowed: Allowed) -> dict[str, Any] | None:
    from advisor.runs.jobs.standing import status_document

    try:
        with stored(settings, reading=True) as store:
            return status_document(job, store, allowed)
    except Problem:
        return None  # the next one tells
