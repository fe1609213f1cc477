"""The application: routes, what they stand on, and what is around each request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from advisor.operations.answering.ground import ground_in_use
from advisor.service.guard.install import Guarded
from advisor.service.page import routes as page
from advisor.service.problems import add_problem_handlers
from advisor.service.routes import health, login, measurements, recommend
from advisor.service.settings import Settings

# Registered in this order; one line a noun.
ROUTERS: tuple[APIRouter, ...] = (
    health.router,
    login.router,
    recommend.router,
    measurements.router,
    page.router,
)


def create_app(settings: Settings) -> FastAPI:
    """The service as `settings` say; `app.state` holds them as `settings`, and the `ground`."""
    app = Guarded(
        title="Instance sizing advisor",
        version="1",
        openapi_url="/openapi.json",
        docs_url=None,  # it would load its script from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.settings = settings
    for router in ROUTERS:
        app.include_router(router)
    add_problem_handlers(app)
    return app


def app_of_worker() -> FastAPI:
    """What a worker process serves: the settings come by its environment."""
    return create_app(Settings.from_environment())


@asynccontextmanager
async def _lifespan(app: Guarded) -> AsyncIterator[None]:
    """Load once what every answer needs."""
    app.state.ground = ground_in_use()
    yield
    app.close_door()
