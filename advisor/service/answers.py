"""Documents -> responses: computed in threads, encoded as they are, cached by their ETags."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from anyio import CapacityLimiter, to_thread
from fastapi import Request
from starlette.responses import Response

from advisor.answers.context import Context
from advisor.messages import Message
from advisor.service.metrics import answer_in_progress
from advisor.service.problems import Problem
from advisor.service.settings import Settings

JSON = "application/json"
# Prices change a few times a day at most; who has a page asks whether it still holds.
_CACHED = "private, max-age=60"
_RETRY_SECONDS = 1
T = TypeVar("T")
Document = Mapping[str, Any]


class Threads:
    """The threads of one worker process that compute answers: nothing is computed on the event
    loop, where all other requests would wait for it. Slow questions have a thread of their own, so
    that they keep no quick one waiting."""

    def __init__(self, settings: Settings) -> None:
        self._quick = CapacityLimiter(settings.most_at_once)
        self._slow = CapacityLimiter(settings.most_slow_at_once)
        self._most_waiting = settings.most_waiting

    async def run(self, work: Callable[..., T], *arguments: Any, slow: bool = False) -> T:
        """What `work` returns; `Problem` 503 where too many wait already."""
        limiter = self._slow if slow else self._quick
        if limiter.statistics().tasks_waiting >= self._most_waiting:
            raise Problem(
                503, "busy", "too many requests wait for an answer already",
                hint=Message("come back in {seconds} s", seconds=_RETRY_SECONDS),
                headers={"Retry-After": str(_RETRY_SECONDS)},
            )  # fmt: skip
        with answer_in_progress("slow" if slow else "quick"):
            return await to_thread.run_sync(work, *arguments, limiter=limiter)


def threads_of(request: Request) -> Threads:
    """Those of this process."""
    threads: Threads = request.app.state.threads
    return threads


def context_of(request: Request) -> Context:
    """What this process loaded at its start; `Problem` 503 before that."""
    context: Context | None = getattr(request.app.state, "context", None)
    if context is None:
        raise Problem(503, "not-ready", "the catalogue is not loaded yet",
                      hint="come back in a second", headers={"Retry-After": "1"})  # fmt: skip
    return context


def document_json(document: Document) -> bytes:
    """A document as JSON, its messages in English: computed in a thread."""
    return msgspec.json.encode(document, enc_hook=_english)


def _english(value: object) -> str:
    if isinstance(value, Message):
        return str(value)
    raise NotImplementedError


def json_answer(
    content: Document | bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """JSON that a thread encoded, or a small document."""
    body = content if isinstance(content, bytes) else document_json(content)
    return Response(body, status_code=status, media_type=JSON, headers=dict(headers or {}))


def etag_of(*parts: str) -> str:
    """A strong ETag of what decides the bytes of an answer."""
    return f'"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"'


def cache_headers(etag: str) -> dict[str, str]:
    """That this may be kept for a minute, and asked about by its ETag."""
    return {"ETag": etag, "Cache-Control": _CACHED}


def not_modified(request: Request, etag: str) -> Response | None:
    """304 where the client has these very bytes already (RFC 9110, 13.1.2)."""
    header = request.headers.get("if-none-match", "")
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    if etag not in tags and header.strip() != "*":
        return None
    return Response(status_code=304, headers=cache_headers(etag))
