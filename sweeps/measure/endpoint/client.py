"""Sends requests over HTTP, and reads their answers piece by piece."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import aiohttp
from aiohttp import ClientSession
from aiohttp.http_exceptions import LineTooLong

from advisor.errors import one_line
from advisor.sweeps.measure.endpoint.protocol import (
    SHOWN,
    Address,
    ApiKey,
    Fault,
    RequestFailed,
    error_text,
    piece_of,
)
from advisor.sweeps.measure.endpoint.records import OK, RequestRecord

_CONNECT_SECONDS = 10.0
# Servers close idle connections after 5 s (uvicorn) or more, so an older one is not used again.
_KEEPALIVE_SECONDS = 2.0
_MOST_ANSWER_BYTES, _MOST_DOCUMENT_BYTES, _ERROR_BYTES = 64 << 20, 4 << 20, 4096
_DOCUMENT_SECONDS, _ERROR_SECONDS = 30.0, 5.0
_STATUS_FAULTS = {
    401: Fault.UNAUTHORISED,
    403: Fault.UNAUTHORISED,
    404: Fault.NOT_FOUND,
    405: Fault.NOT_FOUND,
    429: Fault.RATE_LIMITED,
}


class Dialect(NamedTuple):
    """The route of requests, and the optional fields that the server takes: `forces_length` for vLLM's and
    SGLang's `ignore_eos` and `min_tokens`, `counts_usage` for OpenAI's `stream_options`."""

    is_chat: bool
    forces_length: bool
    counts_usage: bool

    @property
    def route(self) -> str:
        """The path after `/v1`."""
        return "/chat/completions" if self.is_chat else "/completions"

    def body(self, model: str, prompt: str, tokens: int) -> dict[str, Any]:
        """The body of a request for so many tokens; decoding is greedy, so that runs are comparable."""
        said = {"messages": [{"role": "user", "content": prompt}]} if self.is_chat else {"prompt": prompt}
        body = {"model": model, "max_tokens": tokens, "temperature": 0.0, "stream": True, **said}
        if self.forces_length:
            body |= {"ignore_eos": True, "min_tokens": tokens}
        if self.counts_usage:
            body["stream_options"] = {"include_usage": True}
        return body


class Client:
    """A session with an endpoint and its `replicas`, over which requests are spread evenly. It follows no
    redirects and uses no proxy or cookies, so that it measures the endpoint itself."""

    def __init__(
        self, session: ClientSession, address: Address, key: ApiKey | None, replicas: Sequence[Address] = ()
    ) -> None:
        self._session, self._key = session, key
        self._headers = key.headers if key else {}
        self.address = address
        self._addresses = (address, *replicas)
        self._began = time.perf_counter()

    @property
    def now_seconds(self) -> float:
        """Seconds since the measurement began."""
        return time.perf_counter() - self._began

    async def document(self, url: str) -> Any:
        """The JSON value at a URL. Raises `RequestFailed` if there is none."""
        # Uses a separate connection, as servers close one at any moment after an error.
        headers = {**self._headers, "Connection": "close"}
        with self._failures(_DOCUMENT_SECONDS):
            async with (
                asyncio.timeout(_DOCUMENT_SECONDS),
                self._session.get(url, headers=headers, allow_redirects=False) as answer,
            ):
                await _require_ok(answer)
                content = b""
                async for chunk in answer.content.iter_any():
                    content += chunk
                    if len(content) > _MOST_DOCUMENT_BYTES:
                        raise RequestFailed(Fault.TOO_LARGE, f"more than {len(content)} bytes")
            try:
                return json.loads(content)
            except (ValueError, RecursionError) as error:
                raise RequestFailed(Fault.GARBAGE, content[:SHOWN].decode(errors="replace")) from error

    async def complete(self, body: dict[str, Any], route: str, record: RequestRecord) -> None:
        """Send a request, and fill in the record while the answer arrives. Raises `RequestFailed` if it is
        not whole. After a cancellation the record keeps the pieces so far."""
        record.started_seconds = self.now_seconds
        address = self._addresses[record.slot % len(self._addresses)]
        try:
            with self._failures(self._session.timeout.sock_read or 0.0):
                async with await self._response(address.base + route, body) as answer:
                    await _require_ok(answer)
                    if answer.content_type != "text/event-stream":
                        detail = f"{answer.content_type}: {await _error_reason(answer)}"
                        raise RequestFailed(Fault.NO_STREAM, detail, answer.status)
                    await self._read_pieces(answer, record)
            record.status = OK
        except RequestFailed as error:
            record.status, record.detail = error.fault.value, error.detail
            raise
        finally:
            record.ended_seconds = self.now_seconds

    async def _response(self, url: str, body: dict[str, Any]) -> aiohttp.ClientResponse:
        """The response once its headers are here. llama.cpp's server closes a connection after a streamed
        answer without saying so, so a request that failed on a reused connection is sent again."""
        while True:
            connection = SimpleNamespace(was_used=False)
            try:
                return await self._session.post(
                    url, json=body, headers=self._headers, allow_redirects=False, trace_request_ctx=connection
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not connection.was_used:
                    raise

    async def _read_pieces(self, answer: aiohttp.ClientResponse, record: RequestRecord) -> None:
        """Read an answer's pieces until the end, each with the time at which its line arrived."""
        size, is_whole = 0, False
        async for line in answer.content:
            size += len(line)
            if size > _MOST_ANSWER_BYTES:
                raise RequestFailed(Fault.TOO_LARGE, f"more than {_MOST_ANSWER_BYTES} bytes")
            # Other lines are comments, or fields without meaning here.
            if line.startswith(b"data:") and (event := line[5:].strip()):
                is_whole = self._add_event(event, record) or is_whole
        if not is_whole:
            raise RequestFailed(Fault.CUT_OFF)
        # Tokens that are no whole characters may give no piece, but the server counts them.
        if not (record.piece_seconds or record.output_tokens):
            raise RequestFailed(Fault.EMPTY)
        if record.output_tokens is None:
            record.output_tokens = len(record.piece_seconds)

    def _add_event(self, event: bytes, record: RequestRecord) -> bool:
        """Add one event to the record; returns whether it ends the answer."""
        if event == b"[DONE]":
            return True
        piece = piece_of(event)
        if piece.has_text:
            record.piece_seconds.append(self.now_seconds)
        for name in ("input_tokens", "output_tokens", "cached_tokens"):
            if (count := getattr(piece, name)) is not None:
                setattr(record, name, count)
        return piece.is_last

    @contextmanager
    def _failures(self, patience_seconds: float) -> Iterator[None]:
        """Turn the HTTP library's errors into `RequestFailed`, whose text is one line without the key."""
        try:
            yield
            return
        except RequestFailed as error:
            failed = error
        except aiohttp.ClientSSLError as error:
            failed = RequestFailed(Fault.TLS, str(error))
        except aiohttp.ClientConnectorError as error:
            failed = RequestFailed(Fault.REFUSED, error.os_error.strerror or str(error.os_error))
        except TimeoutError as error:
            is_late = isinstance(error, aiohttp.ConnectionTimeoutError)
            failed = RequestFailed(Fault.TIMED_OUT, f"{_CONNECT_SECONDS if is_late else patience_seconds:g}")
        except aiohttp.ClientResponseError as error:
            failed = RequestFailed(Fault.GARBAGE, error.message)
        except (LineTooLong, ValueError) as error:  # aiohttp raises them for an endless line
            failed = RequestFailed(Fault.TOO_LARGE, str(error))
        except (aiohttp.ClientError, OSError) as error:
            failed = RequestFailed(Fault.DISCONNECTED, str(error) or type(error).__name__)
        hidden = self._key.hidden_in(failed.detail) if self._key else failed.detail
        raise RequestFailed(failed.fault, one_line(hidden)[:SHOWN], failed.status) from failed


