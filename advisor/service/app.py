"""The FastAPI application: its routes, its shared state, and the middleware around each request."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import re
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Request
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as AsgiMessage

from advisor.answers.context import Context, load_context
from advisor.engine import Preparations
from advisor.messages import Message
from advisor.service.answers import KeptAnswers, Threads
from advisor.service.audit import AuditLog, Auditor
from advisor.service.gate import Authenticator, Gate, RateLimits
from advisor.service.metrics import REQUESTS, SECONDS, note_start, product_version
from advisor.service.page import catalog as catalog_page
from advisor.service.page import compare, frame, login, predict, question, recommend
from advisor.service.page import measurements as measurements_page
from advisor.service.page.frame import Frame, styles_source
from advisor.service.problems import HANDLED, Problem, answer_error, client_left, problem_response, too_large
from advisor.service.routes import answers, catalog, measurements, reports, schedules, service, sweeps
from advisor.service.routes.service import serving_agents
from advisor.service.settings import Settings
from advisor.service.visits import CURRENT, Visit

REQUEST_ID = "x-request-id"
# Imports may come over a slow line and get more time; a login sends a hundred bytes, without a key.
BODY_SECONDS = 30.0
_BODY_SECONDS_OF = {"/v1/measurements/import": 120.0, "/login": 5.0}
_READ_BY_OTHERS = ("/mcp",)
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_NO_ROUTE = "(none)"
_LOG = logging.getLogger("advisor.service")

# Headers of every answer. They allow only our files and the page's one style sheet, no inline scripts,
# no embedding in other pages, and forms only to this service. No header opens CORS.
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; "
    f"style-src {styles_source()}; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "permissions-policy": "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), "
    "fullscreen=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), "
    "picture-in-picture=(), publickey-credentials-get=(), screen-wake-lock=(), usb=(), "
    "xr-spatial-tracking=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "server": "advisor",
}
_RAW_HEADERS = [(name.encode(), text.encode()) for name, text in SECURITY_HEADERS.items()]
_HSTS = (b"strict-transport-security", b"max-age=31536000")


class RequestMiddleware:
    """The outermost ASGI middleware: limits bodies, turns errors into problems, numbers and logs requests."""

    def __init__(self, app: ASGIApp, *, settings: Settings, auditor: Auditor) -> None:
        self._app, self._auditor, self._logs = app, auditor, settings.log_level in ("debug", "info")
        self._body_bytes = settings.most_body_bytes
        self._body_limits = {"/v1/measurements/import": settings.most_import_bytes}
        self._prefix, self._numbers = secrets.token_hex(4), itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an HTTP request; other ASGI events pass through unchanged."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0
        visit = Visit.of(scope)
        CURRENT.set(visit)
        own_id = visit.headers.get(REQUEST_ID, "")
        request_id = own_id if _ID.fullmatch(own_id) else f"{self._prefix}-{next(self._numbers):x}"

        async def send_dressed(message: AsgiMessage) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message, visit, request_id)
            await send(message)

        try:
            limited = self._limited(visit, receive)
            visit.receive = None if visit.path in _READ_BY_OTHERS else limited
            await self._app(scope, limited, send_dressed)
        except Exception as error:
            problem = _problem_of(error, visit, request_id)
            if status:  # the answer has begun and can only be aborted
                raise
            await problem_response(problem)(scope, receive, send_dressed)
        finally:
            self._record_request(visit, status, time.perf_counter() - began, request_id)

    def _limited(self, visit: Visit, receive: Receive) -> Receive:
        """`receive` with limits: it raises `Problem` 413 for a body too large and 408 for one too slow."""
        if not visit.changes:
            return receive
        most = self._body_limits.get(visit.path, self._body_bytes)
        length = visit.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > most:
            raise too_large(most)
        seconds = _BODY_SECONDS_OF.get(visit.path, BODY_SECONDS)
        deadline, size, whole = visit.began + seconds, 0, False

        async def receive_limited() -> AsgiMessage:
            nonlocal size, whole
            if whole:
                return await receive()  # only a disconnect can follow
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                detail, hint = "the body did not come in time", "send it faster, or in smaller parts"
                closing = {"Connection": "close"}
                raise Problem(408, "slow-body", detail, hint=hint, headers=closing) from None
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if size > most:
                raise too_large(most)
            return message

        return receive_limited

    def _record_request(self, visit: Visit, status: int, seconds: float, request_id: str) -> None:
        method = visit.method if visit.method in _METHODS else "OTHER"
        route = visit.route or _NO_ROUTE
        REQUESTS.labels(route, method, str(status)).inc()
        SECONDS.labels(route).observe(seconds)
        self._auditor.note(visit, status)
        if self._logs:
            facts = {
                "id": request_id,
                "method": method,
                "path": visit.path[:200],
                "status": status,
                "ms": round(1000 * seconds, 2),
                "client": visit.address or None,
            }
            _LOG.info("request", extra=facts)


def _problem_of(error: Exception, visit: Visit, request_id: str) -> Problem:
    if isinstance(error, Problem):
        visit.refusal = str(error.detail)
        return error
    if isinstance(error, ClientDisconnect):  # before the whole body arrived
        return client_left()
    _LOG.error("defect", extra={"id": request_id, "error": repr(error)}, exc_info=error)
    detail = Message("the service failed; its log has more under id {id}", id=request_id)
    return Problem(500, "defect", detail, hint="tell whoever runs it this id", id=request_id)


def _add_headers(start: AsgiMessage, visit: Visit, request_id: str) -> None:
    """Add the common headers. By default answers are not cached, or revalidated if they have an ETag."""
    headers = MutableHeaders(raw=list(start.get("headers", ())))
    headers.setdefault("cache-control", "private, no-cache" if "etag" in headers else "no-store")
    headers[REQUEST_ID] = request_id
    more = [*_RAW_HEADERS, *visit.rate_headers]
    if visit.scope.get("scheme") == "https":
        more.append(_HSTS)
    start["headers"] = headers.raw + more


# The routers, in the order in which they are registered.
ROUTERS: tuple[APIRouter, ...] = (
    answers.router,
    catalog.router,
    service.router,
    measurements.router,
    sweeps.router,
    schedules.router,
    reports.router,
    frame.router,
    recommend.router,
    predict.router,
    compare.router,
    catalog_page.router,
    question.router,
    measurements_page.router,
    login.router,
)
# Threads for work other than answers: templates, sweeps, the store.
_OTHER_THREADS = 8
_GZIP_FROM_BYTES, _GZIP_IN_THREAD_FROM_BYTES, _GZIP_LEVEL = 1000, 8192, 5
# The collector runs rarely: there is little garbage, and a collection takes longer than an answer.
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000
# How long a computing thread may keep the interpreter before the event loop gets it.
_SWITCH_SECONDS = 0.001


def create_app(settings: Settings, context: Context | None = None) -> FastAPI:
    """The service for `settings`. `app.state` holds its shared objects; `context` None is loaded at start."""
    app = FastAPI(
        title="Instance sizing advisor",
        version=product_version(),
        openapi_url=None,  # served by routes/service.py
        docs_url=None,  # it would load its script from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    state = app.state
    state.settings, state.context = settings, context
    state.authenticator, state.rates = Authenticator(settings), RateLimits(settings.rate_limit)
    state.auditor, state.threads = Auditor(AuditLog(settings.audit_log)), Threads(settings)
    state.kept = KeptAnswers()
    for router in ROUTERS:
        app.include_router(router)
    for kind in HANDLED:
        app.add_exception_handler(kind, answer_error)
    app.add_exception_handler(HTTPException, _not_found)
    # The last one added is the outermost, so it numbers and logs the refusals of the gate too.
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
    """Load the data that every answer needs before the worker accepts requests; close the keys at the end."""
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    sys.setswitchinterval(_SWITCH_SECONDS)
    to_thread.current_default_thread_limiter().total_tokens = _OTHER_THREADS
    context = app.state.context or await asyncio.to_thread(load_context)
    app.state.preparations = Preparations(context.catalog, context.model)
    app.state.context = context
    note_start(context.catalog.as_of)
    gc.collect()
    gc.freeze()  # exempts the loaded data, which stays, from collections
    async with serving_agents(app):
        yield
    app.state.authenticator.keys.close()


async def _not_found(request: Request, error: Exception) -> Response:
    """The answer to an unknown path: a page for browsers, a problem document for programs."""
    assert isinstance(error, HTTPException)
    wants_page = "text/html" in request.headers.get("accept", "")
    if error.status_code != 404 or not wants_page or request.url.path.startswith("/v1"):
        return await answer_error(request, error)
    return Frame(request).page("nowhere.html", status=404)
