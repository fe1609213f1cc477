"""What the guard reads of a request's headers, in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

# Headers that a client sends once or not at all: of two it is unclear which one counts.
_ONCE = ("host", "authorization", "content-length", "origin")


@dataclass(slots=True)
class Head:
    """Values of headers, '' where they were not sent; `doubled` names one sent twice."""

    host: str = ""
    authorization: str = ""
    cookie: str = ""
    origin: str = ""
    fetch_site: str = ""
    fetch_mode: str = ""
    content_length: str = ""
    content_type: str = ""
    accept: str = ""
    forwarded: str = ""
    doubled: str = ""


_NAMES = {
    b"host": "host",
    b"authorization": "authorization",
    b"cookie": "cookie",
    b"origin": "origin",
    b"sec-fetch-site": "fetch_site",
    b"sec-fetch-mode": "fetch_mode",
    b"content-length": "content_length",
    b"content-type": "content_type",
    b"accept": "accept",
    b"forwarded": "forwarded",
    b"x-forwarded-for": "forwarded",
}
assert set(_NAMES.values()) < {one.name for one in fields(Head)}


def head_of(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """Read what counts; names are in small letters, as ASGI has them."""
    head = Head()
    for name, value in headers:
        field = _NAMES.get(name)
        if field is None:
            continue
        known = getattr(head, field)
        if known and field.replace("_", "-") in _ONCE:
            head.doubled = field.replace("_", "-")
        joined = "; " if field == "cookie" else ", "
        text = value.decode("latin-1")
        setattr(head, field, f"{known}{joined}{text}" if known else text)
    return head
