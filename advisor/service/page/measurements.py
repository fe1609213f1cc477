"""The pages of stored measurements and of sweeps, with a form that starts a small sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from advisor.domain import Accelerator, Status, Task
from advisor.errors import AdvisorError
from advisor.questions.reading import from_values
from advisor.render.i18n.catalogue import Texts
from advisor.runs.jobs import status_document, sweep_document, trials_document
from advisor.runs.stored_rows import Measurements, list_document
from advisor.runs.sweep_questions import NewSweep
from advisor.service.page.frame import Frame, cut, environment, link
from advisor.service.page.question import answered, trouble_view
from advisor.service.problems import Problem, without_folders
from advisor.service.questions import form_fields
from advisor.service.routes import sweeps as api
from advisor.service.settings import Settings
from advisor.service.stores import scheduled, stored
from advisor.service.visits import require_scope, visit_of
from advisor.store.keys import Scope
from advisor.store.measurements import page_of

Record = Mapping[str, Any]
router = APIRouter(include_in_schema=False)
# The percentage of the width at which the highest rate of a group ends.
_FILLED = 96.0
WAITING = "waiting"
# Fields that do not describe what is measured.
_USUAL = ("on", "executor")


def job_view(job: Record, status: Record | None, trials: Sequence[Record], t: Texts) -> dict[str, Any]:
    """Values of `sweep_now.html`: the progress and state of a sweep, and each trial with its bar."""
    rates = [row["throughput_samples_per_second"] or 0.0 for row in trials]
    scale = _FILLED / (max(rates, default=0.0) or 1.0)
    done = len(trials) - (status["left"] if status else 0)
    running = {row["trial_id"] for row in status["running"]} if status else set()
    state = t.known("sweep.state." + job["state"], job["state"])
    return {
        "problem": None,
        "job": job,
        "done": done,
        "trials": [
            {**row, "width": round(scale * rate, 2)}
            | ({"state": "running"} if row["trial_id"] in running and row["state"] == WAITING else {})
            for row, rate in zip(trials, rates, strict=True)
        ],
        "expected_end": status["expected_end"] if status and job["runs"] else None,
        "said": t("sweep.said", state=state, done=done, planned=len(trials)),
    }


def sweep_text(job: Record) -> str:
    """The sweep's question as the form would write it; lists from the API become text ([0.5, 1]: '0.5,1')."""
    values = [value for name, value in job["asked"].items() if name not in _USUAL]
    return ", ".join(",".join(map(str, value)) if isinstance(value, list) else str(value) for value in values)


# The initial values of the form: two trials on an emulated GPU, which take a minute on an idle machine.
EXAMPLE = {
    "networks": "googlenet",
    "tasks": "inference",
    "vcpus": "0.5,1",
    "memory": "2GiB",
    "disks": "gp3",
    "accelerator": "emulated:T4",
    "max_minutes": "10",
}
FIELDS = ("networks", "tasks", "vcpus", "memory", "disks", "accelerator", "iterations")
# Sweeps of the form run on this machine only, so they need no cluster.
HERE = {"executor": "process"}


environment().filters["sweep_text"] = sweep_text


@router.get("/sweeps")
def sweeps(request: Request) -> Response:
    """The page with the list of sweeps and the form that starts one."""
    frame = Frame(request)
    return _sweeps_page(frame, {"words": EXAMPLE | dict(frame.words)}, 200)


@router.post("/sweeps")
async def start(request: Request) -> Response:
    """Start the sweep in the form and redirect to its page; show the form again if that fails."""
    frame = Frame(request)
    words = await form_fields(request)
    try:
        require_scope(request, Scope.MEASURE)
        await run_in_threadpool(_start_sweep, request, words)
    except (AdvisorError, Problem) as error:
        values, status = trouble_view(error, frame)
        values["words"] = words
        return await run_in_threadpool(_sweeps_page, frame, values, status)
    return RedirectResponse(frame.here(f"/sweeps/{visit_of(request).subject}"), 303)


@router.get("/sweeps/{job_id}")
def sweep(job_id: str, request: Request) -> Response:
    """The page of one sweep with its current state."""
    frame = Frame(request)
    values, status = answered(frame, _sweep_values, request, job_id, frame)
    template = "sweep_now.html" if frame.is_part else "sweep.html"
    return frame.page(template, status=status, **{"job": None} | values)


@router.post("/sweeps/{job_id}/stop")
async def stop(job_id: str, request: Request) -> Response:
    """End a sweep, keeping its measurements, and redirect to its page."""
    frame = Frame(request)
    try:
        require_scope(request, Scope.MEASURE)
        await run_in_threadpool(api.stop, job_id, request)
    except (AdvisorError, Problem) as error:
        values, status = trouble_view(error, frame)
        return frame.page("sweep.html", status=status, **values, job=None)
    return RedirectResponse(frame.here(f"/sweeps/{job_id}"), 303)