async def _require_ok(answer: aiohttp.ClientResponse) -> None:
    status = answer.status
    if status == 200:
        return
    if 300 <= status < 400:
        raise RequestFailed(Fault.REDIRECTED, answer.headers.get("Location", ""), status)
    usual = Fault.BAD_REQUEST if 400 <= status < 500 else Fault.SERVER_ERROR
    raise RequestFailed(_STATUS_FAULTS.get(status, usual), await _error_reason(answer), status)


async def _error_reason(answer: aiohttp.ClientResponse) -> str:
    """The reason that the server gives for its refusal, as far as it can be read."""
    try:
        async with asyncio.timeout(_ERROR_SECONDS):
            content = await answer.content.read(_ERROR_BYTES)
    except (TimeoutError, aiohttp.ClientError):
        return answer.reason or ""
    try:
        return error_text(json.loads(content))
    except (ValueError, RecursionError, AttributeError):
        return content[:SHOWN].decode(errors="replace")


async def _note_use(_session: object, trace: SimpleNamespace, _params: object) -> None:
    if trace.trace_request_ctx is not None:
        trace.trace_request_ctx.was_used = True


@asynccontextmanager
async def opened(
    address: Address, key: ApiKey | None, patience_seconds: float, replicas: Sequence[Address] = ()
) -> AsyncIterator[Client]:
    """A client whose requests fail after `patience_seconds` without data."""
    uses = aiohttp.TraceConfig()
    uses.on_connection_reuseconn.append(_note_use)
    async with ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=patience_seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
        trace_configs=[uses],
    ) as session:
        yield Client(session, address, key, replicas)
