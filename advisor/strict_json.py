"""Checks JSON from clients for values that parse but that databases or other readers cannot hold.

The text is searched before it is parsed, which takes microseconds; only suspicious texts are parsed
here to be sure. Invalid JSON passes these checks, and the parser reports it later."""

from __future__ import annotations

import json
import math
import re

MOST_DEPTH = 32
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_MOST_DIGITS = 20  # with the sign
# Numbers to check: 19 digits may exceed 64 bits, and an exponent of three digits may exceed a double.
_LONG_NUMBER = re.compile(rb"[0-9]{19}|[eE]\+?[0-9]{3}")


class UnfitError(ValueError):
    """A value that cannot be held; `kind` is the code of the fault, such as 'too-deep'."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def check_json(text: bytes) -> None:
    """Raise `UnfitError` for nesting deeper than `MOST_DEPTH`, integers beyond 64 bits, other numbers
    beyond a double, null characters, and unpaired surrogates."""
    _check_depth(text)
    if _LONG_NUMBER.search(text):
        _parse(text, parse_int=_in_64_bits, parse_float=_finite)
    if b"\\u" in text:
        _check_escapes(text)


def _check_depth(text: bytes) -> None:
    """Raise `UnfitError` for deep nesting. Brackets in strings do not count; most texts have few at all."""
    if text.count(b"[") + text.count(b"{") <= MOST_DEPTH:
        return
    depth = 0
    for bracket in _STRINGS.sub(b"", text).translate(None, _NO_BRACKETS):
        depth += _STEP[bracket]
        if depth > MOST_DEPTH:
            raise UnfitError("too-deep", f"nested deeper than {MOST_DEPTH} levels")


def _check_escapes(text: bytes) -> None:
    if b"\\u0000" in text:
        raise UnfitError("null-character", "a null character has no place in a text")
    if b"\\ud" in text or b"\\uD" in text:
        try:
            json.dumps(_parse(text), ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise UnfitError("half-character", "half of a surrogate pair is no character") from None


def _parse(text: bytes, **hooks: object) -> object:
    try:
        return json.loads(text, **hooks)  # type: ignore[arg-type]
    except UnfitError:
        raise
    except (ValueError, RecursionError):
        return None  # invalid JSON: the real parser reports it


def _in_64_bits(digits: str) -> int:
    if len(digits) > _MOST_DIGITS or not -(2**63) <= int(digits) < 2**63:
        raise UnfitError("large-number", "a whole number lies beyond 64 bits")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise UnfitError("large-number", "a number lies beyond what a double holds")
    return number
