"""What a client can do to a connection: real sockets against a server in a thread."""

import json
import socket
import threading
import time

import pytest
import uvicorn

from advisor.service.guard import protocol
from advisor.service.guard.protocol import MOST_HEAD_BYTES, MOST_HEADERS, CarefulProtocol

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def application(scope, receive, send):
    """Tells how many bytes the body has; '/large' answers with 64 MiB."""
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    answer = b"x" * (64 * 1024**2) if scope["path"] == "/large" else str(size).encode()
    length = str(len(answer)).encode()
    await send({
        "type": "http.response.start", "status": 200, "headers": [(b"content-length", length)],
    })  # fmt: skip
    await send({"type": "http.response.body", "body": answer})


@pytest.fixture
def served(monkeypatch):
    """The address of a server that has little patience."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.4)
    monkeypatch.setattr(protocol, "UNREAD_SECONDS", 0.4)
    config = uvicorn.Config(
        application, http=CarefulProtocol, lifespan="off", log_level="critical", ws="none", port=0
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()
    server.should_exit = True
    thread.join()


@pytest.fixture
def connect(served):
    opened = []

    def one():
        opened.append(socket.create_connection(served, timeout=10))
        return opened[-1]

    yield one
    for connection in opened:
        connection.close()


def answer_of(connection):
    """All that comes until the server ends the connection."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def pour(connection, parts, pause=0.0):
    for part in parts:
        connection.sendall(part)
        time.sleep(pause)


def status(answer):
    return int(answer.split(b" ", 2)[1])


def test_requests_are_answered_one_after_the_other_on_one_connection(connect):
    one = connect()
    for body in (b"", b"abc"):
        one.sendall(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        assert one.recv(65536).endswith(b"\r\n\r\n%d" % len(body))
    one.sendall(ASK + b"\r\n" + ASK + b"Connection: close\r\n\r\n")
    assert answer_of(one).count(b"200 OK") == 2


def test_a_chunked_body_larger_than_a_head_is_no_head(connect):
    one = connect()
    one.sendall(
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    for _ in range(20):
        one.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
    one.sendall(b"0\r\n\r\n")
    assert answer_of(one).endswith(b"%d" % (20 * 4096))


@pytest.mark.parametrize(
    "head",
    [
        ASK + b"A: b\r\n" * MOST_HEADERS + b"\r\n",
        ASK + b"A: " + b"b" * MOST_HEAD_BYTES + b"\r\n\r\n",
        b"GET /" + b"a" * MOST_HEAD_BYTES + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        ASK + b"A: " + b"b" * 4 * MOST_HEAD_BYTES,
        b"GET /" + b"a" * 4 * MOST_HEAD_BYTES,
    ],
)
def test_a_head_that_is_too_large_is_refused(connect, head):
    one = connect()
    one.sendall(head)
    answer = answer_of(one)
    assert status(answer) == 431
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"].endswith("large-head")


def test_a_head_that_never_ends_is_cut_off(connect):
    one = connect()
    one.sendall(ASK)
    with pytest.raises(ConnectionError):
        pour(one, [b"A: " + b"b" * 100 + b"\r\n"] * 100_000)


@pytest.mark.parametrize("sent", [b"", b"GE", ASK, ASK + b"A: "])
def test_who_says_nothing_or_not_all_is_sent_away(connect, sent):
    one = connect()
    one.sendall(sent)
    assert status(answer_of(one)) == 408


def test_a_trickle_does_not_extend_the_time(connect):
    one = connect()
    with pytest.raises(ConnectionError):
        pour(one, [bytes([byte]) for byte in ASK * 100], pause=0.02)


def test_the_second_request_of_a_connection_has_no_more_time(connect):
    one = connect()
    one.sendall(ASK + b"\r\n")
    assert one.recv(65536)
    one.sendall(ASK)
    assert status(answer_of(one)) == 408


def test_an_answer_that_nobody_reads_ends(connect):
    one = connect()
    one.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    time.sleep(1.2)
    one.settimeout(5)
    got = 0
    try:
        while part := one.recv(1 << 20):
            got += len(part)
    except ConnectionResetError:
        pass
    assert got < 64 * 1024**2


def test_what_is_no_http_is_refused(connect):
    one = connect()
    one.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert status(answer_of(one)) == 400
