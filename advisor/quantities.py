"""The only place where a user's quantities are parsed; `advisor.units` prints them.

Memory is binary throughout: `GB` from a user means GiB, as clouds and tools print it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from advisor.domain import Range
from advisor.errors import UsageError
from advisor.messages import FieldName, Message

_MIB_PER_UNIT = {"mib": 1.0, "mb": 1.0, "m": 1.0, "gib": 1024.0, "gb": 1024.0, "g": 1024.0}
_MIB_PER_UNIT |= {"tib": 1024.0**2, "tb": 1024.0**2, "t": 1024.0**2}
_QUANTITY = re.compile(r"^\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]+)\s*$")


def parse_memory_mib(text: str) -> float:
    """'2GiB' -> 2048.0. A bare number has no unit and is refused."""
    match = _QUANTITY.match(text)
    unit = match.group(2).lower() if match else ""
    if not match or unit not in _MIB_PER_UNIT:
        raise UsageError(
            "'{text}' is not a size", text=text,
            hint="write it with its unit, like 512MiB, 4GiB or 1TiB",
        )  # fmt: skip
    size = float(match.group(1)) * _MIB_PER_UNIT[unit]
    if not (math.isfinite(size) and size > 0):
        raise UsageError("'{text}' is not a size above 0", text=text)
    return size


def parse_rate_mib_per_second(text: str) -> float:
    """'50MiB/s' -> 50.0."""
    amount, slash, per = text.strip().partition("/")
    if not slash or per.strip().lower() not in ("s", "sec", "second"):
        raise UsageError(
            "'{text}' is not a rate", text=text, hint="write it like 50MiB/s or 1GiB/s"
        )
    return parse_memory_mib(amount)


def parse_range(text: str, parse: Callable[[str], float]) -> Range:
    """'4..16', '4..', '..16', or '8' for 8 alone; `parse` reads an end."""
    first, dots, last = (part.strip() for part in text.partition(".."))
    if not (first or last):
        raise UsageError("'{text}' is no range", text=text, hint="write it like 4..16, 4.. or ..16")
    least = parse(first) if first else None
    most = (parse(last) if last else None) if dots else least
    if least is not None and most is not None and least > most:
        raise UsageError("'{text}' is empty", text=text, hint="write the lower end first")
    return Range(least, most)


def parse_positive(text: str, what: str) -> float:
    """A finite number above 0, or a `UsageError` that names `what`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise _refused("{what} must be a number above 0, not '{value}'", what, text)
    return value


def parse_number(value: object, what: str, *, whole: bool = False, most: float = math.inf) -> float:
    """'500' -> 500.0, a whole one as int; `UsageError` for 0, -5, nan, inf, 'abc' and too much."""
    number = parse_positive(str(value), what)
    if number > most:
        raise _refused("{what} must be at most {most:,.0f}, not '{value}'", what, value, most=most)
    if not whole:
        return number
    if number != math.floor(number):
        raise _refused("{what} must be a whole number, not '{value}'", what, value)
    return int(number)


def _refused(text: str, what: str, value: object, **parameters: object) -> UsageError:
    field = str(what) if isinstance(what, FieldName) else None
    message = Message(text, code="", **{"what": what, "value": value, **parameters})
    return UsageError(message, field=field)
