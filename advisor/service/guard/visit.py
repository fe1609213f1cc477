"""One request as the guard sees it, from its headers to its answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Scope

from advisor.service.access import CALLER, NEEDED, SUBJECT, Caller
from advisor.service.guard.head import Head, head_of
from advisor.service.guard.headers import Headers

# Asked without a key: whether it lives, what can be asked, how to log in, the page's own files.
_OPEN = frozenset(("/healthz", "/readyz", "/openapi.json", "/login", "/favicon.ico"))
_OPEN_FOLDERS = ("/static/",)
_STREAMED = "/events"
VISIT = "visit"


@dataclass(slots=True)
class Visit:
    """What is known of a request; `status` once its answer has begun."""

    scope: Scope
    head: Head
    method: str
    path: str
    address: str
    began: float = field(default_factory=time.monotonic)
    caller: Caller | None = None
    status: int = 0
    more_headers: Headers = ()
    refused: str = ""

    @classmethod
    def of(cls, scope: Scope) -> Visit:
        """The visit of an ASGI scope of type http."""
        client = scope.get("client") or ("", 0)
        state = scope.setdefault("state", {})
        visit = cls(scope, head_of(scope["headers"]), scope["method"], scope["path"], client[0])
        state[VISIT] = visit
        return visit

    @property
    def is_open(self) -> bool:
        """Whether nobody has to be known for it."""
        return self.path in _OPEN or self.path.startswith(_OPEN_FOLDERS)

    @property
    def is_streamed(self) -> bool:
        """Whether its answer lasts: it waits in no line then."""
        return self.path.endswith(_STREAMED)

    @property
    def wants_page(self) -> bool:
        """Whether a browser opens a page, who can be sent to the login."""
        is_page = not self.path.startswith("/v1") and self.path != "/metrics"
        return is_page and self.method == "GET" and "text/html" in self.head.accept

    @property
    def state(self) -> dict[str, Any]:
        """What the routes see as `request.state`."""
        state: dict[str, Any] = self.scope["state"]
        return state

    def let_in(self, caller: Caller | None) -> None:
        """From here on the routes know the caller."""
        self.caller = caller
        self.state[CALLER] = caller

    @property
    def needed(self) -> Any:
        """The scope that its route needs; None where it came to no route."""
        return self.state.get(NEEDED)

    @property
    def subject(self) -> str | None:
        """What it was about: what the route says, else what stands in its path."""
        told = self.state.get(SUBJECT)
        parameters = self.scope.get("path_params") or {}
        return told or (" ".join(map(str, parameters.values())) or None)

    @property
    def route(self) -> str:
        """The route's template; the path itself where it came to none."""
        template = getattr(self.scope.get("route"), "path", None)
        return template if isinstance(template, str) else self.path
