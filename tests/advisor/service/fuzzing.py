"""Sends hostile requests to a real, running service, and judges its answers: no 5xx, no traceback, no leak.

`hostile` makes them from the service's own OpenAPI document; a key of scope measure asks, so that every
route is reached. Sweeps that a mutation starts by accident end at once: their torch and Ray cannot be
imported.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from benchmarks.served import Served
from tests.advisor.service.hostile import Hostile

_NOT_NOW = "not while this is tried"
NO_TORCH = dict.fromkeys(("torch.py", "ray.py"), f"raise ImportError({_NOT_NOW!r})\n")
# What of the inside may never be in an answer.
_INSIDE = re.compile(
    rb"Traceback|File \\?\"|\.py\\?\", line|site-packages|sqlalchemy|psycopg|sqlite3|starlette|"
    rb"pydantic|granian| object at 0x|[A-Za-z]+(Error|Exception)\b: |<class |<function "
)
_SENSIBLE = (b"application/json", b"application/problem+json", b"application/x-ndjson", b"text/")
_TIMEOUT_SECONDS = 60.0


class Findings(Struct):
    """What came of the requests: `troubles` has one line for each that must not be."""

    statuses: Counter[int] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)
    slowest_seconds: float = 0.0


class Asker:
    """Sends requests over one connection, and makes a new one where that was closed."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._more = (("Authorization", f"Bearer {key}"),)
        self._socket: socket.socket | None = None

    def ask(self, one: Hostile) -> tuple[int, bytes, bytes]:
        """Status, content type and body. A connection that the service closed meanwhile is made
        anew, once."""
        encoded = one.encoded(f"127.0.0.1:{self._port}", self._more)
        for _ in range(2):
            try:
                return self._sent(encoded, one.method)
            except (ConnectionError, http.client.HTTPException):
                self.close()
        # The answer was lost behind a body that nobody reads: ask for it while sending.
        return 0, b"", b""

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _sent(self, encoded: bytes, method: str) -> tuple[int, bytes, bytes]:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), _TIMEOUT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(encoded)
        answer = http.client.HTTPResponse(self._socket, method=method)
        answer.begin()
        body = answer.read()
        kind = (answer.getheader("Content-Type") or "").encode()
        if answer.will_close:
            self.close()
        return answer.status, kind, body


def judge(one: Hostile, told: tuple[int, bytes, bytes], secrets: Sequence[bytes]) -> str:
    """What is wrong with an answer; '' where nothing is."""
    status, kind, body = told
    if status >= 500:
        return f"{status}: {body[:300]!r}"
    if status == 431 and not body:
        return ""  # of the server itself, which has read no more than the head
    if status >= 400 and one.method != "HEAD" and not kind.startswith((b"application/problem",)):
        return f"{status} is no problem document but {kind!r}"
    if status and body and not kind.startswith(_SENSIBLE):
        return f"content type {kind!r}"
    # What was sent may be told again; what was not, must not come from inside.
    told_of_inside = body.replace(f"ImportError: {_NOT_NOW}".encode(), b"")  # our own torch's
    for found in _INSIDE.finditer(told_of_inside):
        if found.group(0) not in one.body and found.group(0) not in one.target.encode():
            around = told_of_inside[max(0, found.start() - 60) : found.end() + 60]
            return f"tells of the inside: {around!r}"
    leaked = [secret for secret in secrets if secret in body]
    return f"leaks {leaked[0]!r}" if leaked else ""


def fuzz(service: Served, requests: Iterable[Hostile], key: str, found: Findings) -> None:
    """Send them all, and note what came."""
    secrets = [key.encode(), str(service.folder).encode(), str(Path(__file__).parents[3]).encode()]
    asker = Asker(service.port, key)
    for one in requests:
        begun = time.perf_counter()
        told = asker.ask(one)
        found.slowest_seconds = max(found.slowest_seconds, time.perf_counter() - begun)
        found.statuses[told[0]] += 1
        found.ways[one.what] += 1
        if trouble := judge(one, told, secrets):
            shown = one.body[:200]
            found.troubles.append(f"{one.what} {one.method} {one.target[:200]} {shown!r}: {trouble}")
    asker.close()


def defects_in(log: str) -> list[str]:
    """Each kind of defect that the service wrote down, with the lines where it happened."""
    found = {line for line in log.splitlines() if "Traceback" in line and '"event"' not in line}
    for line in log.splitlines():
        if '"event":"defect"' in line:
            told = json.loads(line)
            places = [one.strip() for one in told["trace"] if "advisor" in one or "sweeps" in one]
            found.add(f"{told['error'][:200]} at {' < '.join(reversed(places))[:800]}")
    return sorted(found)


def described(port: int) -> dict[str, Any]:
    """The service's OpenAPI document."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/openapi.json") as answer:
        document: dict[str, Any] = json.load(answer)
        return document
