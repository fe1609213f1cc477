"""The events of a streamed answer, and the ways in which a request can fail, each with its remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from advisor.errors import MeasuringError, one_line
from advisor.messages import Message
from advisor.sweeps.measure.endpoint.address import KEY_VARIABLE

DONE = b"[DONE]"
# An event of one token has some 300 bytes, with log probabilities some thousand.
MOST_EVENT_BYTES = 1 << 20
_SHOWN = 200
_MOST_TOKENS = 10_000_000


class EventReader:
    """Bytes as they come in, events as soon as they are whole."""

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk ends; `RequestFailed` where one is too large."""
        lines = (self._rest + chunk).splitlines(keepends=True)
        # "\r" may be the half of "\r\n".
        self._rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        events = []
        for line in (line.rstrip(b"\r\n") for line in lines):
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
                self._size += len(self._data[-1])
            elif not line and self._data:  # others are comments, or fields that say nothing here
                events.append(b"\n".join(self._data))
                self._data, self._size = [], 0
        if len(self._rest) + self._size > self._most_bytes:
            raise RequestFailed(Fault.TOO_LARGE, f"more than {self._most_bytes} bytes in one event")
        return [event for event in events if event]


class Piece(NamedTuple):
    """The content of one event: some of the answer, its end, or the counts of tokens."""

    has_text: bool = False
    is_last: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


def piece_of(event: bytes) -> Piece:
    """The content of an event; `RequestFailed` for an error, and for anything that no server should send."""
    try:
        content = json.loads(event)
    except (ValueError, RecursionError) as error:
        raise RequestFailed(Fault.GARBAGE, _shown(event)) from error
    if not isinstance(content, dict):
        raise RequestFailed(Fault.GARBAGE, _shown(event))
    if content.get("error"):
        raise RequestFailed(Fault.SERVER_ERROR, error_text(content), status=200)
    choices, usage = content.get("choices"), content.get("usage")
    if not isinstance(choices, list) or not (choices or isinstance(usage, dict)):
        raise RequestFailed(Fault.GARBAGE, _shown(event))
    first = choices[0] if choices else {}
    if not isinstance(first, dict):
        raise RequestFailed(Fault.GARBAGE, _shown(event))
    is_last = first.get("finish_reason") is not None
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    counts = map(_count, (usage.get("prompt_tokens"), usage.get("completion_tokens"), cached))
    return Piece(_has_text(first, is_last), is_last, *counts)


def _has_text(choice: Mapping[str, Any], is_last: bool) -> bool:
    """Whether a token adds text; opening and ending tokens do not, half a character may."""
    if (text := choice.get("text")) is not None:
        return bool(text) or not is_last
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return False
    texts = [delta[name] for name in ("content", "reasoning_content", "reasoning") if name in delta]
    if any(texts):
        return True
    return bool(texts) and not is_last and "role" not in delta


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value <= _MOST_TOKENS else None


def error_text(content: Mapping[str, Any]) -> str:
    """The reason in a JSON error, as OpenAI, FastAPI and others write it."""
    error = content.get("error", content.get("detail", content.get("message", content)))
    if isinstance(error, dict):
        error = error.get("message", error)
    return one_line(str(error))[:_SHOWN]


def _shown(event: bytes) -> str:
    return one_line(event[:_SHOWN].decode(errors="replace"))


class Fault(StrEnum):
    """The code of a request that brought no whole answer."""

    REFUSED = "refused"
    TLS = "tls"
    UNAUTHORISED = "unauthorised"
    NOT_FOUND = "not_found"
    RATE_LIMITED = "rate_limited"
    BAD_REQUEST = "bad_request"
    SERVER_ERROR = "server_error"
    REDIRECTED = "redirected"
    NO_STREAM = "no_stream"
    GARBAGE = "garbage"
    TOO_LARGE = "too_large"
    EMPTY = "empty"
    CUT_OFF = "cut_off"
    DISCONNECTED = "disconnected"
    TIMED_OUT = "timed_out"


class RequestFailed(Exception):
    """One request failed. `detail` is what the server or the system said, in one line, without
    the key; `status` the HTTP status where there was one."""

    def __init__(self, fault: Fault, detail: str = "", status: int = 0) -> None:
        super().__init__(fault, detail)
        self.fault = fault
        self.detail = detail
        self.status = status


_KEY = f"put the key into {KEY_VARIABLE}, or into a file for --api-key-file"
_LOG = "the log of the server tells why"
# What happened, and the way out.
_WORDS: Mapping[Fault, tuple[str, str]] = {
    Fault.REFUSED: (
        "nothing answers at {url} ({detail})",
        "start the server, and name the host and port that it listens on",
    ),
    Fault.TLS: (
        "the certificate of {url} is not trusted ({detail})",
        "SSL_CERT_FILE names the authority that signed it",
    ),
    Fault.UNAUTHORISED: ("{url} refuses the request ({status}): {detail}", _KEY),
    Fault.NOT_FOUND: (
        "{url} does not know the route or the model ({status}): {detail}",
        "name the URL up to /v1, and the model's name on the server by --served-model",
    ),
    Fault.RATE_LIMITED: (
        "{url} limits how often it may be asked ({status}): {detail}",
        "lift the limit for this key, or ask for less by --concurrency or --rate",
    ),
    Fault.BAD_REQUEST: (
        "{url} refuses what is asked ({status}): {detail}",
        "prompt and answer must fit its longest context: --input-tokens and --output-tokens",
    ),
    Fault.SERVER_ERROR: ("{url} fails ({status}): {detail}", _LOG),
    Fault.REDIRECTED: (
        "{url} redirects ({status}) to {detail}",
        "name that one as --endpoint: a key goes to no other host by itself",
    ),
    Fault.NO_STREAM: (
        "{url} does not stream: its answer is {detail}",
        "switch streaming on in the server or the proxy before it",
    ),
    Fault.GARBAGE: (
        "what {url} sends is no answer of an OpenAI-compatible server: {detail}",
        "name the server of the model itself, not a page or another service",
    ),
    Fault.TOO_LARGE: (
        "{url} sends more than an answer can hold: {detail}",
        "name the server of the model itself, not a page or another service",
    ),
    Fault.EMPTY: (
        "{url} ends its answers before their first token",
        f"ask for more than one by --output-tokens; {_LOG}",
    ),
    Fault.CUT_OFF: ("{url} ends an answer half-way, without saying that it is whole", _LOG),
    Fault.DISCONNECTED: ("{url} closes the connection ({detail})", _LOG),
    Fault.TIMED_OUT: (
        "{url} did not answer within {detail} s",
        "see whether it still computes; a load that it can hold has fewer requests at a time",
    ),
}


def failure(fault: Fault, url: str, detail: str = "", status: int = 0) -> MeasuringError:
    """The error of a measurement that a fault ended."""
    text, hint = _WORDS[fault]
    message = Message(text, code=fault, url=url, detail=detail or "-", status=status)
    return MeasuringError(message, hint=hint, code=fault)


def fault_of_status(status: int) -> Fault:
    """The fault behind an HTTP status other than 200."""
    known = {
        401: Fault.UNAUTHORISED,
        403: Fault.UNAUTHORISED,
        404: Fault.NOT_FOUND,
        405: Fault.NOT_FOUND,
        429: Fault.RATE_LIMITED,
    }
    if status in known:
        return known[status]
    if 300 <= status < 400:
        return Fault.REDIRECTED
    return Fault.BAD_REQUEST if 400 <= status < 500 else Fault.SERVER_ERROR
