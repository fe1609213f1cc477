"""Who may ask what: every route under /v1 names the scope that it needs.

The guard (`advisor.service.guard`) has found out who asks before a route is reached; here a route
says what that caller must be allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Depends, Request

from advisor.service.access_keys import Scope as Scope
from advisor.service.problems import Problem

# Where the guard leaves what it found, and a route what the audit log shall have.
CALLER, NEEDED, SUBJECT = "caller", "needed_scope", "audit_subject"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a key (`by` 'key', or 'session' where a page was logged in with it), or somebody
    on this machine while the store has no keys ('loopback')."""

    by: str
    scope: Scope
    key_id: str | None = None
    name: str | None = None

    @property
    def may_spend(self) -> bool:
        """Whether it may spend money at a cloud: only a key of scope admin; being on this machine
        is not enough."""
        return self.key_id is not None and self.scope is Scope.ADMIN


LOCAL = Caller("loopback", Scope.ADMIN)


def caller_of(request: Request) -> Caller | None:
    """Who asks; None where nobody is known, and the route asks for nobody."""
    caller: Caller | None = request.scope.get("state", {}).get(CALLER)
    return caller


def needs(scope: Scope) -> Any:
    """A dependency of a route: `Problem` 401 without a caller, 403 for one without the scope."""

    async def check(request: Request) -> None:
        request.scope.setdefault("state", {})[NEEDED] = scope
        caller = caller_of(request)
        if caller is None:
            raise unauthorized("this needs a key")
        if not caller.scope.allows(scope):
            raise _forbidden(scope, caller)

    check.needed_scope = scope  # type: ignore[attr-defined]  # the tests ask each route for it
    return Depends(check)


def may_spend(request: Request) -> None:
    """`Problem` 403 for a caller that may not spend money at a cloud."""
    caller = caller_of(request)
    request.scope.setdefault("state", {})[NEEDED] = Scope.ADMIN
    if caller is None or not caller.may_spend:
        raise Problem(
            403,
            "forbidden",
            "spending money at a cloud needs a key of scope admin, on this machine too",
            way_out="make one: advisor keys add NAME --scope admin",
            scope=Scope.ADMIN.value,
        )


def audit_subject(request: Request, name: str) -> None:
    """What the audit log calls the thing that is changed: a sweep's id, a schedule's name."""
    request.scope.setdefault("state", {})[SUBJECT] = name


def unauthorized(detail: str) -> Problem:
    """401 with what a client has to send."""
    return Problem(
        401,
        "unauthorized",
        detail,
        way_out="send 'Authorization: Bearer adv_..'; make one: advisor keys add NAME --scope read",
        headers={"WWW-Authenticate": 'Bearer realm="advisor"'},
    )


def _forbidden(scope: Scope, caller: Caller) -> Problem:
    return Problem(
        403,
        "forbidden",
        f"this needs scope '{scope.value}'; key '{caller.name}' has '{caller.scope.value}'",
        way_out=f"ask with another key: advisor keys add NAME --scope {scope.value}",
        headers={"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope.value}"'},
        scope=scope.value,
    )
