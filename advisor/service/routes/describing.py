"""/openapi.json: what can be asked, how, and what is answered."""

from __future__ import annotations

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.service.answers import JSON, cache_headers, etag_of, ground_of, not_modified
from advisor.service.openapi.describing import description

router = APIRouter(tags=["service"])


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """OpenAPI 3.1; its examples are real answers, asked once a process."""
    state = request.app.state
    if getattr(state, "openapi", None) is None:
        state.openapi = orjson.dumps(description(request.app, ground_of(request)))
    etag = etag_of(state.openapi.decode())
    if unchanged := not_modified(request, etag):
        return unchanged
    return Response(state.openapi, media_type=JSON, headers=cache_headers(etag))
