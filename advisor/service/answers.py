"""Documents -> responses: encoded as they are, never through a model of their fields."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Request
from starlette.responses import Response

from advisor.answers.ground import Ground
from advisor.service.problems import Problem

JSON = "application/json"
# Prices change a few times a day at most; who has a page asks whether it still holds.
_CACHED = "private, max-age=60"


def ground_of(request: Request) -> Ground:
    """What this process loaded at its start; `Problem` 503 before that."""
    ground: Ground | None = getattr(request.app.state, "ground", None)
    if ground is None:
        raise Problem(503, "not-ready", "the catalogue is not loaded yet",
                      way_out="ask again in a second", headers={"Retry-After": "1"})  # fmt: skip
    return ground


def json_answer(
    document: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A document as JSON."""
    return Response(
        orjson.dumps(document), status_code=status, media_type=JSON, headers=dict(headers or {})
    )


def etag_of(*parts: str) -> str:
    """A strong ETag of what decides the bytes of an answer."""
    return f'"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"'


def cache_headers(etag: str) -> dict[str, str]:
    """That this may be kept for a minute, and asked about by its ETag."""
    return {"ETag": etag, "Cache-Control": _CACHED}


def not_modified(request: Request, etag: str) -> Response | None:
    """304 where the client has these very bytes already (RFC 9110, 13.1.2)."""
    told = request.headers.get("if-none-match", "")
    known = {one.strip().removeprefix("W/") for one in told.split(",")}
    if etag not in known and told.strip() != "*":
        return None
    return Response(status_code=304, headers=cache_headers(etag))
