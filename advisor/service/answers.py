"""Turns documents into responses: computes them in threads, and caches the encoded bytes by ETag."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import gzip
import hashlib
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec
from anyio import CapacityLimiter, Semaphore, fail_after, to_thread
from fastapi import Request
from starlette.responses import Response

from advisor.answers.context import Context
from advisor.domain.workload import is_own_code
from advisor.errors import STILL_WANTED, SpentError
from advisor.messages import Message
from advisor.questions.question import Question
from advisor.questions.settled import today
from advisor.render.document import plain_leaf
from advisor.service.metrics import IN_PROGRESS, RECOMMENDATIONS, product_version
from advisor.service.problems import Problem, client_left
from advisor.service.settings import Settings
from advisor.service.visits import CURRENT, PATIENCE_SECONDS, Visit, visit_of

JSON = "application/json"
# Prices change a few times a day at most; after a minute a client revalidates by the ETag.
_CACHED = "private, max-age=60"
_RETRY_SECONDS = 1
# Places that one client may hold in a queue's common line, and the multiple of them that may wait in all.
_QUICK_SHARE, _SLOW_SHARE, _MOST_OF_A_CLIENT = 8, 2, 8
# For each worker; an answer has about 8 kB.
MOST_KEPT_BYTES = 32 * 1024 * 1024
_GZIP_LEVEL = 1
# `malloc_trim` of the GNU C library returns freed memory to the system; elsewhere this does nothing.
_give_back = getattr(ctypes.CDLL(None), "malloc_trim", int)
_ANY_NUMBER = CapacityLimiter(math.inf)
T = TypeVar("T")
Document = Mapping[str, Any]


class _Queue:
    """The queue for the threads of one kind. Each client has at most `share` requests in the common line; its
    further requests wait outside of it, so that one client's many questions delay nobody else."""

    def __init__(self, name: str, threads: int, share: int, most: int) -> None:
        self.name, self._share, self._most = name, share, most
        self._line, self._shares = CapacityLimiter(threads), dict[str, Semaphore]()
        self._of_clients = Counter[str]()

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait for the client's turn and hold a thread. Raises `Problem` 503 if the queue is full or slow."""
        of_client = self._of_clients[client]
        if of_client >= _MOST_OF_A_CLIENT * self._share or self._of_clients.total() > self._most:
            raise _busy()
        share = self._shares.setdefault(client, Semaphore(self._share))
        self._of_clients[client] += 1
        try:
            async with AsyncExitStack() as stack:
                try:
                    with fail_after(PATIENCE_SECONDS):
                        await stack.enter_async_context(share)
                        await stack.enter_async_context(self._line)
                except TimeoutError:
                    raise _busy() from None
                yield
        finally:
            self._of_clients[client] -= 1
            if not self._of_clients[client]:
                del self._of_clients[client], self._shares[client]


class Threads:
    """The threads of one worker process that compute answers. Nothing is computed on the event loop, because
    that would delay all other requests. Slow questions have a separate queue, so that they do not delay
    quick ones."""

    def __init__(self, settings: Settings) -> None:
        most = settings.most_waiting
        self._quick = _Queue("quick", settings.most_at_once, _QUICK_SHARE, most)
        self._slow = _Queue("slow", settings.most_slow_at_once, _SLOW_SHARE, most)
        self._collected_from = 0.0

    async def run(self, work: Callable[..., T], *arguments: Any, slow: bool = False) -> T:
        """The result of `work`. Raises `Problem` 503 if too many requests wait. If the client disconnects,
        slow work that has not begun is cancelled; work that has begun can see it by `STILL_WANTED`."""
        visit = CURRENT.get()
        if not slow:
            return await self._computed(self._quick, visit, work, *arguments)
        freed: Callable[..., T] = self._freed_after
        computed = self._computed(self._slow, visit, freed, work, *arguments)
        if visit is None or visit.receive is None:
            return await computed
        task = asyncio.create_task(computed)
        leaving = asyncio.create_task(visit.leave())
        try:
            await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not task.done():
                visit.has_left = True
                # A thread cannot be cancelled and keeps its turn until it ends.
                task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
                if not visit.is_computed:
                    task.cancel()
        if not task.done():
            raise client_left()
        return task.result()

    async def _computed(
        self, queue: _Queue, visit: Visit | None, work: Callable[..., T], *arguments: Any
    ) -> T:
        with IN_PROGRESS.labels(queue.name).track_inprogress():
            async with queue.turn(visit.client if visit else ""):
                if visit is None:
                    return await to_thread.run_sync(work, *arguments, limiter=_ANY_NUMBER)
                visit.is_computed = True
                STILL_WANTED.set(visit.still_waits)
                try:
                    return await to_thread.run_sync(work, *arguments, limiter=_ANY_NUMBER)
                except SpentError:
                    raise _busy() from None
                finally:
                    visit.is_computed = False

    def _freed_after(self, work: Callable[..., T], *arguments: Any) -> T:
        """The result of `work`. Afterwards garbage is collected (tables are in reference cycles) and freed
        memory is returned to the system (the allocator keeps fragments). A collection visits the whole
        catalogue (0.1 to 0.2 s), so these take at most a twentieth of the time."""
        try:
            return work(*arguments)
        finally:
            if (began := time.monotonic()) >= self._collected_from:
                gc.collect()
                _give_back(0)
                ended = time.monotonic()
                self._collected_from = ended + 19 * (ended - began)


