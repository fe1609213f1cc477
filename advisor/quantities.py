"""Parses all quantities that users write; `advisor.messages` prints them.

Sizes are binary: a user's `GB` means GiB (2**30 bytes), as clouds and tools use it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime

from advisor.domain import Range
from advisor.errors import UsageError
from advisor.messages import FieldName, Message

_MIB_PER_UNIT = {"mib": 1.0, "mb": 1.0, "m": 1.0, "gib": 1024.0, "gb": 1024.0, "g": 1024.0}
_MIB_PER_UNIT |= {"tib": 1024.0**2, "tb": 1024.0**2, "t": 1024.0**2}
_QUANTITY = re.compile(r"\s*([0-9.,_]+)\s*([a-zA-Z]+)\s*")
# A range with a dash, which is written with two points: '4-16', '0.5GiB - 2GiB'.
DASHED = re.compile(r"\s*([^-\s]+)\s*-\s*([^-\s]+)\s*")
_GROUPED = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")
_POWERS = {"k": 3, "thousand": 3, "m": 6, "million": 6, "b": 9, "bn": 9, "billion": 9}
# A number such as '5.000', where the point may separate thousands; no program prints such zeros.
_POINTED = re.compile(r"[1-9][0-9]{0,2}\.[0-9]{2}0")


def parse_memory_mib(text: str) -> float:
    """The MiB of a size: '2GiB' -> 2048.0. Raises `UsageError` for any other text and for a missing unit."""
    match = _QUANTITY.fullmatch(text)
    unit = match.group(2).lower() if match else ""
    if not match or unit not in _MIB_PER_UNIT:
        raise UsageError(
            "'{text}' is not a size", text=text, hint="write it with its unit, like 512MiB, 4GiB or 1TiB"
        )
    size = read_number(match.group(1)) * _MIB_PER_UNIT[unit]
    if not (math.isfinite(size) and size > 0):
        raise UsageError("'{text}' is not a size above 0", text=text, hint=_WRITTEN)
    return size


def parse_rate_mib_per_second(text: str) -> float:
    """The MiB/s of a rate: '50MiB/s' -> 50.0. Raises `UsageError` for any other text."""
    amount, slash, per = text.strip().partition("/")
    if not slash or per.strip().lower() not in ("s", "sec", "second"):
        raise UsageError("'{text}' is not a rate", text=text, hint="write it like 50MiB/s or 1GiB/s")
    return parse_memory_mib(amount)


def parse_range(text: str, parse: Callable[[str], float]) -> Range:
    """The range in '4..16', '4..', '..16', or '8' (only 8); `parse` reads each end. `UsageError` if empty."""
    first, dots, last = (part.strip() for part in text.partition(".."))
    dashed = None if dots else DASHED.fullmatch(text)
    if dashed or not (first or last) or first.endswith("-"):
        hint = Message("write it like 4..16, 4.. or ..16")
        if dashed:
            hint = Message("write it as {least}..{most}", least=dashed[1], most=dashed[2])
        raise UsageError("'{text}' is no range", text=text, hint=hint)
    least = parse(first) if first else None
    most = (parse(last) if last else None) if dots else least
    if least is not None and most is not None and least > most:
        raise UsageError("'{text}' is empty", text=text, hint="write the lower end first")
    return Range(least, most)


def read_number(text: str, *, counted: bool = False, field: str | None = None) -> float:
    """The number in '5000', '5,000', '5_000' or '5e3'; NaN if the text is no number.

    If `counted` (samples, tokens), it may also be '5k', '50M' or '1.5 billion'.
    Raises `UsageError` for '5.000', which means 5000 in some countries and 5 in others."""
    digits, power = text.strip(), 0
    if counted and (scaled := _QUANTITY.fullmatch(digits)) and scaled[2].lower() in _POWERS:
        digits, power = scaled[1], _POWERS[scaled[2].lower()]
    elif _POINTED.fullmatch(digits) and (counted or digits.endswith(".000")):
        few, many = digits.rstrip("0").rstrip("."), digits.replace(".", "")
        hint = Message("write {few} or {many}", few=few, many=many)
        raise UsageError(
            "'{text}' may mean {few} or {many}", text=text, few=few, many=many, field=field, hint=hint
        )
    if _GROUPED.fullmatch(digits):
        digits = digits.replace(",", "")
    try:
        return float(f"{digits}e{power}" if power else digits)
    except ValueError:
        return math.nan


def write_number(value: float) -> str:
    """A short text that `read_number` reads as exactly this value: '500', not '500.0'."""
    text = f"{value:.12g}"
    return text if float(text) == value else repr(value)


def parse_positive(text: str, what: str, *, counted: bool = False) -> float:
    """The number in a text. Raises `UsageError`, which names `what`, unless it is finite and above 0."""
    value = read_number(text, counted=counted, field=_field_of(what))
    if not (math.isfinite(value) and value > 0):
        said = Message("{what} must be a number above 0, not '{value}'", what=what, value=text)
        written = (_COUNTED if counted else _WRITTEN) if math.isnan(value) else None
        if what.endswith("_ms") and (seconds := _SECONDS.fullmatch(text.strip())):
            written = Message("in ms: {ms:g}", ms=1000 * float(seconds[1]))
        raise UsageError(said, hint=written, field=_field_of(what))
    return value


def parse_number(
    value: object, what: str, *, whole: bool = False, counted: bool = False, most: float = math.inf
) -> float:
    """'500' -> 500.0, or an int if `whole`. `UsageError` for 0, -5, nan, inf, 'abc' and above `most`."""
    number = parse_positive(str(value), what, counted=counted)
    if number > most:
        said = Message("{what} must be at most {most:,.0f}, not '{value}'", what=what, most=most, value=value)
        raise UsageError(said, field=_field_of(what))
    if not whole:
        return number
    if number != math.floor(number):
        said = Message("{what} must be a whole number, not '{value}'", what=what, value=value)
        raise UsageError(said, hint=_COUNTED, field=_field_of(what))
    return int(number)


_SECONDS = re.compile(r"(\d+\.?\d*) ?s")
_WRITTEN = Message("write it like 5000, 5,000 or 0.5")
_COUNTED = Message("write it like 5000, 5,000, 5k or 1.5M")


def _field_of(what: str) -> str | None:
    return str(what) if isinstance(what, FieldName) else None


def moment_of(text: str) -> datetime | None:
    """The time in an ISO 8601 text as an aware datetime (UTC if it has no zone); None for other texts."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
