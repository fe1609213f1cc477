"""What the gate, the routes and the audit log share about a request, such as its caller and needed scope."""

from __future__ import annotations

import ipaddress
import time
from contextvars import ContextVar
from typing import Any

from fastapi import Depends, Request
from msgspec import Struct, field
from starlette.datastructures import Headers
from starlette.types import Receive
from starlette.types import Scope as AsgiScope

from advisor.messages import Message
from advisor.service.problems import Problem
from advisor.store.keys import Scope

# Paths that need no key: health checks, the API's description, the login, and the page's static files.
_OPEN = frozenset(("/healthz", "/readyz", "/openapi.json", "/login", "/favicon.ico"))
_OPEN_FOLDER = "/static/"
# How long a client may wait; after that it gets what is known so far, or a refusal.
PATIENCE_SECONDS = 30.0
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Caller(Struct, frozen=True):
    """The sender of a request. `authenticated_by` is 'key' for an API key, 'session' for a page that was
    logged in with a key, and 'loopback' for anybody on this machine while the store has no keys."""

    authenticated_by: str
    scope: Scope
    key_id: str | None = None
    name: str | None = None


NEEDS_KEY = "this needs a key"
LOCAL = Caller("loopback", Scope.ADMIN)
LOCAL_READER = Caller("loopback", Scope.READ)


class Visit(Struct):
    """One request from its headers to its answer. `address` is the client's IP address, `needed` the scope
    that its route requires, `subject` the name of what it changes, `refusal` the reason for refusing it,
    `receive` the ASGI channel that reports a disconnect (None: the route reads it), and `rate_headers` the
    RateLimit headers of the answer."""

    scope: AsgiScope
    headers: Headers
    method: str
    path: str
    address: str
    caller: Caller | None = None
    needed: Scope | None = None
    subject: str | None = None
    refusal: str = ""
    receive: Receive | None = None
    began: float = field(default_factory=time.monotonic)
    has_left: bool = False
    is_computed: bool = False
    rate_headers: tuple[tuple[bytes, bytes], ...] = ()

    @classmethod
    def of(cls, scope: AsgiScope) -> Visit:
        """The visit stored in an ASGI scope; creates and stores one if there is none."""
        state = scope.setdefault("state", {})
        if "visit" not in state:
            address = (scope.get("client") or ("",))[0]
            state["visit"] = cls(scope, Headers(scope=scope), scope["method"], scope["path"], address)
        visit: Visit = state["visit"]
        return visit

    async def leave(self) -> None:
        """Wait until the client disconnects. The body must have been read before."""
        assert self.receive is not None
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def still_waits(self) -> bool:
        """Return whether the client is still connected and has waited less than `PATIENCE_SECONDS`."""
        return not self.has_left and time.monotonic() < self.began + PATIENCE_SECONDS

    @property
    def client(self) -> str:
        """The name under which limits count a client: the id of its key, or else its network."""
        return (self.caller.key_id if self.caller else None) or client_network(self.address)

    @property
    def changes(self) -> bool:
        """Return whether the request's method may change something."""
        return self.method not in _SAFE_METHODS

    @property
    def is_open(self) -> bool:
        """Return whether the request's path needs no key."""
        return self.path in _OPEN or self.path.startswith(_OPEN_FOLDER)

    @property
    def wants_page(self) -> bool:
        """Return whether a browser is opening a page, so that it can be redirected to the login."""
        is_page = not self.path.startswith("/v1") and self.path != "/metrics"
        return is_page and self.method == "GET" and "text/html" in self.headers.get("accept", "")

    @property
    def route(self) -> str | None:
        """The path template of the route that answered; None if no route did."""
        return getattr(self.scope.get("route"), "path", None)


# The visit that the current task answers.
CURRENT: ContextVar[Visit | None] = ContextVar("visit", default=None)


def client_network(address: str) -> str:
    """The network of one customer: an IPv4 address itself, or the /64 network of an IPv6 address."""
    if ":" not in address:
        return address
    try:
        number = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if number.ipv4_mapped:
        return str(number.ipv4_mapped)
    return str(ipaddress.IPv6Network((number, 64), strict=False))


def visit_of(request: Request) -> Visit:
    """The visit that a request belongs to."""
    return Visit.of(request.scope)


def needs(scope: Scope) -> Any:
    """A route dependency that raises `Problem` 401 without a caller and 403 if the caller lacks `scope`."""

    async def check(request: Request) -> None:
        require_scope(request, scope)

    check.needed_scope = scope  # type: ignore[attr-defined]  # the tests read each route's scope
    return Depends(check)


def require_scope(request: Request, scope: Scope) -> None:
    """Raise `Problem` 401 if the request has no caller, and 403 if its caller lacks `scope`."""
    visit = visit_of(request)
    visit.needed = scope
    caller = visit.caller
    if caller is None:
        raise unauthorized(NEEDS_KEY)
    if not caller.scope.allows(scope):
        name = scope.value
        raise Problem(
            403,
            "forbidden",
            Message(
                "this needs scope '{scope}'; key '{key}' has '{has}'",
                scope=name,
                key=caller.name,
                has=caller.scope.value,
            ),
            hint=Message("use another key: advisor keys add NAME --scope {scope}", scope=name),
            headers={"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{name}"'},
            scope=name,
        )


def require_spender(request: Request) -> None:
    """Raise `Problem` 403 if the caller may not spend money at a cloud; that takes a key of scope admin."""
    visit = visit_of(request)
    visit.needed, caller = Scope.ADMIN, visit.caller
    if caller is None or caller.key_id is None or caller.scope is not Scope.ADMIN:
        hint = "make one: advisor keys add NAME --scope admin"
        detail = "spending money at a cloud needs a key of scope admin, on this machine too"
        raise Problem(403, "forbidden", detail, hint=hint, scope=Scope.ADMIN.value)


def unauthorized(detail: str) -> Problem:
    """A 401 problem that says which header a client has to send."""
    hint = "send 'Authorization: Bearer adv_..'; make one: advisor keys add NAME --scope read"
    headers = {"WWW-Authenticate": 'Bearer realm="advisor"'}
    return Problem(401, "unauthorized", detail, hint=hint, headers=headers)
