"""One request over HTTP, and its answer piece by piece."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from types import SimpleNamespace
from typing import Any, NamedTuple

import aiohttp

from advisor.errors import one_line
from advisor.sweeps.measure.endpoint.address import Address, ApiKey
from advisor.sweeps.measure.endpoint.faults import (
    DONE,
    EventReader,
    Fault,
    RequestFailed,
    error_text,
    fault_of_status,
    piece_of,
)
from advisor.sweeps.measure.endpoint.records import OK, RequestRecord

_CONNECT_SECONDS = 10.0
# Servers close idle connections after 5 s (uvicorn) or more: one that is older is not used again.
_KEEPALIVE_SECONDS = 2.0
_MOST_ANSWER_BYTES, _MOST_DOCUMENT_BYTES = 64 << 20, 4 << 20
_DOCUMENT_SECONDS = 30.0
_ERROR_BYTES = 4096
_ERROR_SECONDS = 5.0
_SHOWN = 200


class Dialect(NamedTuple):
    """The route of requests, and the fields that the server takes beside the standard's: `forces_length`
    are vLLM's and SGLang's `ignore_eos` and `min_tokens`, `counts_usage` is OpenAI's `stream_options`."""

    is_chat: bool
    forces_length: bool
    counts_usage: bool

    @property
    def route(self) -> str:
        """The path after `/v1`."""
        return "/chat/completions" if self.is_chat else "/completions"

    def body(self, model: str, prompt: str, tokens: int) -> dict[str, Any]:
        """The request for so many tokens; greedy, so that runs are alike."""
        said = {"messages": [{"role": "user", "content": prompt}]} if self.is_chat else {"prompt": prompt}
        body = {"model": model, "max_tokens": tokens, "temperature": 0.0, "stream": True, **said}
        if self.forces_length:
            body |= {"ignore_eos": True, "min_tokens": tokens}
        if self.counts_usage:
            body["stream_options"] = {"include_usage": True}
        return body


async def _note_use(_session: object, trace: SimpleNamespace, _params: object) -> None:
    if trace.trace_request_ctx is not None:
        trace.trace_request_ctx.was_used = True


