"""Requests that nobody should send: mutations of those that the OpenAPI document describes; and
questions of every option that anybody may send, however odd they are together."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from advisor.domain.generation import LanguageTask
from advisor.questions import commands
from advisor.questions.question import ByTask, Field
from advisor.sweeps.formats.serialization import measurement_to_dict
from tests.sweeps.builders import measurement

JSON = "application/json"
# What a valid body may say, by the name of its field; others are made from their schema.
WORDS: Mapping[str, Any] = {
    "task": "inference",
    "model": "googlenet",
    "target_throughput": 500,
    "batch_size": 64,
    "instance": "g5.xlarge",
    "instances": ["g4dn.xlarge", "g5.xlarge"],
    "gpu": "T4,L4",
    "disk": "gp3:500GiB",
    "max_price": 1.5,
    "precision": "fp32",
    "confidence": 0.9,
    "cron": "0 3 * * 1",
    "timezone": "UTC",
    "name": "weekly",
    "region": "us-east-1",
    "dry_run": True,
    "preset": "small",
}
PATHS = (
    "/etc/passwd",
    "../../../../etc/passwd",
    "file:///etc/passwd",
    "\\\\192.0.2.1\\s\\x.py:f",
    "//192.0.2.1/share",
    "http://192.0.2.1/x",
    "/proc/self/environ",
    "C:\\boot.ini",
    "x.py:build",
    "/tmp/x.py:build",
    "os:system",
    "$(id)",
    "`id`",
    "; id",
    "| id",
    "-oProxyCommand=id",
    "--help",
)
TEXTS = (
    "",
    " ",
    "0",
    "-1",
    "null",
    "NaN",
    "a" * 100_000,
    "\u202e\u2066abc",
    "\ufeff",
    "%s%n{0}{x.__class__}",
    "{{7*7}}",
    "${7*7}",
    "' OR 1=1 --",
    '"; DROP TABLE measurements; --',
    "<script>1</script>",
    "\u0000",
    "line\r\nX-Injected: 1",
    "\U0001f600" * 50,
    "é" * 5000,
    "1e309",
    "9" * 400,
    "١٢٣",
)
NUMBERS = (0, -1, -0.0, 1e308, -1e308, 5e-324, 2**31, 2**63, 2**64, 10**400, 0.1 + 0.2, 1e-12)
OTHERS = (None, True, False, [], {}, [[]], [None] * 1000, {"a": {"b": {}}}, [1, "a", None])
# Python's json reads these, JSON does not know them.
NO_JSON = ("NaN", "Infinity", "-Infinity", "1e99999", "-" + "9" * 5000, "01", "1.", "+1", "0x10")
KINDS = (
    "text/plain",
    "application/xml",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "multipart/form-data; boundary=x",
    "application/json; charset=utf-16",
    "application/x-ndjson",
    "",
    "a" * 500,
    "application/octet-stream",
    "application/vnd.api+json",
    "text/csv",
)


# What a person would give an option that is no choice, flag or number of its own.
PLAUSIBLE: Mapping[str, Sequence[Any]] = {
    "model": ("googlenet", "resnet50", "vgg16", "vit_base_patch16_224", "bert-base-uncased"),
    "language_model": ("Qwen/Qwen2.5-7B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
    "batch_size": (1, 8, 64, 256),
    "confidence": (0.5, 0.8, 0.9, 0.95, 0.99),
    "max_gpus": (1, 2, 8),
    "input": ("3x224x224", "3x299x299", "128"),
    "input_size": (128, 224, 299),
    "disk": ("gp3", "gp3:500GiB", "gp3,io2", "local", "io2:1000GiB:16000iops"),
    "cloud": ("aws", "gcp", "azure", "any"),
    "region": ("us-east-1", "eu-west-1", "us-central1"),
    "steps": (1, 30),
    "epochs": (1, 2.5, 90),
    "samples": (1000, 10**7),
    "target_throughput": (0.5, 50, 800.5, 1e5),
    "max_latency_ms": (1, 20, 500),
    "max_hours": (0.1, 24),
    "max_cost": (1, 500),
    "max_first_epoch_hours": (0.5, 12),
    "max_count": (1, 2, 50),
    "max_nodes": (1, 2, 3, 8, 64),
    "price_kind": ("list", "list,observed", "estimated"),
    "gpu": ("T4", "T4,L4", "24GiB..", "H100"),
    "vcpus": (4, "4..16", "8.."),
    "memory": ("16GiB", "8GiB..64GiB"),
    "max_price": (0.4, 3, 100),
    "quota": ("L-DB2E81BA=8", "L-DB2E81BA=64"),
    "max_results": (1, 3, 40),
    "horizon_hours": (1, 730),
    "tensor_parallel": ("auto", 1, 2, 8),
    "input_tokens": (1, 512, 8000),
    "output_tokens": (1, 200),
    "prefix_share": (0, 0.5),
    "target_requests_per_s": (0.2, 5),
    "users": (1, 40),
    "max_ttft_ms": (50, 2000),
    "max_tpot_ms": (10, 80),
    "max_e2e_s": (1, 30),
    "max_context": (2048, 32_000),
    "max_ready_s": (60, 900),
    "sequence": (512, 4096),
    "micro_batch": (1, 4),
    "tokens": (1e6, 1e9),
    "baseline": ("g4dn.xlarge", "T4"),
    "instance": ("g4dn.xlarge", "g5.xlarge", "p5.48xlarge", "c7i.4xlarge"),
    "curve": ({"vcpus": [2, 4]},),
}
QUESTIONS: Mapping[str, ByTask[Any]] = {
    "/v1/recommend": commands.RECOMMEND,
    "/v1/predict": commands.PREDICT,
    "/v1/compare": commands.COMPARE,
    "/v1/memory": commands.MEMORY,
}
# Files of the machine, and calls of a cloud: no option over HTTP.
NOT_OVER_HTTP = ("anchor", "config", "live")


class Hostile(Struct, frozen=True):
    """One request as bytes on the wire; `what` says how it was made."""

    what: str
    method: str
    target: str
    head: tuple[tuple[str, str], ...]
    body: bytes = b""
    is_chunked: bool = False

    def encoded(self, host: str, more: Sequence[tuple[str, str]] = ()) -> bytes:
        """With its head. Only what a head must have is added."""
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in (*more, *self.head)]
        if self.is_chunked:
            lines.append("Transfer-Encoding: chunked")
            return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + _chunked(self.body)
        if self.body or self.method not in ("GET", "HEAD"):
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + self.body


class Operation(Struct, frozen=True):
    """A method of a path, valid bodies (none where it takes none), the ways to their fields (also
    to those of objects within), and the names of its parameters."""

    method: str
    path: str
    bodies: tuple[dict[str, Any], ...]
    fields: tuple[tuple[str, ...], ...]
    in_query: tuple[str, ...]
    in_path: tuple[str, ...]


def operations_of(document: Mapping[str, Any], under: str = "/v1") -> list[Operation]:
    """Every operation that an OpenAPI document describes below a path."""
    found = []
    for path, methods in document["paths"].items():
        if path.startswith(under):
            found += [_operation(document, path, method.upper(), told) for method, told in methods.items()]
    return found


def hostile_requests(
    operations: Sequence[Operation], seed: int, texts: Sequence[str] = (*TEXTS, *PATHS)
) -> Iterator[Hostile]:
    """Endless, and the same for the same seed."""
    dice = random.Random(seed)
    maker = _Maker(dice, texts)
    while True:
        operation = dice.choice(operations)
        ways = maker.with_body if operation.bodies else maker.without_body
        yield dice.choice(ways)(operation)


def plausible_requests(seed: int) -> Iterator[Hostile]:
    """Questions with any of their options, each as a person would give it; endless, and the same
    for the same seed."""
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
        yield Hostile("plausible", "POST", path, _of(JSON), json.dumps(body).encode())


def _plausible(name: str, field: Field, dice: random.Random) -> Any:
    schema = field.kind.schema()
    if "items" in schema:
        return [_plausible_one(name, schema["items"], dice) for _ in range(dice.randint(1, 2))]
    return _plausible_one(name, schema, dice)


def _plausible_one(name: str, schema: Mapping[str, Any], dice: random.Random) -> Any:
    if schema.get("type") == "boolean":
        return dice.random() < 0.8
    return dice.choice(schema["enum"] if "enum" in schema else PLAUSIBLE.get(name, ("x",)))


class _Maker:
    """The ways to spoil a request; what falls is decided by `dice`."""

    def __init__(self, dice: random.Random, texts: Sequence[str]) -> None:
        self._dice, self._texts = dice, texts
        self.without_body: tuple[Callable[[Operation], Hostile], ...] = (
            self.query,
            self.query,
            self.query,
            self.unexpected_body,
            self.method,
        )
        self.with_body: tuple[Callable[[Operation], Hostile], ...] = (
            *(self.field,) * 6,
            *(self.fields,) * 4,
            self.extra,
            self.doubled,
            self.number,
            self.random_json,
            self.raw,
            self.deep,
            self.torn,
            self.flipped,
            self.kind,
            self.chunked,
            self.encoding,
            self.no_utf8,
            self.long,
            self.method,
            self.query,
        )

    def field(self, one: Operation) -> Hostile:
        """One field says something else."""
        return self._changed(one, "field", 1)

    def fields(self, one: Operation) -> Hostile:
        """Several do."""
        return self._changed(one, "fields", self._dice.randint(2, 5))

    def extra(self, one: Operation) -> Hostile:
        """A field that nobody knows."""
        name = self._dice.choice(("__class__", "constructor", "$ref", "", "id", "x" * 1000, "é"))
        return self._json(one, "extra", {**self._valid(one), name: self._value()})

    def doubled(self, one: Operation) -> Hostile:
        """The same name twice."""
        text = json.dumps(self._valid(one))[1:-1]
        again = ", ".join([text] * self._dice.randint(2, 50)) if text else ""
        return self._bytes(one, "doubled", f"{{{again}}}".encode())

    def number(self, one: Operation) -> Hostile:
        """A number that is none."""
        text = json.dumps(changed(self._valid(one), self._field(one), "@"))
        return self._bytes(one, "number", text.replace('"@"', self._dice.choice(NO_JSON)).encode())

    def random_json(self, one: Operation) -> Hostile:
        """Any JSON."""
        return self._bytes(one, "random", json.dumps(self._tree(4)).encode())

    def raw(self, one: Operation) -> Hostile:
        """Any bytes."""
        return self._bytes(one, "raw", self._dice.randbytes(self._dice.randint(0, 4000)))

    def deep(self, one: Operation) -> Hostile:
        """Nested without end, in a field or alone."""
        depth, opening = self._dice.choice((33, 500, 100_000)), self._dice.choice((b"[", b'{"a":'))
        start = b'{"task": ' if self._dice.random() < 0.5 else b""
        return self._bytes(one, "deep", start + opening * depth)

    def torn(self, one: Operation) -> Hostile:
        """It ends too early."""
        text = json.dumps(self._valid(one)).encode()
        return self._bytes(one, "torn", text[: self._dice.randrange(len(text))])

    def flipped(self, one: Operation) -> Hostile:
        """Some bytes are others."""
        text = bytearray(json.dumps(self._valid(one)).encode())
        for _ in range(self._dice.randint(1, 4)):
            text[self._dice.randrange(len(text))] = self._dice.randrange(256)
        return self._bytes(one, "flipped", bytes(text))

    def kind(self, one: Operation) -> Hostile:
        """It says to be something else."""
        text = json.dumps(self._valid(one)).encode()
        return self._bytes(one, "kind", text, self._dice.choice(KINDS))

    def chunked(self, one: Operation) -> Hostile:
        """Its length is not told; sometimes it is beyond every limit."""
        body = json.dumps(self._valid(one)).encode()
        if self._dice.random() < 0.1:
            body += b" " * 1_100_000
        return Hostile("chunked", one.method, self._path(one), _of(JSON), body, is_chunked=True)

    def encoding(self, one: Operation) -> Hostile:
        """Another encoding, or a mark of one."""
        name = self._dice.choice(("utf-16", "utf-32", "utf-16-be", "utf-8-sig", "utf-7"))
        return self._bytes(one, "encoding", json.dumps(self._valid(one)).encode(name))

    def no_utf8(self, one: Operation) -> Hostile:
        """Text that is no text: broken UTF-8, halves of pairs, null characters."""
        bad = self._dice.choice((b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\\ud800", b"\\u0000"))
        text = json.dumps(changed(self._valid(one), self._field(one), "a@b")).encode()
        return self._bytes(one, "no_utf8", text.replace(b"@", bad))

    def long(self, one: Operation) -> Hostile:
        """Too large, or as large as may be."""
        size = self._dice.choice((200_000, 1_000_000, 1_100_000))
        return self._bytes(one, "long", json.dumps({"task": "x" * size}).encode())

    def query(self, one: Operation) -> Hostile:
        """Parameters that are known, or not, with anything in them."""
        names = [*one.in_query, "x", "__proto__"]
        asked = [(self._dice.choice(names), str(self._value())[:2000]) for _ in range(3)]
        query = "&".join(f"{quote(name)}={self._quoted(value)}" for name, value in asked)
        return Hostile("query", one.method, f"{self._path(one)}?{query}", ())

    def unexpected_body(self, one: Operation) -> Hostile:
        """A body where none belongs."""
        body = json.dumps(self._tree(2)).encode()
        return Hostile("unexpected", one.method, self._path(one), _of(JSON), body)

    def method(self, one: Operation) -> Hostile:
        """Another method."""
        other = self._dice.choice(("PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "POST", "GET"))
        return Hostile("method", other, self._path(one), ())

    def _changed(self, one: Operation, what: str, count: int) -> Hostile:
        body = self._valid(one)
        for _ in range(count):
            if self._dice.random() < 0.1:
                body.pop(self._field(one)[0], None)
            else:
                body = changed(body, self._field(one), self._value())
        return self._json(one, what, body)

    def _valid(self, one: Operation) -> dict[str, Any]:
        return dict(self._dice.choice(one.bodies))

    def _field(self, one: Operation) -> tuple[str, ...]:
        return self._dice.choice(one.fields or (("x",),))

    def _value(self) -> Any:
        kinds: Sequence[Sequence[Any]] = (self._texts, self._texts, NUMBERS, OTHERS)
        return self._dice.choice(self._dice.choice(kinds))

    def _tree(self, depth: int) -> Any:
        if depth == 0 or self._dice.random() < 0.3:
            return self._value()
        if self._dice.random() < 0.5:
            return [self._tree(depth - 1) for _ in range(self._dice.randint(0, 5))]
        return {str(self._value())[:50]: self._tree(depth - 1) for _ in range(3)}

    def _path(self, one: Operation) -> str:
        path = one.path
        for name in one.in_path:
            path = path.replace(f"{{{name}}}", self._quoted(str(self._value())[:500]) or "x")
        return path

    def _quoted(self, text: str) -> str:
        return quote(text, safe="/" if self._dice.random() < 0.5 else "")

    def _json(self, one: Operation, what: str, value: Any) -> Hostile:
        return self._bytes(one, what, json.dumps(value).encode())

    def _bytes(self, one: Operation, what: str, body: bytes, kind: str = JSON) -> Hostile:
        return Hostile(what, one.method, self._path(one), _of(kind), body)


def _of(kind: str) -> tuple[tuple[str, str], ...]:
    return (("Content-Type", kind),)


def _chunked(body: bytes) -> bytes:
    parts = [body[at : at + 8000] for at in range(0, len(body), 8000)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def changed(body: Mapping[str, Any], field: Sequence[str], value: Any) -> dict[str, Any]:
    """The body with another value in a field; objects around it are made where they have to be."""
    first, *rest = field
    if not rest:
        return {**body, first: value}
    inner = body.get(first)
    within = inner if isinstance(inner, dict) else {}
    return {**body, first: changed(within, rest, value)}


def _operation(document: Mapping[str, Any], path: str, method: str, told: Mapping[str, Any]) -> Operation:
    content = told.get("requestBody", {}).get("content", {})
    if content and JSON not in content:
        return _of_lines(path, method)
    parameters = [_resolved(document, one) for one in told.get("parameters", ())]
    named = {
        place: tuple(one["name"] for one in parameters if one["in"] == place) for place in ("query", "path")
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


def _of_lines(path: str, method: str) -> Operation:
    """Measurements come as JSON lines; one line is a JSON object like any other body."""
    line = measurement_to_dict(measurement())
    within = [("trial", name) for name in line["trial"]]
    fields = (*((name,) for name in line), *within)
    return Operation(method, path, (line,), fields, (), ())


def _examples(media: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Valid bodies: the document's own examples, and as many words as are known."""
    told = [one["value"] for one in media.get("examples", {}).values()]
    told += [media["example"]] if "example" in media else []
    known = {name: WORDS[name] for name in schema.get("properties", {}) if name in WORDS}
    return (*told, *schema.get("examples", ()), known)


def _fields(
    document: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 3
) -> Iterator[tuple[str, ...]]:
    """The ways to all fields, those of objects within them too."""
    for name, told in schema.get("properties", {}).items():
        yield (name,)
        for one in (told, *told.get("anyOf", ()), *told.get("oneOf", ())):
            inner = _resolved(document, one)
            if depth > 1 and inner.get("properties"):
                yield from ((name, *rest) for rest in _fields(document, inner, depth - 1))


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema
