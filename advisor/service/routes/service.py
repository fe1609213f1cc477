"""Whether the service is there, whether it can answer, what it takes, and what it counted."""

from __future__ import annotations

import logging
from contextlib import closing

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.service.access import Scope, needs
from advisor.service.answers import (
    cache_headers,
    context_of,
    etag_of,
    json_answer,
    not_modified,
    threads_of,
)
from advisor.service.metrics import metrics_text, product_version
from advisor.service.openapi import described, description, refusals
from advisor.service.problems import Problem

router = APIRouter(tags=["service"])
_STORE_PATIENCE_SECONDS = 2.0
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METRICS = {
    200: {"description": "Counters and histograms.",
          "content": {"text/plain": {"schema": {"type": "string"}}}},
    **refusals(401, 403, 429, 500, 503),
}  # fmt: skip
_LOG = logging.getLogger("advisor.service")


# Load balancers use either method.
@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", responses=described("Health"))
async def health() -> Response:
    """The process answers."""
    return json_answer({"status": "alive", "version": product_version()})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", responses=described("Health"))
async def ready(request: Request) -> Response:
    """The catalogue and the performance model are loaded, and the store answers; 503 names what
    is missing."""
    context_of(request)
    try:
        await threads_of(request).run(require_store, request.app.state.settings.database_url)
    except Problem:
        raise
    except Exception as error:
        _LOG.warning("the store does not answer: %s", error)
        raise Problem(503, "not-ready", "the store does not answer", hint="the log says why",
                      headers={"Retry-After": "5"}) from None  # fmt: skip
    return json_answer({"status": "ready", "version": product_version()})


@router.get("/metrics", responses=_METRICS, dependencies=[needs(Scope.READ)])
def metrics() -> Response:
    """Requests by route and status, their seconds, recommendations by outcome, in Prometheus'
    text format; of all workers together."""
    return Response(metrics_text(), headers={"Content-Type": _METRICS_TYPE})


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """OpenAPI 3.1; its examples are real answers, computed once a process."""
    state = request.app.state
    if getattr(state, "openapi", None) is None:
        state.openapi = msgspec.json.encode(description(request.app, context_of(request)))
    etag = etag_of(state.openapi.decode())
    if unchanged := not_modified(request, etag):
        return unchanged
    return json_answer(state.openapi, headers=cache_headers(etag))


def require_store(url: str | None) -> None:
    """Returns where the database answers (a file that is not there yet is made when it is needed);
    raises what says why it does not."""
    from advisor.sweeps.store import SqlStore, default_database_url

    name = url or default_database_url()
    with closing(SqlStore(name, reading=True, patience_seconds=_STORE_PATIENCE_SECONDS)):
        pass
