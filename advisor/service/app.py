"""The application: routes, what they stand on, and what is around each request."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from advisor.answers.ground import Ground, ground_in_use
from advisor.engine import Preparations
from advisor.service.access import Scope, needs
from advisor.service.around import Around, Defects
from advisor.service.guard.install import add_gate, close_door
from advisor.service.metrics import product_version, tell_build
from advisor.service.page import routes as page
from advisor.service.page.nowhere import add_nowhere
from advisor.service.problems import add_problem_handlers
from advisor.service.routes import (
    answers,
    catalog,
    describing,
    health,
    login,
    measurements,
    recommend,
    reports,
    schedules,
    sweeps,
)
from advisor.service.settings import Settings
from advisor.service.shortcut import Shortcut
from advisor.service.workers import end_with_parent

# Registered in this order; one line a noun.
ROUTERS: tuple[APIRouter, ...] = (
    recommend.router,
    answers.router,
    catalog.router,
    health.router,
    describing.router,
    login.router,
    measurements.router,
    page.router,
    sweeps.router,
    schedules.router,
    reports.router,
)

# Workloads whose questions are answered quickly, the last ones asked; ten megabytes each.
_PREPARED = 16
ASKED_MOST = (recommend.QUESTION, *answers.ASKED)


def create_app(settings: Settings, ground: Ground | None = None) -> FastAPI:
    """The service as `settings` say; `app.state` holds them as `settings`, and the `ground`, which
    is loaded when it starts, unless it is given."""
    app = FastAPI(
        title="Instance sizing advisor",
        version=product_version(),
        openapi_url=None,  # routes/describing.py
        docs_url=None,  # it would load its script from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.settings, app.state.ground = settings, ground
    for router in ROUTERS:
        app.include_router(router)
    add_problem_handlers(app)
    add_nowhere(app)
    # The last one added is the outermost: refusals of the gate are numbered and noted, too.
    app.add_middleware(
        Shortcut, prefix="/v1", questions=ASKED_MOST, check=needs(Scope.READ).dependency
    )
    app.add_middleware(Defects)
    add_gate(app, settings)
    app.add_middleware(Around, logs=settings.logs_requests)
    return app


def app_of_worker() -> FastAPI:
    """What a worker process serves: the settings come by its environment."""
    end_with_parent()
    return create_app(Settings.from_environment())


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Load once what every answer needs: a worker takes no question before it can answer."""
    tell_build()
    ground = app.state.ground or await asyncio.to_thread(ground_in_use)
    app.state.preparations = Preparations(ground.catalog, ground.model, _PREPARED)
    app.state.ground = ground
    gc.collect()
    gc.freeze()  # what was loaded stays: the collector need not look at it again
    yield
    close_door(app)
