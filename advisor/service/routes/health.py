"""Whether the service is there, whether it can answer, and what it counted."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.service.access import Scope, needs
from advisor.service.answers import ground_of, json_answer
from advisor.service.asking import slowly
from advisor.service.metrics import metrics_text, product_version
from advisor.service.openapi.parts import described, refusals
from advisor.service.problems import Problem
from advisor.service.store_check import require_store

router = APIRouter(tags=["service"])
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_METRICS = {
    200: {"description": "Counters and histograms.",
          "content": {"text/plain": {"schema": {"type": "string"}}}},
    **refusals(401, 403, 429, 500, 503),
}  # fmt: skip


# Load balancers ask with either.
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
    ground_of(request)
    try:
        await slowly(require_store, request.app.state.settings.database_url)
    except Exception as error:
        raise Problem(503, "not-ready", f"the store does not answer: {error}",
                      headers={"Retry-After": "5"}) from None  # fmt: skip
    return json_answer({"status": "ready", "version": product_version()})


@router.get("/metrics", responses=_METRICS, dependencies=[needs(Scope.READ)])
def metrics() -> Response:
    """Requests by route and status, their seconds, recommendations by outcome, in Prometheus'
    text format; of all workers together."""
    return Response(metrics_text(), headers={"Content-Type": _TEXT})
