"""Bodies: read whole, within a size and a time, and no deeper nested than anything sensible is."""

from __future__ import annotations

import asyncio
import json
import re

from starlette.types import Message, Receive

from advisor.service.guard.refusals import null_character
from advisor.service.problems import Problem

MOST_DEPTH = 32
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKETS = bytes(one for one in range(256) if one not in b"[]{}")
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class Gone(Exception):
    """The client went away before its body was there."""


async def read_body(
    receive: Receive, *, most_bytes: int, seconds: float, told_length: str
) -> bytes:
    """The whole body; `Problem` 413 for a longer one (before it is read, where its length is told)
    and 408 for one that takes longer. `Gone` where the client left."""
    if told_length.isdecimal() and int(told_length[:20]) > most_bytes:
        raise _too_large(most_bytes)
    try:
        async with asyncio.timeout(seconds):
            return await _collect(receive, most_bytes)
    except TimeoutError:
        raise Problem(
            408,
            "slow-body",
            f"the body was not there within {seconds:g} s",
            way_out="send it faster, or in smaller parts",
            headers={"Connection": "close"},
        ) from None


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that hands out the body once, and then what the connection tells."""
    message: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def again() -> Message:
        nonlocal message
        if message is None:
            return await receive()
        told, message = message, None
        return told

    return again


def check_body(body: bytes) -> None:
    """`Problem` 400 for JSON that is nested too deep, or has text that no database and no answer
    can hold: null characters and halves of surrogate pairs."""
    _check_depth(body)
    if b"\\u" not in body:
        return
    if b"\\u0000" in body:
        raise null_character()
    if b"\\ud" in body or b"\\uD" in body:
        _check_pairs(body)


def _check_pairs(body: bytes) -> None:
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Problem(400, "half-character", "half of a surrogate pair is no character") from None
    except (ValueError, RecursionError):
        return  # no JSON: the route says so


def _check_depth(body: bytes) -> None:
    """`Problem` 400 for JSON nested deeper than `MOST_DEPTH`. Brackets in strings do not count;
    most bodies have too few of them to be searched at all."""
    if body.count(b"[") + body.count(b"{") <= MOST_DEPTH:
        return
    depth = 0
    for bracket in _STRINGS.sub(b"", body).translate(None, _NO_BRACKETS):
        depth += _STEP[bracket]
        if depth > MOST_DEPTH:
            raise Problem(
                400,
                "too-deep",
                f"the body is nested deeper than {MOST_DEPTH} levels",
                way_out="send the flat object that /openapi.json describes",
            )


async def _collect(receive: Receive, most_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > most_bytes:
            raise _too_large(most_bytes)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_large(most_bytes: int) -> Problem:
    return Problem(
        413,
        "too-large",
        f"the body may have {most_bytes:,} bytes",
        way_out="send less at once; `advisor serve --max-body` allows more",
        # The rest of it is not read: the connection cannot be used again.
        headers={"Connection": "close"},
    )
