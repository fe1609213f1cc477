"""/mcp: the tools for agents over HTTP, one answer a request and nothing kept between two, so that any worker
answers any of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from advisor.errors import AdvisorError
from advisor.service.auth import needs
from advisor.service.metrics import TOOL_CALLS, product_version
from advisor.service.problems import Problem, unknown_path, without_folders
from advisor.store.keys import Scope

if TYPE_CHECKING:
    from advisor.agents.tools import Document, Tool

router = APIRouter(tags=["agents"], dependencies=[needs(Scope.READ)])


class _Handed(Response):
    """The answer of the protocol's own application."""

    def __init__(self, application: Any) -> None:
        super().__init__()
        self._application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """The request was not read yet: the application does."""
        await self._application(scope, receive, send)


@router.post("/mcp", include_in_schema=False)
async def call(request: Request) -> Response:
    """A message of the protocol, and its answer."""
    application = getattr(request.app.state, "agents", None)
    if application is None:
        raise unknown_path("no tools for agents are served here", "start: advisor serve --mcp")
    return _Handed(application)


@asynccontextmanager
async def serving_agents(app: FastAPI) -> AsyncIterator[None]:
    """The protocol for as long as the service runs; `mcp` is imported here alone."""
    if not app.state.settings.mcp:
        yield
        return
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from advisor.agents.protocol import tool_server

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
