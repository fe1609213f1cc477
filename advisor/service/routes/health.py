"""Whether the service is there, and whether it can answer."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.service.answers import json_answer
from advisor.service.problems import Problem

router = APIRouter(tags=["service"])


@router.get("/healthz")
async def health() -> Response:
    """The process answers."""
    return json_answer({"status": "alive"})


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """The catalogue and the performance model are loaded; 503 names what is missing."""
    if getattr(request.app.state, "ground", None) is None:
        raise Problem(503, "not-ready", "the catalogue is not loaded yet")
    return json_answer({"status": "ready"})