def _start_sweep(request: Request, words: Mapping[str, str]) -> None:
    fields = {name: words[name] for name in FIELDS if name in words} | HERE
    minutes = {name: words[name] for name in ("max_minutes",) if name in words}
    api.started(from_values(NewSweep, fields | minutes), fields, request)


def _sweep_values(request: Request, job_id: str, frame: Frame) -> dict[str, Any]:
    settings: Settings = request.app.state.settings
    may_name, sweep = api.allowed_by(request), api.started_sweep(job_id, request)
    with stored(settings, reading=True) as store:
        status = status_document(sweep, store, may_name)
        trials = trials_document(sweep, store, may_name)
    document, status = without_folders(sweep_document(sweep)), without_folders(status)
    return job_view(document, status, trials["trials"], frame.texts)


def _sweeps_page(frame: Frame, values: Mapping[str, Any], status: int) -> Response:
    shown = {"problem": None, "wrong": {}, "said": "", **values}
    with scheduled(frame.request.app.state.settings, reading=True) as book:
        sweeps = [without_folders(sweep_document(sweep)) for sweep in book.runs.sweeps()]
    return frame.page("sweeps.html", status=status, **shown, jobs=sweeps)


# Rows of one page. Each needs bootstraps of some milliseconds, so a page takes a moment.
ROWS = 40
FILTERS = ("model", "task", "accelerator", "status")


@router.get("/measurements")
def measurements(request: Request) -> Response:
    """The page of measurements, grouped by network and task; the bars of a group share a scale."""
    frame = Frame(request)
    values, status = answered(frame, _measurement_values, request, frame)
    anything, t = ("", frame.texts("measured.anything")), frame.texts
    values["choices"] = {
        name: [anything, *((str(value), t(f"{name}.{value}")) for value in kinds)]
        for name, kinds in (("task", Task), ("status", Status))
    }
    template = "measurement_rows.html" if frame.is_part else "measurements.html"
    return frame.page(template, status=status, **values)


def _measurement_values(request: Request, frame: Frame) -> dict[str, Any]:
    words = dict(frame.words)
    filters = {name: words[name] for name in FILTERS if name in words}
    fields = Measurements.fields
    wanted = Measurements(
        **{name: fields[name].kind.from_link([word], name) for name, word in filters.items()}
    )
    cursor = words.get("cursor", "0")
    after = int(cursor) if cursor.isdecimal() and len(cursor) < 19 else 0
    with stored(request.app.state.settings, reading=True) as store:
        page = page_of(store, wanted.wanted(), after=after, limit=ROWS)
    document = list_document(page.stored, spread=True)
    rows, following = document["measurements"], page.next_after
    names = list(dict.fromkeys((row["network"], row["task"]) for row in rows))
    return {
        "problem": None,
        "wrong": {},
        "said": frame.texts("measured.said", number=len(rows)),
        "groups": [_group(name, rows, frame.texts) for name in names],
        "damaged": document["damaged"],
        "next_href": frame.same("/measurements", cursor=following) if following else None,
        "exports": [
            (name, link("/v1/measurements/export", filters | {"format": name})) for name in ("jsonl", "csv")
        ],
        "filtered": bool(filters),
    }


def _group(name: tuple[str, str], rows: Sequence[Record], t: Texts) -> dict[str, Any]:
    mine = [row for row in rows if (row["network"], row["task"]) == name]
    highest = [row["throughput_samples_per_second"] or 0.0 for row in mine]
    highest += [row["spread"]["step_rates"]["p95"] for row in mine if row["spread"]]
    scale = _FILLED / (max(highest, default=0.0) or 1.0)
    return {
        "title": t("measured.group", model=cut(name[0]), task=t("task." + name[1])),
        "rows": [
            {
                **row,
                "emulated": Accelerator.parse(row["accelerator"]).is_emulated,
                "box": _percentile_box(row["spread"]["step_rates"], scale) if row["spread"] else None,
                "error": _relative_error(row["spread"]),
            }
            for row in mine
        ],
    }


def _percentile_box(rates: Mapping[str, float], scale: float) -> dict[str, float]:
    """The percentiles of the step rates as positions on the bar, in percent of its width."""
    ends = {name: round(scale * rate, 2) for name, rate in rates.items()}
    return ends | {"width": round(ends["p75"] - ends["p25"], 2)}


def _relative_error(spread: Record | None) -> float | None:
    """The relative error of the first run: half its interval over its rate. None if it has too few steps."""
    error = spread["runs"][0]["relative_error"] if spread and spread["runs"] else None
    return None if error is None else float(error)
