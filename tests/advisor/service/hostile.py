"""Mutations of what the OpenAPI document describes, and odd questions of every option, sent with a key of
scope measure to a real service whose sweeps cannot import torch and Ray: no 5xx, no traceback, no leak."""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field

from advisor.domain.words import LanguageTask
from advisor.questions import commands
from advisor.questions.question import ByTask, Field
from advisor.sweeps.formats import measurement_to_dict
from benchmarks.served import Served
from tests.sweeps.builders import measurement

JSON = "application/json"
DATA = json.loads((Path(__file__).parents[2] / "data" / "hostile.json").read_text())
# What a valid body may say, by the name of its field; others are made from their schema.
WORDS: Mapping[str, Any] = DATA["words"]
TEXTS: Sequence[str] = (*DATA["texts"], "a" * 100_000, "é" * 5000, "9" * 400, *DATA["paths"])
NUMBERS = (0, -1, -0.0, 1e308, -1e308, 5e-324, 2**31, 2**63, 2**64, 10**400, 0.1 + 0.2, 1e-12)
OTHERS = (None, True, False, [], {}, [[]], [None] * 1000, {"a": {"b": {}}}, [1, "a", None])
# Python's json reads these, JSON does not know them.
NO_JSON: Sequence[str] = (*DATA["no_json"], "-" + "9" * 5000)
# What a person would give an option that is no choice, flag or number of its own.
PLAUSIBLE: Mapping[str, Sequence[Any]] = DATA["plausible"]
QUESTIONS: Mapping[str, ByTask[Any]] = {
    "/v1/recommend": commands.RECOMMEND,
    "/v1/predict": commands.PREDICT,
    "/v1/compare": commands.COMPARE,
    "/v1/memory": commands.MEMORY,
}
# Files of the machine, and calls of a cloud: no option over HTTP.
NOT_OVER_HTTP = ("anchor", "config", "live")
_NOT_NOW = "not while this is tried"
NO_TORCH = dict.fromkeys(("torch.py", "ray.py"), f"raise ImportError({_NOT_NOW!r})\n")
# What of the inside may never be in an answer.
_INSIDE = re.compile(
    rb"Traceback|File \\?\"|\.py\\?\", line|site-packages|sqlalchemy|psycopg|sqlite3|starlette|"
    rb"pydantic|granian| object at 0x|[A-Za-z]+(Error|Exception)\b: |<class |<function "
)
_SENSIBLE = (b"application/json", b"application/problem+json", b"application/x-ndjson", b"text/")
_TIMEOUT_SECONDS = 60.0


class Hostile(Struct, frozen=True):
    """One request as bytes on the wire; `what` says how it was made."""

    what: str
    method: str
    target: str
    head: tuple[tuple[str, str], ...] = (("Content-Type", JSON),)
    body: bytes = b""

    def encoded(self, host: str, more: Sequence[tuple[str, str]] = ()) -> bytes:
        """With its head. Only what a head must have is added."""
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in (*more, *self.head)]
        if self.body or self.method not in ("GET", "HEAD"):
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + self.body


class Operation(Struct, frozen=True):
    """A method of a path: valid bodies, the ways to their fields (within objects too), parameter names."""

    method: str
    path: str
    bodies: tuple[dict[str, Any], ...]
    fields: tuple[tuple[str, ...], ...]
    in_query: tuple[str, ...]
    in_path: tuple[str, ...]


def operations_of(service: Served) -> list[Operation]:
    """Every operation of the API that the service's OpenAPI document describes."""
    with urllib.request.urlopen(f"http://127.0.0.1:{service.port}/openapi.json") as answer:
        document: dict[str, Any] = json.load(answer)
    return [
        _operation(document, path, method.upper(), text)
        for path, methods in document["paths"].items()
        if path.startswith("/v1")
        for method, text in methods.items()
    ]


def hostile_requests(operations: Sequence[Operation], seed: int) -> Iterator[Hostile]:
    """Endless, and the same for the same seed."""
    dice = random.Random(seed)
    while True:
        operation = dice.choice(operations)
        yield _spoiled(dice, operation, dice.choice(_WITH_BODY if operation.bodies else ("query",)))


def plausible_requests(seed: int) -> Iterator[Hostile]:
    """Questions with any options as a person would give them; endless, and the same for the same seed."""
    dice = random.Random(seed)
    while True:
        path, kinds = dice.choice(tuple(QUESTIONS.items()))
        task = dice.choice(kinds.tasks)
        fields = kinds.kind_of(task).fields
        some = dice.sample(sorted(fields), dice.randint(0, min(6, len(fields))))
        body = {name: _plausible(name, fields[name], dice) for name in some if name in fields}
        needed = {name for name in ("model", "instance") if name in fields and dice.random() < 0.95}
        body |= {name: _plausible(name, fields[name], dice) for name in needed - body.keys()}
        if task in set(LanguageTask) and "model" in body:
            body["model"] = dice.choice(PLAUSIBLE["language_model"])
        body = {name: body[name] for name in body if name not in NOT_OVER_HTTP} | {"task": task}
        yield Hostile("plausible", "POST", path, body=json.dumps(body).encode())


