"""What the guard says no with, and how much of that goes to the audit log."""

from __future__ import annotations

import math

from advisor.service.guard.rates import Buckets, Taken
from advisor.service.problems import Problem

# Strangers must not fill the disk: beyond so many a second, refusals are counted only.
_LINES_A_SECOND, _LINES_AT_ONCE = 10.0, 100.0


def unknown_host(host: str) -> Problem:
    """A name that is not ours: see `origins`."""
    return Problem(
        421,
        "unknown-host",
        f"this service is not called '{host[:100]}'",
        way_out="ask localhost, or start it with --public-host NAME",
    )


def foreign_page() -> Problem:
    """A request that another site's page sent."""
    return Problem(
        403,
        "foreign-origin",
        "a browser sent this from another site's page",
        way_out="ask from the page of this service, or from a program",
    )


def forwarded_stranger() -> Problem:
    """A proxy hands on requests while there are no keys."""
    return Problem(
        403,
        "forwarded",
        "a proxy forwards this to a service without keys",
        way_out="make one: advisor keys add NAME --scope read",
    )


def keys_unknown() -> Problem:
    """The store cannot be read."""
    return Problem(
        503,
        "keys-unreadable",
        "the store of keys cannot be read at the moment",
        headers={"Retry-After": "5"},
    )


def doubled_header(name: str) -> Problem:
    """Two values where one counts."""
    return Problem(400, "doubled-header", f"header '{name}' was sent twice")


def null_character() -> Problem:
    """No name has one; programs disagree about what stands behind it."""
    return Problem(400, "null-character", "a null character has no place in a request")


def too_often(taken: Taken, policy: str) -> Problem:
    """429, and when to come again."""
    seconds = max(1, math.ceil(taken.wait_seconds))
    return Problem(
        429,
        "too-often",
        f"asked more often than allowed ({policy})",
        way_out=f"ask again after {seconds} s; `advisor serve --rate-limit` allows more",
        headers={"Retry-After": str(seconds)},
    )


class Counted:
    """Lets so many refusals onto the log, and counts the others."""

    def __init__(self) -> None:
        self._bucket = Buckets(_LINES_A_SECOND, _LINES_AT_ONCE)
        self._left_out = 0

    def may_write(self, now: float) -> bool:
        """Whether there is a line for one more at `now` (monotonic seconds)."""
        allowed = self._bucket.take("log", now).allowed
        self._left_out += not allowed
        return allowed

    def left_out(self) -> int:
        """How many have no line since this was asked last."""
        count, self._left_out = self._left_out, 0
        return count