def _busy() -> Problem:
    hint = Message("come back in {seconds} s", seconds=_RETRY_SECONDS)
    detail = "too many requests wait for an answer already"
    return Problem(503, "busy", detail, hint=hint, retry=_RETRY_SECONDS)


class Answered(NamedTuple):
    """A finished document, gzipped. `met`: whether an offer meets the question; `total`: a list's length."""

    packed: bytes
    met: bool | None = None
    total: int | None = None


class KeptAnswers:
    """A cache of the most recently used answers by ETag, limited to `most_bytes` in all."""

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._answers: dict[str, Answered] = {}
        self._left = most_bytes

    def get(self, etag: str) -> Answered | None:
        """The answer kept for this ETag; None if there is none (any more)."""
        answered = self._answers.pop(etag, None)
        if answered is not None:
            self._answers[etag] = answered  # now the most recently used
        return answered

    def keep(self, etag: str, answered: Answered) -> None:
        """Keep an answer, and drop the least recently used ones until all fit."""
        if self._answers.pop(etag, None) is None:
            self._left -= len(answered.packed)
        self._answers[etag] = answered
        while self._left < 0 and self._answers:
            self._left += len(self._answers.pop(next(iter(self._answers))).packed)


async def answer(
    request: Request,
    name: str,
    question: Question,
    compute: Callable[[], Awaitable[Answered]],
    more_headers: Callable[[Answered], Mapping[str, str]] = lambda _: {},
) -> Response:
    """The response to a question: 304 if the client has it, else today's kept answer or a computed one."""
    context, kept = context_of(request), request.app.state.kept
    version, day = product_version(), today().isoformat()
    etag = etag_of(version, context.catalog.fingerprint, context.model.id, name, day, repr(question))
    lasts = not is_own_code(str(getattr(question, "model", "")))
    headers = cache_headers(etag) if lasts and request.method == "GET" else {}
    if headers and (unchanged := not_modified(request, etag)):
        return unchanged
    answered = kept.get(etag)
    if answered is None:
        answered = await compute()
        if lasts and visit_of(request).still_waits():
            kept.keep(etag, answered)
    if answered.met is not None:
        RECOMMENDATIONS.labels("met" if answered.met else "not-met").inc()
    return packed_answer(request, answered.packed, {**headers, **more_headers(answered)})


def threads_of(request: Request) -> Threads:
    """The threads that compute answers in this process."""
    threads: Threads = request.app.state.threads
    return threads


def link_with(request: Request, cursor: str | int | None) -> str:
    """The URL of another page of this list, without host, so that it works behind a proxy too."""
    if cursor is None:
        url = request.url.remove_query_params("cursor")
    else:
        url = request.url.include_query_params(cursor=cursor)
    return f"{url.path}?{url.query}" if url.query else url.path


def context_of(request: Request) -> Context:
    """The data that this process loaded at its start. Raises `Problem` 503 before that."""
    context: Context | None = getattr(request.app.state, "context", None)
    if context is None:
        detail = "the catalogue is not loaded yet"
        raise Problem(503, "not-ready", detail, hint="come back in a second", retry=1)
    return context


def document_json(document: Document) -> bytes:
    """A document as JSON, with its messages in English. Slow, so it must run in a thread."""
    return msgspec.json.encode(document, enc_hook=plain_leaf)


def packed(content: bytes) -> bytes:
    """The content compressed by gzip, reproducibly (no timestamp). Slow, so it must run in a thread."""
    return gzip.compress(content, _GZIP_LEVEL, mtime=0)


def packed_answer(request: Request, content: bytes, headers: Mapping[str, str] | None) -> Response:
    """A response of JSON that `packed` compressed; unpacked for a client that does not accept gzip."""
    own = {"Vary": "Accept-Encoding", **(headers or {})}
    if "gzip" in request.headers.get("accept-encoding", ""):
        own["Content-Encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    return Response(content, media_type=JSON, headers=own)


def json_answer(content: Document, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response from a document small enough to be encoded here."""
    return Response(document_json(content), status_code=status, media_type=JSON, headers=dict(headers or {}))


def etag_of(*parts: str) -> str:
    """A strong ETag from the parts that determine the bytes of an answer."""
    return f'"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"'


def cache_headers(etag: str) -> dict[str, str]:
    """Headers that let a client cache the answer for a minute and then revalidate it by its ETag."""
    return {"ETag": etag, "Cache-Control": _CACHED}


def not_modified(request: Request, etag: str) -> Response | None:
    """A 304 response if the client has this version already (RFC 9110, 13.1.2), else None."""
    header = request.headers.get("if-none-match", "")
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    if etag not in tags and header.strip() != "*":
        return None
    return Response(status_code=304, headers=cache_headers(etag))
