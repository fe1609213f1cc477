"""Server-sent events of an answer that streams, and what one of them says.

The framing is that of the WHATWG's "Server-sent events"; the content that of OpenAI's completions
and chat completions, as vLLM, SGLang, llama.cpp and transformers send them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from advisor.errors import one_line
from advisor.sweeps.endpoint.faults import Fault, RequestFailed

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
        for line in lines:
            if event := self._event_after(line.rstrip(b"\r\n")):
                events.append(event)
        if len(self._rest) + self._size > self._most_bytes:
            raise RequestFailed(Fault.TOO_LARGE, f"more than {self._most_bytes} bytes in one event")
        return events

    def _event_after(self, line: bytes) -> bytes:
        """The event's data where an empty line ends it."""
        if line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            self._data.append(value)
            self._size += len(value)
            return b""
        if line or not self._data:
            return b""  # a comment, or a field that says nothing here
        event = b"\n".join(self._data)
        self._data, self._size = [], 0
        return event


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
    return Piece(_has_text(first, is_last), is_last, *_counts(usage))


def _has_text(choice: Mapping[str, Any], is_last: bool) -> bool:
    """A token may add no letter (half of a character): its event counts all the same. One that
    only opens a chat or ends the answer does not."""
    if (text := choice.get("text")) is not None:
        return bool(text) or not is_last
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return False
    texts = [delta[name] for name in ("content", "reasoning_content", "reasoning") if name in delta]
    if any(texts):
        return True
    return bool(texts) and not is_last and "role" not in delta


def _counts(usage: Any) -> tuple[int | None, int | None, int | None]:
    if not isinstance(usage, dict):
        return None, None, None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return (_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached))


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