def _plausible(name: str, field: Field, dice: random.Random) -> Any:
    def value(schema: Mapping[str, Any]) -> Any:
        if schema.get("type") == "boolean":
            return dice.random() < 0.8
        return dice.choice(schema["enum"] if "enum" in schema else PLAUSIBLE.get(name, ("x",)))

    schema = field.kind.schema()
    if "items" in schema:
        return [value(schema["items"]) for _ in range(dice.randint(1, 2))]
    return value(schema)


def _changed_fields(dice: random.Random, operation: Operation, valid: dict[str, Any], count: int) -> bytes:
    """Fields say something else, or are not there."""
    for _ in range(count):
        if dice.random() < 0.1:
            valid.pop(_name(dice, operation)[0], None)
        else:
            valid = changed(valid, _name(dice, operation), _value(dice))
    return json.dumps(valid).encode()


def _flipped(dice: random.Random, valid: dict[str, Any]) -> bytes:
    text = bytearray(json.dumps(valid).encode())
    for _ in range(dice.randint(1, 4)):
        text[dice.randrange(len(text))] = dice.randrange(256)
    return bytes(text)


# Ways to spoil a valid body, by name.
_BODIES: Mapping[str, Callable[[random.Random, Operation, dict[str, Any]], bytes]] = {
    "field": lambda dice, operation, valid: _changed_fields(dice, operation, valid, 1),
    "fields": lambda dice, operation, valid: _changed_fields(dice, operation, valid, dice.randint(2, 5)),
    "raw": lambda dice, *_: dice.randbytes(dice.randint(0, 4000)),
    # Nested without end, in a field or alone.
    "deep": lambda dice, *_: (
        dice.choice((b"", b'{"task": ')) + dice.choice((b"[", b'{"a":')) * dice.choice((33, 500, 100_000))
    ),
    "torn": lambda dice, _, valid: (text := json.dumps(valid).encode())[: dice.randrange(len(text))],
    # The same names twice, and more often.
    "doubled": lambda dice, _, valid: (
        b"{%s}" % b", ".join([json.dumps(valid).encode()[1:-1]] * dice.randint(2, 50))
    ),
    # A field that nobody knows.
    "extra": lambda dice, _, valid: json.dumps(
        valid | {dice.choice(("__class__", "constructor", "$ref", "", "id", "x" * 1000, "é")): _value(dice)}
    ).encode(),
    "number": lambda dice, operation, valid: (
        json.dumps(changed(valid, _name(dice, operation), "@")).replace('"@"', dice.choice(NO_JSON)).encode()
    ),
    "flipped": lambda dice, _, valid: _flipped(dice, valid),
}
_WITH_BODY = (*["field"] * 6, *["fields"] * 4, *_BODIES, "query")


def _spoiled(dice: random.Random, operation: Operation, way: str) -> Hostile:
    """A request spoiled in one of the ways; what falls is decided by `dice`."""
    path = operation.path
    for name in operation.in_path:
        path = path.replace(f"{{{name}}}", _quoted(dice, str(_value(dice))[:500]) or "x")
    if way == "query":  # parameters that are known, or not, with anything in them
        names = [*operation.in_query, "x", "__proto__"]
        words = [(dice.choice(names), str(_value(dice))[:2000]) for _ in range(3)]
        query = "&".join(f"{quote(name)}={_quoted(dice, value)}" for name, value in words)
        return Hostile(way, operation.method, f"{path}?{query}", ())
    valid = dict(dice.choice(operation.bodies))
    return Hostile(way, operation.method, path, body=_BODIES[way](dice, operation, valid))


def _name(dice: random.Random, operation: Operation) -> tuple[str, ...]:
    return dice.choice(operation.fields or (("x",),))


def _value(dice: random.Random) -> Any:
    kinds: Sequence[Sequence[Any]] = (TEXTS, TEXTS, NUMBERS, OTHERS)
    return dice.choice(dice.choice(kinds))


def _quoted(dice: random.Random, text: str) -> str:
    return quote(text, safe="/" if dice.random() < 0.5 else "")


def changed(body: Mapping[str, Any], field: Sequence[str], value: Any) -> dict[str, Any]:
    """The body with another value in a field; objects around it are made where they have to be."""
    first, *rest = field
    if not rest:
        return {**body, first: value}
    inner = body.get(first)
    return {**body, first: changed(inner if isinstance(inner, dict) else {}, rest, value)}


