"""Who may ask what: every route under /v1 names the scope that it needs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from fastapi import Depends, Request

from advisor.service.problems import Problem

_LOOPBACK = ("127.0.0.1", "::1", "testclient")


class Scope(StrEnum):
    """What a caller is allowed: to ask, to measure, to administer and to spend."""

    READ = "read"
    MEASURE = "measure"
    ADMIN = "admin"


def needs(scope: Scope) -> Any:
    """A dependency of a route: raises `Problem` 403 for a caller without the scope."""

    async def check(request: Request) -> None:
        if request.client is None or request.client.host not in _LOOPBACK:
            raise Problem(
                403, "forbidden", f"scope '{scope}' is needed", way_out="ask from this machine"
            )

    return Depends(check)
