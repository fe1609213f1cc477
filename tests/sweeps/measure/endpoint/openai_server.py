"""A small server that speaks OpenAI's protocol over real sockets, well or badly as a test wants.

It computes nothing: tokens come at a pace that the test names, so that what a client measures is known
beforehand. `behaviours` say what happens to completions, one for each request, the last one for all that
follow."""

import asyncio
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field

WELL = "well"
_EXTRAS = ("ignore_eos", "min_tokens")


@dataclass
class FakeEndpoint:
    """Where it is, what it saw, and how it behaves."""

    ttft_seconds: float = 0.005
    tpot_seconds: float = 0.002
    behaviours: list = field(default_factory=lambda: [WELL])
    listing: str = WELL  # how the list of models is answered
    model: str = "tiny"
    is_strict: bool = False  # refuses fields that are not OpenAI's
    has_completions: bool = True
    counts_tokens: bool = True
    cached_tokens: int | None = None
    tokens_a_piece: int = 1
    longest_answer: int = 10**6
    answers_once: bool = False  # on each connection, and then ends it without a word
    key: str = ""
    port: int = 0
    bodies: list = field(default_factory=list)
    authorizations: list = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def fake_endpoint(**settings):
    """The endpoint, in a thread of its own, while the test runs."""
    endpoint = FakeEndpoint(**settings)
    loop = asyncio.new_event_loop()
    started = threading.Event()

    async def serve():
        server = await asyncio.start_server(
            lambda reader, writer: _connection(endpoint, reader, writer), "127.0.0.1", 0
        )
        endpoint.port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # transports close in the loop's next turns

    def run():
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        loop.close()

    stop = asyncio.Event()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield endpoint
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


async def _connection(endpoint, reader, writer):
    is_used = False
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            request, *headers = head.split("\r\n")
            named = {k.lower(): v.strip() for k, _, v in (h.partition(":") for h in headers)}
            body = await reader.readexactly(int(named.get("content-length", 0)))
            if endpoint.answers_once and is_used:
                break
            is_used = True
            endpoint.authorizations.append(named.get("authorization"))
            if not await _answer(endpoint, writer, request.split()[1], named, body):
                break
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


async def _answer(endpoint, writer, path, headers, body):
    """Whether the connection stays open."""
    if endpoint.key and headers.get("authorization") != f"Bearer {endpoint.key}":
        detail = f"bad key: {headers.get('authorization')}"
        return await _json(writer, 401, {"error": {"message": detail}})
    if path == "/v1/models" and endpoint.listing != WELL:
        return await _BEHAVIOURS[endpoint.listing](endpoint, writer)
    if path == "/v1/models":
        return await _json(writer, 200, {"object": "list", "data": [{"id": endpoint.model}]})
    if path == "/v1/completions" and endpoint.has_completions:
        return await _completion(endpoint, writer, json.loads(body), False)
    if path == "/v1/chat/completions":
        return await _completion(endpoint, writer, json.loads(body), True)
    return await _json(writer, 404, {"detail": "Not Found"})


async def _completion(endpoint, writer, body, is_chat):
    if endpoint.is_strict and (extra := [name for name in _EXTRAS if name in body]):
        return await _json(writer, 422, {"detail": f"Unexpected fields: {extra}"})
    endpoint.bodies.append(body)
    endpoint.in_flight += 1
    endpoint.most_in_flight = max(endpoint.most_in_flight, endpoint.in_flight)
    try:
        turn = min(len(endpoint.bodies), len(endpoint.behaviours)) - 1
        behaviour = endpoint.behaviours[turn]
        if behaviour != WELL:
            return await _BEHAVIOURS[behaviour](endpoint, writer)
        await _stream(endpoint, writer, body, is_chat)
        return True
    finally:
        endpoint.in_flight -= 1