def _operation(document: Mapping[str, Any], path: str, method: str, text: Mapping[str, Any]) -> Operation:
    content = text.get("requestBody", {}).get("content", {})
    if content and JSON not in content:
        # Measurements come as JSON lines; one line is a JSON object like any other body.
        line = measurement_to_dict(measurement())
        within = [("trial", name) for name in line["trial"]]
        return Operation(method, path, (line,), (*((name,) for name in line), *within), (), ())
    parameters = [_resolved(document, parameter) for parameter in text.get("parameters", ())]
    named = {
        location: tuple(parameter["name"] for parameter in parameters if parameter["in"] == location)
        for location in ("query", "path")
    }
    media = content.get(JSON, {})
    schema = _resolved(document, media.get("schema", {}))
    return Operation(
        method=method,
        path=path,
        fields=tuple(_fields(document, schema)),
        in_query=named["query"],
        in_path=named["path"],
        bodies=_examples(media, schema) if content else (),
    )


def _examples(media: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Valid bodies: the document's own examples, and as many words as are known."""
    text = [item["value"] for item in media.get("examples", {}).values()]
    text += [media["example"]] if "example" in media else []
    known = {name: WORDS[name] for name in schema.get("properties", {}) if name in WORDS}
    return (*text, *schema.get("examples", ()), known)


def _fields(
    document: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 3
) -> Iterator[tuple[str, ...]]:
    """The ways to all fields, those of objects within them too."""
    for name, text in schema.get("properties", {}).items():
        yield (name,)
        for item in (text, *text.get("anyOf", ()), *text.get("oneOf", ())):
            inner = _resolved(document, item)
            if depth > 1 and inner.get("properties"):
                yield from ((name, *rest) for rest in _fields(document, inner, depth - 1))


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        result: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            result = result[part]
        schema = result
    return schema


class Findings(Struct):
    """What came of the requests: `troubles` has one line for each that must not be."""

    statuses: Counter[int] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)


class Asker:
    """Sends requests over one connection, and makes a new one where that was closed."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._more = (("Authorization", f"Bearer {key}"),)
        self._socket: socket.socket | None = None

    def ask(self, request: Hostile) -> tuple[int, bytes, bytes]:
        """Status, content type and body; a connection that the service closed is made anew, once."""
        encoded = request.encoded(f"127.0.0.1:{self._port}", self._more)
        for _ in range(2):
            try:
                return self._sent(encoded, request.method)
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


def judge(request: Hostile, text: tuple[int, bytes, bytes], secrets: Sequence[bytes]) -> str:
    """What is wrong with an answer; '' where nothing is."""
    status, kind, body = text
    if status >= 500:
        return f"{status}: {body[:300]!r}"
    if status == 431 and not body:
        return ""  # of the server itself, which has read no more than the head
    if status >= 400 and request.method != "HEAD" and not kind.startswith((b"application/problem",)):
        return f"{status} is no problem document but {kind!r}"
    if status and body and not kind.startswith(_SENSIBLE):
        return f"content type {kind!r}"
    # What was sent may be told again; what was not, must not come from inside.
    told_of_inside = body.replace(f"ImportError: {_NOT_NOW}".encode(), b"")  # our own torch's
    for result in _INSIDE.finditer(told_of_inside):
        if result.group(0) not in request.body and result.group(0) not in request.target.encode():
            around = told_of_inside[max(0, result.start() - 60) : result.end() + 60]
            return f"tells of the inside: {around!r}"
    leaked = [secret for secret in secrets if secret in body]
    return f"leaks {leaked[0]!r}" if leaked else ""


def fuzz(service: Served, requests: Iterable[Hostile], key: str) -> Findings:
    """Send them all, and note what came."""
    secrets = [key.encode(), str(service.folder).encode(), str(Path(__file__).parents[3]).encode()]
    asker, result = Asker(service.port, key), Findings()
    for request in requests:
        text = asker.ask(request)
        result.statuses[text[0]] += 1
        if trouble := judge(request, text, secrets):
            shown = request.body[:200]
            result.troubles.append(
                f"{request.what} {request.method} {request.target[:200]} {shown!r}: {trouble}"
            )
    asker.close()
    return result


def defects_in(log: str) -> list[str]:
    """Each kind of defect that the service wrote down, with the lines where it happened."""
    result = {line for line in log.splitlines() if "Traceback" in line and '"event"' not in line}
    for line in log.splitlines():
        if '"event":"defect"' in line:
            document = json.loads(line)
            places = [item.strip() for item in document["trace"] if "advisor" in item or "sweeps" in item]
            result.add(f"{document['error'][:200]} at {' < '.join(reversed(places))[:800]}")
    return sorted(result)
