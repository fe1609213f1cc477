"""The application: routes, what they stand on, and what is around each request."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response

from advisor.answers.context import Context, load_context
from advisor.engine import Preparations
from advisor.service.answers import KeptAnswers, Threads
from advisor.service.audit import AuditLog, Auditor
from advisor.service.auth import Authenticator
from advisor.service.gate import Gate, RateLimits
from advisor.service.metrics import note_start, product_version
from advisor.service.middleware import RequestMiddleware
from advisor.service.page import compare, login, names, predict, recommend, rendering
from advisor.service.page import measurements as measurements_page
from advisor.service.page import sweeps as sweeps_page
from advisor.service.page.frame import Frame
from advisor.service.problems import add_problem_handlers, answer_error
from advisor.service.routes import agents, answers, catalog, measurements, reports, schedules, service, sweeps
from advisor.service.routes.agents import serving_agents
from advisor.service.settings import Settings

# Registered in this order; one line a noun.
ROUTERS: tuple[APIRouter, ...] = (
    answers.router,
    catalog.router,
    service.router,
    measurements.router,
    sweeps.router,
    schedules.router,
    reports.router,
    agents.router,
    rendering.router,
    recommend.router,
    predict.router,
    compare.router,
    names.router,
    measurements_page.router,
    sweeps_page.router,
    login.router,
)
# Other threads than those of the answers: pages, sweeps, the store.
_OTHER_THREADS = 8
_GZIP_FROM_BYTES, _GZIP_IN_THREAD_FROM_BYTES, _GZIP_LEVEL = 1000, 8192, 5
# Garbage is rare; looking for it takes longer than a question.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000
# A thread that computes hands over to the event loop after so long.
_SWITCH_SECONDS = 0.001


def create_app(settings: Settings, context: Context | None = None) -> FastAPI:
    """The service as `settings` say; `app.state` holds them as `settings`, and the `context`, which is loaded
    when it starts, unless it is given."""
    app = FastAPI(
        title="Instance sizing advisor",
        version=product_version(),
        openapi_url=None,  # routes/service.py
        docs_url=None,  # it would load its script from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    state = app.state
    state.settings, state.context = settings, context
    state.authenticator, state.rates = Authenticator(settings), RateLimits(settings.rate_limit)
    state.auditor, state.threads = Auditor(AuditLog(settings.audit_log)), Threads(settings)
    state.probe, state.kept = service.StoreProbe(settings), KeptAnswers()
    for router in ROUTERS:
        app.include_router(router)
    add_problem_handlers(app)
    app.add_exception_handler(HTTPException, _not_found)
    # The last one added is the outermost: refusals of the gate are numbered and noted, too.
    app.add_middleware(
        GZipMiddleware,
        minimum_size=_GZIP_FROM_BYTES,
        compresslevel=_GZIP_LEVEL,
        thread_minimum_size=_GZIP_IN_THREAD_FROM_BYTES,
    )
    app.add_middleware(Gate, settings=settings, authenticator=state.authenticator, rates=state.rates)
    app.add_middleware(RequestMiddleware, settings=settings, auditor=state.auditor)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Load once what every answer needs: a worker takes no question before it can answer."""
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    sys.setswitchinterval(_SWITCH_SECONDS)
    to_thread.current_default_thread_limiter().total_tokens = _OTHER_THREADS
    context = app.state.context or await asyncio.to_thread(load_context)
    app.state.preparations = Preparations(context.catalog, context.model)
    app.state.context = context
    note_start(context.catalog.as_of)
    gc.collect()
    gc.freeze()  # what was loaded stays: the collector need not look at it again
    async with serving_agents(app):
        yield
    app.state.authenticator.keys.close()


async def _not_found(request: Request, error: Exception) -> Response:
    """A page for a browser whose link names nothing; programs get a problem document."""
    assert isinstance(error, HTTPException)
    wants_page = "text/html" in request.headers.get("accept", "")
    if error.status_code != 404 or not wants_page or request.url.path.startswith("/v1"):
        return await answer_error(request, error)
    return Frame(request).page("nowhere.html", status=404)
