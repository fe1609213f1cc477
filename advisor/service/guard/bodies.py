"""Bodies: read whole, within a size and a time, and no deeper nested than anything sensible is."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive

from advisor.service.problems import Problem
from advisor.strict_json import UnfitError, check_json


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
    """`Problem` 400 for JSON that nothing here can hold: see `advisor.strict_json`."""
    try:
        check_json(body)
    except UnfitError as error:
        raise Problem(
            400,
            error.kind,
            f"the body: {error}",
            way_out="send the object that /openapi.json describes",
        ) from error


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
