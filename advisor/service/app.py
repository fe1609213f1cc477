"""The application: routes, what they stand on, and what is around each request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from advisor.operations.answering.ground import Ground, ground_in_use
from advisor.service.around import Around, Defects
from advisor.service.guard.install import Guarded
from advisor.service.metrics import product_version, tell_build
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
    sweeps.router,
    schedules.router,
    reports.router,
)


def create_app(settings: Settings) -> FastAPI:
    """The service as `settings` say; `app.state` holds them as `settings`, and the `ground`."""
    app = Guarded(
        title="Instance sizing advisor",
        version=product_version(),
        openapi_url=None,  # routes/describing.py
        docs_url=None,  # it would load its script from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.settings = settings
    for router in ROUTERS:
        app.include_router(router)
    add_problem_handlers(app)
    # The last one added is the outermost.
    app.add_middleware(Defects)
    app.add_middleware(Around, logs=settings.logs_requests)
    return app


def app_of_worker() -> FastAPI:
    """What a worker process serves: the settings come by its environment."""
    end_with_parent()
    return create_app(Settings.from_environment())


@asynccontextmanager
async def _lifespan(app: Guarded) -> AsyncIterator[None]:
    """Load once what every answer needs: beside the loop, so that it is alive before it is
    ready."""
    tell_build()
    loading = asyncio.create_task(_load(app))
    yield
    loading.cancel()
    app.close_door()


async def _load(app: Guarded) -> None:
    app.state.ground = await asyncio.to_thread(_loaded)


def _loaded() -> Ground:
    return ground_in_use()
