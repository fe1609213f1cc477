"""The address of an endpoint and its API key, the faults of requests, each with its remedy, and the events of
a streamed answer."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from msgspec import Struct

from advisor.errors import MeasuringError, UsageError, one_line
from advisor.messages import FieldName, Message

KEY_VARIABLE = "ADVISOR_ENDPOINT_API_KEY"
_SCHEMES = ("http", "https")
_ROUTES = ("/chat/completions", "/completions", "/models")
_HIDDEN = "***"
_LONGEST_KEY = 4096


class ApiKey:
    """A secret key: it is written only to a header, and removed from servers' answers."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return f"ApiKey({_HIDDEN})"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that authorise a request."""
        return {"Authorization": f"Bearer {self._text}"}

    def hidden_in(self, text: str) -> str:
        """The text with the key hidden, since some servers repeat it in their errors."""
        return text.replace(self._text, _HIDDEN)


class Address(Struct, frozen=True):
    """An endpoint's address: `base` is the URL up to and including `/v1`, without credentials."""

    base: str
    host: str
    is_encrypted: bool

    @property
    def root(self) -> str:
        """The URL without `/v1`, below which engines report health and version."""
        return self.base.removesuffix("/v1")

    @property
    def is_loopback(self) -> bool:
        """True if the host's name or address is that of this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def address_of(url: str) -> Address:
    """The address in a URL like `http://host:8000`, also with `/v1` or a route. Raises `UsageError`."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise _no_endpoint(url) from error
    if parts.scheme not in _SCHEMES or not parts.hostname or not url.isprintable():
        raise _no_endpoint(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            Message("{field} takes a URL without user, password or parameters", field=FieldName("endpoint")),
            field="endpoint",
            hint=f"a key goes into {KEY_VARIABLE} or --api-key-file",
        )
    path = parts.path.rstrip("/")
    for route in _ROUTES:
        path = path.removesuffix(route)
    path = path if path.endswith("/v1") else f"{path}/v1"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    authority = host if port is None else f"{host}:{port}"
    base = f"{parts.scheme}://{authority}{path}"
    return Address(base, parts.hostname, parts.scheme == "https")


def _no_endpoint(url: str) -> UsageError:
    shown = _HIDDEN if "@" in url else url[:100]  # it may include a password
    return UsageError(
        f"'{shown}' is no endpoint", field="endpoint", hint="name its URL, as http://localhost:8000"
    )


def api_key(file: Path | None, environment: Mapping[str, str]) -> ApiKey | None:
    """The key in the file, else in the environment; None if there is none."""
    hint = f"{KEY_VARIABLE} or --api-key-file holds the key alone"
    try:
        text = file.read_text(encoding="ascii") if file else environment.get(KEY_VARIABLE, "")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"no key can be read from '{file}'", field="api_key_file", hint=hint) from error
    text = text.strip()
    if not (text.isascii() and text.isprintable()) or " " in text or len(text) > _LONGEST_KEY:
        raise UsageError("the key is no single word", field="api_key_file", hint=hint)
    return ApiKey(text) if text else None


SHOWN = 200  # the longest part of a server's text that is shown
_MOST_TOKENS = 10_000_000
_LOG = "the log of the server tells why"
_NO_SERVER = "name the server of the model itself, not a page or another service"


