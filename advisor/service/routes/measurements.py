"""/v1/measurements: listed page by page, imported, exported."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from advisor.service.access import Scope, needs
from advisor.service.answers import json_answer
from advisor.service.openapi.parts import described, refusals
from advisor.service.problems import Problem
from advisor.service.settings import Settings
from advisor.service.stores import stored

if TYPE_CHECKING:
    from sweeps.store.pages import Wanted

router = APIRouter(prefix="/v1/measurements", tags=["measurements"])

_MOST_REFUSED = 1000
_JSONL = "application/x-ndjson"
_TAKEN = (_JSONL, "application/jsonl", "application/json", "text/plain")
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": {kind: {"schema": {"type": "string"}} for kind in (_JSONL, "text/csv")},
    },
    **refusals(),
}
_IMPORTED = described("MeasurementsImport")
_IMPORTED[207] = {**_IMPORTED[200], "description": "Some lines were bad; the others are kept."}
_Word = Annotated[str, Field(max_length=200)]


class Which(BaseModel):
    """The filters of `advisor measurements list` and `export`."""

    model_config = ConfigDict(extra="forbid")

    model: _Word | None = None
    task: _Word | None = None
    accelerator: _Word | None = None
    status: _Word | None = None
    limited_by: _Word | None = None

    def wanted(self) -> Wanted:
        """As the store is asked; `UsageError` for a mistyped word."""
        from advisor.runs.stored.documents import wanted_from

        return wanted_from(
            {
                "network": self.model, "task": self.task, "accelerator": self.accelerator,
                "status": self.status, "limited_by": self.limited_by,
            }
        )  # fmt: skip


class Listing(Which):
    """And which page; `cursor` is what the link to the next page carries."""

    spread: bool = False
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: str | None = Field(default=None, pattern=r"^[0-9]{1,18}$")


class Export(Which):
    """And in which format."""

    format: _Word = "jsonl"


@router.get("", dependencies=[needs(Scope.READ)], responses=described("Measurements"))
def listed(asked: Annotated[Listing, Query()], request: Request) -> Response:
    """What was measured, in the order in which trials were first stored, failed ones too.

    A Link header (RFC 8288) leads to the next page as long as there is one."""
    from advisor.runs.stored.documents import list_document
    from sweeps.store.pages import page_of

    wanted = asked.wanted()
    with stored(request.app.state.settings, reading=True) as store:
        page = page_of(store, wanted, after=int(asked.cursor or 0), limit=asked.limit)
    answer = json_answer(list_document(page.stored, spread=asked.spread))
    if page.next_after is not None:
        answer.headers["Link"] = _next_link(asked, page.next_after)
    return answer


@router.get("/export", dependencies=[needs(Scope.READ)], responses=_FILE)
def export(asked: Annotated[Export, Query()], request: Request) -> Response:
    """All of it, streamed: jsonl has every raw value, csv a summary row a measurement."""
    from advisor.runs.stored.documents import FORMATS, exported
    from sweeps.store.pages import pages_of

    settings, wanted = request.app.state.settings, asked.wanted()
    exported((), asked.format)  # refuses an unknown format before anything is sent

    def pieces() -> Iterator[str]:
        with stored(settings, reading=True) as store:
            yield from exported(pages_of(store, wanted), asked.format)

    name = f"measurements.{asked.format}"
    return StreamingResponse(
        pieces(), media_type=FORMATS[asked.format],
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )  # fmt: skip


@router.post(
    "/import",
    dependencies=[needs(Scope.MEASURE)],
    responses=_IMPORTED,
    openapi_extra={
        "requestBody": {"required": True, "content": {_JSONL: {"schema": {"type": "string"}}}}
    },
)
async def import_(request: Request) -> Response:
    """Take measurements: the JSON lines of an export or of a campaign.

    All good lines are kept together, or none; again, they change nothing. 200: every line was
    good; 207: some were kept, and `refused` tells each other line by its number; 422: none was
    good, and nothing kept."""
    _refuse_foreign(request.headers.get("content-type", _JSONL))
    body = await request.body()  # whose size, time and number the guard limits
    if not body.strip():
        raise Problem(
            422, "no-measurements", "there are no lines",
            way_out="send the lines of `advisor measurements export`, one JSON object each",
        )  # fmt: skip
    document = await run_in_threadpool(_import, request.app.state.settings, body)
    if not document["refused"]:
        return json_answer(document)
    kept = sum(document[name] for name in ("added", "replaced", "known"))
    if kept:
        return json_answer(document, 207)
    first = document["refused"][0]
    raise Problem(
        422, "no-measurements", f"line {first['line']}: {first['reason']}",
        refused=document["refused"],
        way_out="send the lines of `advisor measurements export`, one JSON object each",
    )  # fmt: skip


def _import(settings: Settings, body: bytes) -> dict[str, Any]:
    from advisor.runs.stored.documents import import_document
    from sweeps.formats.importing import read_lines

    read = read_lines(io.BytesIO(body), most_refused=_MOST_REFUSED)
    with stored(settings, reading=False) as store:
        return import_document(read, store.append_all(read.measurements))


def _refuse_foreign(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _TAKEN:
        raise Problem(
            415, "unsupported-media-type", f"cannot read '{kind[:80]}'",
            way_out=f"send JSON lines as {_JSONL}",
        )  # fmt: skip


def _next_link(asked: Listing, after: int) -> str:
    words = asked.model_dump(exclude_none=True, exclude_defaults=True) | {"cursor": after}
    return f'<{router.prefix}?{urlencode(words)}>; rel="next"'
