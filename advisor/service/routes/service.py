"""Routes about the service itself: health, readiness, limits, metrics, and `/mcp`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from advisor.errors import AdvisorError
from advisor.service import answers
from advisor.service.metrics import TOOL_CALLS, metrics_text, product_version
from advisor.service.problems import Problem, unknown_path, without_folders
from advisor.service.visits import needs
from advisor.store.keys import Scope

if TYPE_CHECKING:
    from advisor.agents import Document, Tool

router = APIRouter(tags=["service"])


class _Handed(Response):
    """A response that hands the whole request on to another ASGI application."""

    def __init__(self, application: Any) -> None:
        super().__init__()
        self._application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Let the application read the request and answer; the route must not have read the body."""
        await self._application(scope, receive, send)


@router.post("/mcp", include_in_schema=False, dependencies=[needs(Scope.READ)])
async def call(request: Request) -> Response:
    """Answer one message of the Model Context Protocol. It is stateless, so that any worker can answer."""
    application = getattr(request.app.state, "agents", None)
    if application is None:
        raise unknown_path("no tools for agents are served here", "start: advisor serve --mcp")
    return _Handed(application)


@asynccontextmanager
async def serving_agents(app: FastAPI) -> AsyncIterator[None]:
    """Serve tools to agents while the context is open, if settings allow; imports `mcp` only then."""
    if not app.state.settings.mcp:
        yield
        return
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from advisor.agents import tool_server

    async def answer(tool: Tool, arguments: Mapping[str, Any]) -> Document:
        state = app.state
        try:
            answered: Document = await state.threads.run(
                tool.answer, state.context, arguments, slow=tool.is_slow
            )
            return answered
        except Problem as busy:
            raise AdvisorError(busy.detail, hint=busy.hint) from None
        finally:
            TOOL_CALLS.labels(tool.name).inc()

    manager = StreamableHTTPSessionManager(
        tool_server(product_version(), answer, without_folders), json_response=True, stateless=True
    )
    async with manager.run():
        app.state.agents = manager.asgi_app
        yield


_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


# Load balancers use GET or HEAD.
@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def health() -> Response:
    """The process answers."""
    return answers.json_answer({"status": "alive", "version": product_version()})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz")
async def ready(request: Request) -> Response:
    """Whether catalogue, model and store are ready; 503 names what is missing."""
    answers.context_of(request)
    if not await request.app.state.authenticator.keys.can_be_read():
        raise Problem(503, "not-ready", "the store does not answer", hint="the log says why", retry=5)
    return answers.json_answer({"status": "ready", "version": product_version()})


@router.get("/metrics", dependencies=[needs(Scope.READ)])
def metrics() -> Response:
    """Requests by route and status, seconds and outcomes of all workers, in Prometheus' format."""
    return Response(metrics_text(), headers={"Content-Type": _METRICS_TYPE})


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """The OpenAPI 3.1 description, which `advisor.infra.build.documents` generated with real examples."""
    content, etag = _description()
    return answers.not_modified(request, etag) or answers.packed_answer(
        request, content, answers.cache_headers(etag)
    )


@cache
def _description() -> tuple[bytes, str]:
    text = (files("advisor.service") / "openapi.json").read_text(encoding="utf-8")
    return answers.packed(text.encode()), answers.etag_of(text)
