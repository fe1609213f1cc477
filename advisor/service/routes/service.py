"""Whether the service is there, whether it can answer, what it takes, and what it counted."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from contextlib import closing
from functools import cache
from importlib.resources import files

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.service.answers import (
    cache_headers,
    context_of,
    etag_of,
    json_answer,
    not_modified,
    packed,
    packed_answer,
)
from advisor.service.auth import needs
from advisor.service.metrics import metrics_text, product_version
from advisor.service.openapi import described, refusals
from advisor.service.problems import Problem
from advisor.service.settings import Settings
from advisor.store.keys import Scope
from advisor.store.measurements import SqlStore

router = APIRouter(tags=["service"])
_STORE_PATIENCE_SECONDS = 2.0
# A probe of Kubernetes waits for a second, unless it is told to wait longer.
_PROBED_EVERY_SECONDS = _PROBE_SECONDS = 1.0
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METRICS = {
    200: {
        "description": "Counters and histograms.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    },
    **refusals(401, 403, 429, 500, 503),
}
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
    """The catalogue and the performance model are loaded, and the store answers; 503 names what is
    missing."""
    context_of(request)
    if not await request.app.state.probe.answers():
        raise Problem(
            503,
            "not-ready",
            "the store does not answer",
            hint="the log says why",
            headers={"Retry-After": "5"},
        )
    return json_answer({"status": "ready", "version": product_version()})


@router.get("/metrics", responses=_METRICS, dependencies=[needs(Scope.READ)])
def metrics() -> Response:
    """Requests by route and status, their seconds, recommendations by outcome, in Prometheus' text format; of
    all workers together."""
    return Response(metrics_text(), headers={"Content-Type": _METRICS_TYPE})


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """OpenAPI 3.1, as `advisor.infra.build.documents` wrote it; its examples are real answers."""
    content, etag = _description()
    return not_modified(request, etag) or packed_answer(request, content, cache_headers(etag))


@cache
def _description() -> tuple[bytes, str]:
    text = (files("advisor.service") / "openapi.json").read_text(encoding="utf-8")
    return packed(text.encode()), etag_of(text)


class StoreProbe:
    """Whether the store answers, tried once a second at most however many ask, on a thread of its own, which
    a store that hangs holds for itself."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.database_url
        self._thread = CapacityLimiter(1)
        self._tried_at = -math.inf
        self._trying: asyncio.Task[bool] | None = None

    async def answers(self) -> bool:
        """Whether it answered within the last second; False where asking takes too long."""
        old = time.monotonic() - self._tried_at > _PROBED_EVERY_SECONDS
        if self._trying is None or (old and self._trying.done()):
            self._tried_at = time.monotonic()
            self._trying = asyncio.create_task(self._try())
        try:
            return await asyncio.wait_for(asyncio.shield(self._trying), _PROBE_SECONDS)
        except TimeoutError:
            return False

    async def _try(self) -> bool:
        try:
            await to_thread.run_sync(require_store, self._url, limiter=self._thread)
        except Exception as error:
            _LOG.warning("the store does not answer: %s", error)
            return False
        return True


def require_store(url: str | None) -> None:
    """Returns where the database answers (a file that is not there yet is made when it is needed); raises
    what says why it does not."""
    with closing(SqlStore(url, reading=True, patience_seconds=_STORE_PATIENCE_SECONDS)):
        pass