async def _stream(endpoint, writer, body, is_chat):
    prompt = body["messages"][0]["content"] if is_chat else body["prompt"]
    tokens = min(body["max_tokens"], endpoint.longest_answer)
    await _begin(writer)
    if is_chat:
        await _event(writer, {"choices": [{"delta": {"role": "assistant", "content": ""}}]})
    await asyncio.sleep(endpoint.ttft_seconds)
    loop = asyncio.get_running_loop()
    moment, sent = loop.time(), 0
    while sent < tokens:
        piece = min(endpoint.tokens_a_piece, tokens - sent)
        sent += piece
        text = "a" * piece
        choice = {"delta": {"content": text}} if is_chat else {"text": text}
        last = {"finish_reason": "length"} if sent == tokens else {}
        await _event(writer, {"choices": [choice | last]})
        moment += endpoint.tpot_seconds * piece
        if sent < tokens:
            await asyncio.sleep(max(0.0, moment - loop.time()))
    if endpoint.counts_tokens:
        usage = {"prompt_tokens": 3 + 2 * len(prompt.split()), "completion_tokens": tokens}
        if endpoint.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": endpoint.cached_tokens}
        await _event(writer, {"choices": [], "usage": usage})
    await _chunk(writer, b"data: [DONE]\n\n")
    await _chunk(writer, b"")


async def _begin(writer, kind="text/event-stream"):
    writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode())
    await writer.drain()


async def _event(writer, content):
    await _chunk(writer, b"data: " + json.dumps(content).encode() + b"\n\n")


async def _chunk(writer, content):
    writer.write(b"%x\r\n" % len(content) + content + b"\r\n")
    await writer.drain()


async def _json(writer, status, content, extra=""):
    body = json.dumps(content).encode()
    writer.write(
        f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{extra}"
        f"content-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    await writer.drain()
    return True


async def _hang(endpoint, writer):
    await asyncio.sleep(3600)


async def _repeats(endpoint, writer):
    """A page that shows the request, as servers for debugging do."""
    content = b"\x1b[31m\n" + endpoint.authorizations[-1].encode()
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(content), content))
    await writer.drain()


async def _drips(endpoint, writer):
    """Something comes all the time, and never a token."""
    await _begin(writer)
    while True:
        await _chunk(writer, b": still here\n\n")
        await asyncio.sleep(0.05)


def _stream_of(*parts, stays=False):
    """A stream of these events and raw chunks; then the connection closes, or the stream ends in order."""

    async def answer(endpoint, writer):
        await _begin(writer)
        for part in parts:
            await (_chunk if isinstance(part, bytes) else _event)(writer, part)
        return stays

    return answer


def _raw(content, stays=False):
    async def answer(endpoint, writer):
        writer.write(content)
        await writer.drain()
        return stays

    return answer


def _status(status, extra="", why=""):
    async def answer(endpoint, writer):
        return await _json(writer, status, {"error": {"message": why or f"said {status}"}}, extra)

    return answer


_HTML = b"<html>\x1b[31mWelcome</html>"
_PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n"
_TOKEN = {"choices": [{"text": "a"}]}
_STOP = {"choices": [{"text": "", "finish_reason": "stop"}]}
_BEHAVIOURS = {
    "hang": _hang,
    "drips": _drips,
    "repeats": _repeats,
    "half": _stream_of(_TOKEN, _TOKEN, b"", stays=True),  # in order, but without its end
    "closes": _stream_of(_TOKEN),
    "hangs_up": _raw(b""),
    "huge": _stream_of(*[b"data: " * 10_000] * 40),
    "page": _raw(_PAGE % len(_HTML) + _HTML, stays=True),
    "garbage": _stream_of(b"data: {\x00\xff]\n\n"),
    "other_json": _stream_of({"choices": {"text": "no list"}}),
    "no_http": _raw(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"),
    "error_event": _stream_of({"error": {"message": "engine died"}}),
    "empty": _stream_of(_STOP, b"data: [DONE]\n\n", b"", stays=True),
    "302": _status(302, "location: http://elsewhere.invalid/v1\r\n"),
    "no_template": _status(400, why="provide a chat template"),
    **{str(status): _status(status) for status in (400, 403, 429, 500, 503)},
}