class Client:
    """A session with one endpoint, or with `replicas` of it, too, each of which gets as many requests.
    Redirects are not followed, and no proxy or cookie is used: what is measured is the endpoint itself."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        address: Address,
        key: ApiKey | None,
        replicas: Sequence[Address] = (),
    ) -> None:
        self._session = session
        self._key = key
        self.address = address
        self._addresses = (address, *replicas)
        self.began = time.perf_counter()

    @property
    def now_seconds(self) -> float:
        """Since the measurement began."""
        return time.perf_counter() - self.began

    async def document(self, url: str) -> Any:
        """The JSON value at a URL; `RequestFailed` where there is none."""
        # On a connection of its own: servers close one after an error of theirs, at any moment.
        headers = {**self._headers, "Connection": "close"}
        with self._failures():
            async with (
                asyncio.timeout(_DOCUMENT_SECONDS),
                self._session.get(url, headers=headers, allow_redirects=False) as answer,
            ):
                await self._require_ok(answer)
                content = b""
                async for chunk in answer.content.iter_any():
                    content += chunk
                    if len(content) > _MOST_DOCUMENT_BYTES:
                        raise RequestFailed(Fault.TOO_LARGE, f"more than {len(content)} bytes")
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            detail = self._line(content[:_SHOWN].decode(errors="replace"))
            raise RequestFailed(Fault.GARBAGE, detail) from error

    async def complete(self, body: dict[str, Any], route: str, record: RequestRecord) -> None:
        """Ask, and fill in the record as the answer comes; `RequestFailed` where it is not whole.
        Cancelled, the record keeps what came until then."""
        record.started_seconds = self.now_seconds
        address = self._addresses[record.slot % len(self._addresses)]
        try:
            with self._failures():
                async with await self._begun(address.base + route, body) as answer:
                    await self._require_ok(answer)
                    if answer.content_type != "text/event-stream":
                        detail = f"{answer.content_type}: {await self._reason(answer)}"
                        raise RequestFailed(Fault.NO_STREAM, detail, answer.status)
                    await self._read(answer, record)
            record.status = OK
        except RequestFailed as error:
            record.status, record.detail = error.fault.value, error.detail
            raise
        finally:
            record.ended_seconds = self.now_seconds

    async def _begun(self, url: str, body: dict[str, Any]) -> aiohttp.ClientResponse:
        """The beginning of an answer. llama.cpp's server ends a connection after an answer that it
        streamed, and does not say so: a request that meets such a one is sent again."""
        while True:
            connection = SimpleNamespace(was_used=False)
            try:
                return await self._session.post(
                    url, json=body, headers=self._headers, allow_redirects=False, trace_request_ctx=connection
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not connection.was_used:
                    raise

    async def _read(self, answer: aiohttp.ClientResponse, record: RequestRecord) -> None:
        """Pieces until the end; their moment is that of the bytes that end them."""
        events, size, is_whole = EventReader(), 0, False
        async for chunk in answer.content.iter_any():
            moment = self.now_seconds
            size += len(chunk)
            if size > _MOST_ANSWER_BYTES:
                raise RequestFailed(Fault.TOO_LARGE, f"more than {_MOST_ANSWER_BYTES} bytes")
            for event in events.feed(chunk):
                is_whole = _take(event, moment, record) or is_whole
        if not is_whole:
            raise RequestFailed(Fault.CUT_OFF)
        # Tokens that are no whole characters may give no piece at all; the server counts them.
        if not (record.piece_seconds or record.output_tokens):
            raise RequestFailed(Fault.EMPTY)
        if record.output_tokens is None:
            record.output_tokens = len(record.piece_seconds)

    async def _require_ok(self, answer: aiohttp.ClientResponse) -> None:
        if answer.status == 200:
            return
        if 300 <= answer.status < 400:
            target = self._line(answer.headers.get("Location", ""))
            raise RequestFailed(Fault.REDIRECTED, target, answer.status)
        raise RequestFailed(fault_of_status(answer.status), await self._reason(answer), answer.status)

    async def _reason(self, answer: aiohttp.ClientResponse) -> str:
        try:
            async with asyncio.timeout(_ERROR_SECONDS):
                content = await answer.content.read(_ERROR_BYTES)
        except (TimeoutError, aiohttp.ClientError):
            return answer.reason or ""
        with suppress(ValueError, RecursionError):
            if isinstance(document := json.loads(content), dict):
                return self._line(error_text(document))
        return self._line(content[:_SHOWN].decode(errors="replace"))

    @property
    def _headers(self) -> dict[str, str]:
        return self._key.headers if self._key else {}

    def _line(self, text: str) -> str:
        hidden = self._key.hidden_in(text) if self._key else text
        return one_line(hidden)[:_SHOWN]

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turns an error of the HTTP library into a fault."""
        try:
            yield
        except aiohttp.ClientSSLError as error:
            raise RequestFailed(Fault.TLS, self._line(str(error))) from error
        except aiohttp.ClientConnectorError as error:
            detail = error.os_error.strerror or str(error.os_error)
            raise RequestFailed(Fault.REFUSED, self._line(detail)) from error
        except (aiohttp.ConnectionTimeoutError, TimeoutError) as error:
            seconds = self._session.timeout.sock_read
            raise RequestFailed(Fault.TIMED_OUT, f"{seconds or 0:g}") from error
        except aiohttp.ClientResponseError as error:
            raise RequestFailed(Fault.GARBAGE, self._line(error.message)) from error
        except (aiohttp.ClientError, OSError) as error:
            detail = self._line(str(error) or type(error).__name__)
            raise RequestFailed(Fault.DISCONNECTED, detail) from error
        except RequestFailed as error:
            raise RequestFailed(error.fault, self._line(error.detail), error.status) from error


def _take(event: bytes, moment: float, record: RequestRecord) -> bool:
    """Add one event to the record; whether it ends the answer."""
    if event.strip() == DONE:
        return True
    piece = piece_of(event)
    if piece.has_text:
        record.piece_seconds.append(moment)
    for name in ("input_tokens", "output_tokens", "cached_tokens"):
        if (count := getattr(piece, name)) is not None:
            setattr(record, name, count)
    return piece.is_last


@asynccontextmanager
async def opened(
    address: Address, key: ApiKey | None, patience_seconds: float, replicas: Sequence[Address] = ()
) -> AsyncIterator[Client]:
    """A client whose requests fail where nothing comes for `patience_seconds`."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=patience_seconds)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS)
    uses = aiohttp.TraceConfig()
    uses.on_connection_reuseconn.append(_note_use)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
        trace_configs=[uses],
    ) as session:
        yield Client(session, address, key, replicas)
