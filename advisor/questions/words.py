"""One word of a question -> a checked value; a wrong one is a `UsageError` that says what is right.

The command line and the service both read by these, so neither takes what the other refuses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from advisor.errors import UsageError, unknown_name
from advisor.quantities import parse_positive


def positive(value: Any, what: str, *, whole: bool = False, most: float = math.inf) -> float:
    """'500' -> 500.0; `UsageError` for 0, -5, nan, inf and 'abc'."""
    number = parse_positive(str(value), what)
    if number > most:
        raise UsageError(f"{what} must be at most {most:,.0f}, not '{value}'")
    if not whole:
        return number
    if number != math.floor(number):
        raise UsageError(f"{what} must be a whole number, not '{value}'")
    return int(number)


def some_text(value: Any, what: str) -> str:
    """The text without blanks around it; nothing at all is a mistake."""
    text = str(value).strip()
    if not text:
        raise UsageError(f"{what} is empty; name one, or leave it out")
    return text


def shown_text(value: Any, what: str) -> str:
    """A text that is shown again: nothing in it may steer a terminal."""
    text = some_text(value, what)
    if not text.isprintable():
        raise UsageError(f"{what} has characters that cannot be shown: {text!r}")
    return text


def one_of(value: Any, kind: str, known: Sequence[str]) -> str:
    """One of a closed list in lower case; a mistyped one gets the nearest name."""
    text = str(value).lower()
    if text not in known:
        raise unknown_name(kind, str(value), known)
    return text


def probability(value: Any, what: str = "--confidence") -> float:
    """A probability from 0.5 up to, not including, 1: '0.9' -> 0.9."""
    number = parse_positive(str(value), what)
    if not 0.5 <= number < 1:
        raise UsageError(f"{what} must lie between 0.5 and 1 (as 0.9), not '{value}'")
    return number
