"""`/measurements`: what the store holds, with its spread, a page of it at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.domain import Accelerator, Status, Task
from advisor.errors import AdvisorError
from advisor.render.i18n.catalogue import Texts
from advisor.runs.stored.documents import list_document
from advisor.runs.stored.questions import Measurements
from advisor.service.page.frame import Frame, link
from advisor.service.page.question import trouble_view
from advisor.service.page.rendering import cut
from advisor.service.problems import Problem
from advisor.service.settings import Settings
from advisor.service.stores import stored
from advisor.store.measurements import page_of

Record = Mapping[str, Any]
# A bootstrap of each run takes milliseconds: a page of these is there in a moment.
ROWS = 40
FILTERS = ("model", "task", "accelerator", "status")
# Where the fastest spread of a group ends, in percent of a bar.
_FILLED = 96.0

router = APIRouter(include_in_schema=False)


@router.get("/measurements")
def measurements(request: Request) -> Response:
    """Rows with their rates, one scale for those of one network and task."""
    frame = Frame(request)
    words = dict(frame.words)
    try:
        values, status = _view(_document(request, words), frame), 200
    except (AdvisorError, Problem) as error:
        values, status = trouble_view(error, frame)
    anything, t = ("", frame.texts("measured.anything")), frame.texts
    values["choices"] = {
        name: [anything, *((str(value), t(f"{name}.{value}")) for value in kinds)]
        for name, kinds in (("task", Task), ("status", Status))
    }
    template = "measurement_rows.html" if frame.is_part else "measurements.html"
    return frame.page(template, status=status, **values)


def _document(request: Request, words: Mapping[str, str]) -> dict[str, Any]:
    """The document of /v1/measurements, and the cursor of the next page."""
    settings: Settings = request.app.state.settings
    filters = {
        name: Measurements.fields[name].kind.from_link([words[name]], name)
        for name in FILTERS
        if words.get(name)
    }
    wanted = Measurements(**filters).wanted()
    cursor = words.get("cursor", "0")
    after = int(cursor) if cursor.isdecimal() and len(cursor) < 19 else 0
    with stored(settings, reading=True) as store:
        page = page_of(store, wanted, after=after, limit=ROWS)
    return list_document(page.stored, spread=True) | {"next": page.next_after}


def _view(document: Record, frame: Frame) -> dict[str, Any]:
    rows = document["measurements"]
    names = list(dict.fromkeys((row["network"], row["task"]) for row in rows))
    following, words = document["next"], dict(frame.words)
    filters = {name: words[name] for name in FILTERS if name in words}
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
    """The rows of one network and task, on one scale."""
    mine = [row for row in rows if (row["network"], row["task"]) == name]
    scale = _FILLED / (max(map(_top, mine), default=0.0) or 1.0)
    return {
        "title": t("measured.group", model=cut(name[0]), task=t("task." + name[1])),
        "rows": [
            {
                **row,
                "emulated": Accelerator.parse(row["accelerator"]).is_emulated,
                "box": _box(row["spread"]["step_rates"], scale) if row["spread"] else None,
                "error": _error(row["spread"]),
            }
            for row in mine
        ],
    }


def _top(row: Record) -> float:
    """The right end of what is drawn of it; 0 where nothing is."""
    spread, rate = row["spread"], row["throughput_samples_per_second"] or 0.0
    return max(rate, spread["step_rates"]["p95"]) if spread else rate


def _box(rates: Mapping[str, float], scale: float) -> dict[str, float]:
    """Percentiles of single steps, in percent of the bar."""
    ends = {name: round(scale * rate, 2) for name, rate in rates.items()}
    return ends | {"width": round(ends["p75"] - ends["p25"], 2)}


def _error(spread: Record | None) -> float | None:
    """Half of the first run's interval over its rate; None where it has too few steps."""
    error = spread["runs"][0]["relative_error"] if spread and spread["runs"] else None
    return None if error is None else float(error)
