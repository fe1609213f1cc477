"""/v1/measurements: lists, imports and exports stored measurements."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from advisor.runs import stored_rows
from advisor.service.answers import json_answer, link_with, threads_of
from advisor.service.problems import Problem
from advisor.service.questions import question_in_link
from advisor.service.stores import stored
from advisor.service.visits import needs
from advisor.store.keys import Scope
from advisor.store.measurements import page_of, pages_of
from advisor.sweeps.formats import read_lines

router = APIRouter(prefix="/v1/measurements", tags=["measurements"])

_MOST_REFUSED = 1000
_WAY_OUT = "send the lines of `advisor measurements export`, one JSON object each"
_JSONL = "application/x-ndjson"
_TAKEN = (_JSONL, "application/jsonl", "application/json", "text/plain")


@router.get("", dependencies=[needs(Scope.READ)])
def list_measurements(request: Request) -> Response:
    """What was measured, in the order in which trials were first stored, failed ones too.

    A Link header (RFC 8288) leads to the next page as long as there is one."""
    question = question_in_link(request, stored_rows.MeasurementPage)
    with stored(request.app.state.settings, reading=True) as store:
        page = page_of(store, question.wanted(), after=question.cursor or 0, limit=question.limit)
    headers = {}
    if page.next_after is not None:
        headers["Link"] = f'<{link_with(request, page.next_after)}>; rel="next"'
    return json_answer(stored_rows.list_document(page.stored, spread=question.spread), headers=headers)


@router.get("/export", dependencies=[needs(Scope.READ)])
def export(request: Request) -> Response:
    """All of it, streamed: jsonl has every raw value, csv a summary row a measurement."""
    question, settings = question_in_link(request, stored_rows.MeasurementExport), request.app.state.settings

    def pieces() -> Iterator[str]:
        with stored(settings, reading=True) as store:
            yield from stored_rows.exported(pages_of(store, question.wanted()), question.format)

    name = f"measurements.{question.format}"
    return StreamingResponse(
        pieces(),
        media_type=stored_rows.FORMATS[question.format],
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@router.post("/import", dependencies=[needs(Scope.MEASURE)])
async def import_(request: Request) -> Response:
    """Take measurements: the JSON lines of an export or of a campaign.

    All good lines are kept together, or none; again, they change nothing. 200: every line was good; 207: some
    were kept, and `refused` tells each other line by its number; 422: none was good, and nothing kept."""
    kind = request.headers.get("content-type", _JSONL).partition(";")[0].strip().lower()
    if kind not in _TAKEN:
        hint = f"send JSON lines as {_JSONL}"
        raise Problem(415, "unsupported-media-type", f"cannot read '{kind[:80]}'", hint=hint)
    body = await request.body()
    if not body.strip():
        raise Problem(422, "no-measurements", "there are no lines", hint=_WAY_OUT)
    settings = request.app.state.settings

    def kept_document() -> dict[str, Any]:
        read = read_lines(io.BytesIO(body), most_refused=_MOST_REFUSED)
        with stored(settings, reading=False) as store:
            return stored_rows.import_document(read, store.append_all(read.measurements))

    document = await threads_of(request).run(kept_document, slow=True)
    if not document["refused"]:
        return json_answer(document)
    if any(document[name] for name in ("added", "replaced", "known")):
        return json_answer(document, 207)
    first = document["refused"][0]
    reason = f"line {first['line']}: {first['reason']}"
    raise Problem(422, "no-measurements", reason, refused=document["refused"], hint=_WAY_OUT)
