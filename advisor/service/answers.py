"""Documents -> responses: computed in threads, encoded as they are, cached by their ETags."""

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
from advisor.messages import Message
from advisor.patience import STILL_WANTED, SpentError
from advisor.questions.question import Question
from advisor.questions.settled import today
from advisor.render.document import plain_leaf
from advisor.service.metrics import IN_PROGRESS, RECOMMENDATIONS, product_version
from advisor.service.problems import Problem, client_left
from advisor.service.settings import Settings
from advisor.service.visits import CURRENT, PATIENCE_SECONDS, Visit, visit_of

JSON = "application/json"
# Prices change a few times a day at most; who has a page asks whether it still holds.
_CACHED = "private, max-age=60"
_RETRY_SECONDS = 1
# So many of one client stand in the common line of a queue, and so many times that wait at all.
_QUICK_SHARE, _SLOW_SHARE, _MOST_OF_A_CLIENT = 8, 2, 8
# Of 8 kB each, in each worker.
MOST_KEPT_BYTES = 32 * 1024 * 1024
_GZIP_LEVEL = 1
# Of the GNU C library; others give freed memory back by themselves, or have no word for it.
_give_back = getattr(ctypes.CDLL(None), "malloc_trim", int)
_ANY_NUMBER = CapacityLimiter(math.inf)
T = TypeVar("T")
Document = Mapping[str, Any]


class _Queue:
    """The queue for a thread: each client has at most a `share` in the common line, and its others wait
    behind these, so that one client's many questions keep nobody else waiting."""

    def __init__(self, name: str, threads: int, share: int, most: int) -> None:
        self.name, self._share, self._most = name, share, most
        self._line, self._shares = CapacityLimiter(threads), dict[str, Semaphore]()
        self._of_clients = Counter[str]()

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """A thread when it is the client's turn; `Problem` 503 when too many wait, or too long."""
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
    """The threads of one worker process that compute answers: nothing is computed on the event loop, where
    all other requests would wait for it. Slow questions have a thread of their own, so that they keep no
    quick one waiting."""

    def __init__(self, settings: Settings) -> None:
        most = settings.most_waiting
        self._quick = _Queue("quick", settings.most_at_once, _QUICK_SHARE, most)
        self._slow = _Queue("slow", settings.most_slow_at_once, _SLOW_SHARE, most)
        self._left_alone: set[asyncio.Task[Any]] = set()
        self._collected_from = 0.0

    async def run(self, work: Callable[..., T], *arguments: Any, slow: bool = False) -> T:
        """The result of `work`; `Problem` 503 where too many wait already. Slow work is dropped where the
        client leaves before its turn; where it leaves later, `STILL_WANTED` says so."""
        visit = CURRENT.get()
        if not slow:
            quick: T = await self._computed(self._quick, visit, work, *arguments)
            return quick
        computed = self._computed(self._slow, visit, self._freed_after, work, *arguments)
        if visit is None or visit.receive is None:
            alone: T = await computed
            return alone
        task = asyncio.create_task(computed)
        leaving = asyncio.create_task(visit.leave())
        try:
            await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not task.done():
                visit.has_left = True
                if visit.is_computed:  # a thread ends by itself; until then its turn is not over
                    self._left_alone.add(task)
                    task.add_done_callback(self._forget)
                else:
                    task.cancel()
        if not task.done():
            raise client_left()
        done: T = task.result()
        return done

    async def _computed(
        self, queue: _Queue, visit: Visit | None, work: Callable[..., Any], *arguments: Any
    ) -> Any:
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
        """The result of `work`; then memory goes back to the system: tables and what they were made of
        hold each other until they are collected, and the allocator keeps what is free between others. It
        takes a twentieth of the time at most: a collection looks at the whole catalogue (0.1 to 0.2 s)."""
        try:
            return work(*arguments)
        finally:
            if (began := time.monotonic()) >= self._collected_from:
                gc.collect()
                _give_back(0)
                ended = time.monotonic()
                self._collected_from = ended + 19 * (ended - began)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._left_alone.discard(task)
        if not task.cancelled():
            task.exception()  # nobody is left to be told


def _busy() -> Problem:
    hint = Message("come back in {seconds} s", seconds=_RETRY_SECONDS)
    detail = "too many requests wait for an answer already"
    return Problem(503, "busy", detail, hint=hint, retry=_RETRY_SECONDS)


class Answered(NamedTuple):
    """A finished document, compressed; `met`: an offer met the question; `total`: a list's length."""

    packed: bytes
    met: bool | None = None
    total: int | None = None


class KeptAnswers:
    """The answers of every kind asked for last, by what decides their bytes; so many bytes of them."""

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._answers: dict[str, Answered] = {}
        self._left = most_bytes

    def get(self, etag: str) -> Answered | None:
        """None where it was not kept, or had to go."""
        answered = self._answers.pop(etag, None)
        if answered is not None:
            self._answers[etag] = answered  # the last one asked for is the last one to go
        return answered

    def keep(self, etag: str, answered: Answered) -> None:
        """In place of those that nobody has asked for in the longest time."""
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
    """Kept bytes of today, else what `compute` gives; 304 where the client has them."""
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
    """The threads of this process."""
    threads: Threads = request.app.state.threads
    return threads


def link_with(request: Request, cursor: str | int | None) -> str:
    """The address of another page, relative to the service, so that it is right behind a proxy too."""
    if cursor is None:
        url = request.url.remove_query_params("cursor")
    else:
        url = request.url.include_query_params(cursor=cursor)
    return f"{url.path}?{url.query}" if url.query else url.path


def context_of(request: Request) -> Context:
    """The data that this process loaded at its start; `Problem` 503 before that."""
    context: Context | None = getattr(request.app.state, "context", None)
    if context is None:
        detail = "the catalogue is not loaded yet"
        raise Problem(503, "not-ready", detail, hint="come back in a second", retry=1)
    return context


def document_json(document: Document) -> bytes:
    """A document as JSON, its messages in English: computed in a thread."""
    return msgspec.json.encode(document, enc_hook=plain_leaf)


def packed(content: bytes) -> bytes:
    """With gzip, always to the same bytes: in a thread."""
    return gzip.compress(content, _GZIP_LEVEL, mtime=0)


def packed_answer(request: Request, content: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """JSON that is `packed`, as the client takes it."""
    own = {"Vary": "Accept-Encoding", **(headers or {})}
    if "gzip" in request.headers.get("accept-encoding", ""):
        own["Content-Encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    return Response(content, media_type=JSON, headers=own)


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
    """Headers that let a client keep the answer for a minute, and ask for it by its ETag."""
    return {"ETag": etag, "Cache-Control": _CACHED}


def not_modified(request: Request, etag: str) -> Response | None:
    """304 where the client has these very bytes already (RFC 9110, 13.1.2)."""
    header = request.headers.get("if-none-match", "")
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    if etag not in tags and header.strip() != "*":
        return None
    return Response(status_code=304, headers=cache_headers(etag))
