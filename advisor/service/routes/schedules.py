"""/v1/schedules: sweeps, fits and price refreshes at set times; a daemon runs them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import Response

from advisor.errors import UsageError
from advisor.places import user_folder
from advisor.service.access import Scope, audit_subject, may_spend, needs
from advisor.service.answers import json_answer
from advisor.service.openapi.parts import described, problem, refusals
from advisor.service.private import without_paths
from advisor.service.problems import Problem
from advisor.service.routes.sweep_words import SweepWords, allowed_by, wants_aws
from advisor.service.stores import scheduled

if TYPE_CHECKING:
    from advisor.runs.schedules import Checked
    from advisor.runs.store.schedules import ScheduleBook

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])
_ONE = {**described("Schedule"), **refusals(404)}
_ADDED = {
    **described("Schedule"),
    201: described("Schedule")[200],
    409: problem("Another schedule has that name."),
}
_Word = Annotated[str, Field(max_length=200)]


class RefreshWords(BaseModel):
    """Which prices of AWS are asked for, as `advisor catalog refresh` calls them."""

    model_config = ConfigDict(extra="forbid")

    region: str = Field(default="us-east-1", pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$")
    market: Literal["any", "on-demand", "spot"] = "any"
    gpu: _Word | None = None


class FitWords(BaseModel):
    """A fit of the performance model on all that the store holds; it takes no words."""

    model_config = ConfigDict(extra="forbid")


class NewScheduleWords(BaseModel):
    """When, and what: exactly one of `sweep`, `fit` and `catalog_refresh`."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "cron": "0 3 * * 1", "timezone": "Europe/Berlin", "name": "weekly",
                    "sweep": {"preset": "small"},
                }
            ]
        },
    )  # fmt: skip

    cron: _Word
    timezone: _Word = "UTC"
    name: _Word | None = None
    misfire: _Word = "run-once"
    budget_per_month: _Word | None = None
    sweep: SweepWords | None = None
    fit: FitWords | None = None
    catalog_refresh: RefreshWords | None = None

    @model_validator(mode="after")
    def _one_command(self) -> NewScheduleWords:
        given = [one for one in (self.sweep, self.fit, self.catalog_refresh) if one is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of sweep, fit and catalog_refresh")
        return self


class Shown(BaseModel):
    """How many of its latest runs are shown."""

    model_config = ConfigDict(extra="forbid")

    runs: int = Field(default=10, ge=1, le=1000)


@router.get("", dependencies=[needs(Scope.READ)], responses=described("Schedules"))
def listed(request: Request) -> Response:
    """What `advisor schedule list -o json` tells; `leader` is the daemon that runs them."""
    from advisor.runs.schedule_documents import list_document, statuses

    now = time.time()
    with scheduled(request.app.state.settings, reading=True) as book:
        leader = book.daemon.current() if book.is_ready else None
        document = list_document(book.name, statuses(book, book.all(), now), leader, now)
    return json_answer(without_paths(document))


@router.post("", status_code=201, dependencies=[needs(Scope.MEASURE)], responses=_ADDED)
def add(words: NewScheduleWords, request: Request) -> Response:
    """Keep a schedule. The same one again is there already (200); another one of its name is a
    409. A sweep on AWS needs a `budget` and a key of scope admin."""
    from advisor.runs.schedules import Times, new_schedule

    times = Times(
        cron=words.cron, timezone=words.timezone, name=words.name, misfire=words.misfire,
        budget_per_month=words.budget_per_month,
    )  # fmt: skip
    now = time.time()
    checked = _checked(words, request)
    new, _ = new_schedule(times, checked, _folder(), now)
    with scheduled(request.app.state.settings, reading=False) as book:
        known = _has(book, new.name)
        try:
            kept = book.add(new, now=now)
        except UsageError as error:
            raise _taken(new.name, str(error)) from error
        audit_subject(request, kept.name)
        answer = json_answer(_one(book, kept.name, 10), 200 if known else 201)
    answer.headers["Location"] = f"{router.prefix}/{kept.name}"
    return answer


@router.get("/{name}", dependencies=[needs(Scope.READ)], responses=_ONE)
def shown(name: str, asked: Annotated[Shown, Query()], request: Request) -> Response:
    """What `advisor schedule show -o json` tells: its runs, the fit after each, what drifted."""
    with scheduled(request.app.state.settings, reading=True) as book:
        _require(book, name)
        return json_answer(_one(book, name, asked.runs))


@router.delete(
    "/{name}", dependencies=[needs(Scope.MEASURE)], responses={**refusals(), **refusals(404)}
)
def remove(name: str, request: Request) -> Response:
    """End a schedule; a run that goes on comes to its end, and its record stays."""
    with scheduled(request.app.state.settings, reading=False) as book:
        _require(book, name)
        audit_subject(request, name)
        gone = book.remove(name, now=time.time())
        return json_answer({"removed": gone.name, "run_goes_on": book.running(gone.number)})


def _checked(words: NewScheduleWords, request: Request) -> Checked:
    from advisor.questions.values import parse_gpus
    from advisor.runs.schedules import Checked
    from advisor.runs.started_fields import scheduled_sweep

    if words.sweep is not None:
        if wants_aws(words.sweep):
            may_spend(request)
        return scheduled_sweep(words.sweep.fields(), allowed_by(request))
    if words.catalog_refresh is None:
        return Checked(("fit",))
    asked = words.catalog_refresh
    if asked.gpu is not None:
        parse_gpus(asked.gpu)
    flags = asked.model_dump(exclude_none=True, exclude_defaults=True)
    return Checked(("catalog", "refresh", *(f"--{name}={one}" for name, one in flags.items())))


def _folder() -> str:
    """Where its runs work; they name nothing in it, and every machine has one."""
    folder = user_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return str(Path(folder))


def _one(book: ScheduleBook, name: str, runs: int) -> dict[str, Any]:
    from advisor.runs.schedule_documents import one_document, statuses

    now = time.time()
    kept = book.named(name)
    (found,) = statuses(book, [kept], now)
    document = one_document(found, book.runs.of(kept.number, runs), now)
    told: dict[str, Any] = without_paths(document)
    return told


def _has(book: ScheduleBook, name: str) -> bool:
    return any(one.name == name for one in book.all())


def _require(book: ScheduleBook, name: str) -> None:
    try:
        book.named(name)
    except UsageError as error:
        raise Problem(
            404, "unknown-schedule", str(error), way_out="GET /v1/schedules lists them"
        ) from error


def _taken(name: str, detail: str) -> Problem:
    return Problem(
        409, "schedule-exists", detail.partition(";")[0],
        way_out=f"DELETE {router.prefix}/{name} first, or choose another name",
    )  # fmt: skip