class Fault(StrEnum):
    """The reason why a request has no whole answer: a code, the text of an error, and a hint."""

    text: str
    hint: str

    def __new__(cls, code: str, text: str, hint: str) -> Self:
        """A member whose value is the code, with its text and hint."""
        fault = str.__new__(cls, code)
        fault._value_, fault.text, fault.hint = code, text, hint
        return fault

    REFUSED = (
        "refused",
        "nothing answers at {url} ({detail})",
        "start the server, and name the host and port that it listens on",
    )
    TLS = (
        "tls",
        "the certificate of {url} is not trusted ({detail})",
        "SSL_CERT_FILE names the authority that signed it",
    )
    UNAUTHORISED = (
        "unauthorised",
        "{url} refuses the request ({status}): {detail}",
        f"put the key into {KEY_VARIABLE}, or into a file for --api-key-file",
    )
    NOT_FOUND = (
        "not_found",
        "{url} does not know the route or the model ({status}): {detail}",
        "name the URL up to /v1, and the model's name on the server by --served-model",
    )
    RATE_LIMITED = (
        "rate_limited",
        "{url} limits how often it may be asked ({status}): {detail}",
        "lift the limit for this key, or ask for less by --concurrency or --rate",
    )
    BAD_REQUEST = (
        "bad_request",
        "{url} refuses what is asked ({status}): {detail}",
        "prompt and answer must fit its longest context: --input-tokens and --output-tokens",
    )
    SERVER_ERROR = "server_error", "{url} fails ({status}): {detail}", _LOG
    REDIRECTED = (
        "redirected",
        "{url} redirects ({status}) to {detail}",
        "name that one as --endpoint: a key goes to no other host by itself",
    )
    NO_STREAM = (
        "no_stream",
        "{url} does not stream: its answer is {detail}",
        "switch streaming on in the server or the proxy before it",
    )
    GARBAGE = (
        "garbage",
        "what {url} sends is no answer of an OpenAI-compatible server: {detail}",
        _NO_SERVER,
    )
    TOO_LARGE = "too_large", "{url} sends more than an answer can hold: {detail}", _NO_SERVER
    EMPTY = (
        "empty",
        "{url} ends its answers before their first token",
        f"ask for more than one by --output-tokens; {_LOG}",
    )
    CUT_OFF = "cut_off", "{url} ends an answer half-way, without saying that it is whole", _LOG
    DISCONNECTED = "disconnected", "{url} closes the connection ({detail})", _LOG
    TIMED_OUT = (
        "timed_out",
        "{url} did not answer within {detail} s",
        "see whether it still computes; a load that it can hold has fewer requests at a time",
    )


class RequestFailed(Exception):
    """A request failed. `detail` is the message of the server or the system, in one line, without the key;
    `status` the HTTP status, or 0."""

    def __init__(self, fault: Fault, detail: str = "", status: int = 0) -> None:
        super().__init__(fault, detail)
        self.fault, self.detail, self.status = fault, detail, status

    def measuring_error(self, url: str) -> MeasuringError:
        """The error of a measurement that ends because of this fault."""
        facts = {"url": url, "detail": self.detail or "-", "status": self.status}
        return MeasuringError(
            Message(self.fault.text, code=self.fault, **facts), hint=self.fault.hint, code=self.fault
        )


class Piece(NamedTuple):
    """The content of one event: text of the answer, its end, or the numbers of tokens."""

    has_text: bool = False
    is_last: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


def piece_of(event: bytes) -> Piece:
    """The content of an event. Raises `RequestFailed` for an error, and for an invalid event."""
    content: Any = None
    try:
        content = json.loads(event)
        if content.get("error"):
            raise RequestFailed(Fault.SERVER_ERROR, error_text(content), status=200)
        choices, usage = content["choices"], content.get("usage")
        usage = usage if isinstance(usage, dict) else None
        first = choices[0] if choices or usage is None else {}
        is_last = first.get("finish_reason") is not None
        has_text = _has_text(first, is_last)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise RequestFailed(Fault.GARBAGE, one_line(event[:SHOWN].decode(errors="replace"))) from error
    usage = usage or {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)
    return Piece(
        has_text, is_last, *(n if type(n) is int and 0 <= n <= _MOST_TOKENS else None for n in counts)
    )


def _has_text(choice: Mapping[str, Any], is_last: bool) -> bool:
    """Return whether a choice adds text. An empty one does (half a character), but not first or last."""
    if (text := choice.get("text")) is not None:
        return bool(text) or not is_last
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return False
    texts = [delta[name] for name in ("content", "reasoning_content", "reasoning") if name in delta]
    return any(texts) or (bool(texts) and not is_last and "role" not in delta)


def error_text(content: Mapping[str, Any]) -> str:
    """The reason in a JSON error of OpenAI, FastAPI or others."""
    error = content.get("error", content.get("detail", content.get("message", content)))
    return one_line(str(error.get("message", error) if isinstance(error, dict) else error))[:SHOWN]
