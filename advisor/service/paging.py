"""Pages of a long list: opaque cursors, and the Link header of RFC 8288."""

from __future__ import annotations

import base64
import binascii
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import Request

from advisor.service.problems import Problem

MOST_PLACES = 10**7


def first_of(cursor: str | None, edition: str) -> int:
    """The place a page begins at; `Problem` 422 for a cursor of another edition of the list, and
    for what is none."""
    if cursor is None:
        return 0
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"==").decode("ascii")
        known, _, number = text.partition(":")
        first = int(number)
    except (ValueError, binascii.Error):
        raise _no_cursor("cursor is none that a Link header gave") from None
    if known != edition:
        raise _no_cursor("cursor is of an older catalogue, or of another question")
    if not 0 <= first <= MOST_PLACES:
        raise _no_cursor("cursor is none that a Link header gave")
    return first


def cursor_of(first: int, edition: str) -> str:
    """What `first_of` reads."""
    return base64.urlsafe_b64encode(f"{edition}:{first}".encode()).decode().rstrip("=")


def link_header(request: Request, first: int, count: int, edition: str, total: int) -> str:
    """`first`, `prev` and `next`, as far as there are such pages."""
    places = {"first": 0}
    if first > 0:
        places["prev"] = max(0, first - count)
    if first + count < total:
        places["next"] = first + count
    links = (f'<{_url(request, at, edition)}>; rel="{name}"' for name, at in places.items())
    return ", ".join(links)


def _url(request: Request, first: int, edition: str) -> str:
    """Relative to the service, so that it is right behind a proxy too."""
    words: list[tuple[str, Any]] = [
        pair
        for pair in parse_qsl(request.scope["query_string"].decode("ascii"), keep_blank_values=True)
        if pair[0] != "cursor"
    ]
    if first:
        words.append(("cursor", cursor_of(first, edition)))
    query = urlencode(words)
    return request.url.path + (f"?{query}" if query else "")


def _no_cursor(why: str) -> Problem:
    return Problem(422, "invalid", why, field="cursor", hint="begin again without cursor")
