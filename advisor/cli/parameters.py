"""Parameter types: user text in, checked values out; wrong text is exit code 2 with a hint."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Any

import click

from advisor.errors import UsageError
from advisor.quantities import parse_memory_mib
from advisor.questions.words import (
    one_of,
    positive,
    probability,
    shown_text,
    some_text,
)


class Positive(click.ParamType[float]):
    """A finite number above 0."""

    name = "number"

    def __init__(self, what: str, *, whole: bool = False, most: float = math.inf) -> None:
        self.what = what
        self.whole = whole
        self.most = most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """'500' -> 500.0; UsageError for 0, -5, nan, inf and 'abc'."""
        return positive(value, self.what, whole=self.whole, most=self.most)


class Text(click.ParamType[str]):
    """Anything but nothing: an empty variable of a script is a mistake."""

    name = "text"

    def __init__(self, what: str) -> None:
        self.what = what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text without blanks around it."""
        return some_text(value, self.what)


class Shown(Text):
    """A text that is shown again: nothing in it may steer a terminal."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text without blanks around it."""
        return shown_text(value, self.what)


class Name(click.ParamType[str]):
    """One of a closed list; a mistyped one gets the nearest name."""

    name = "name"

    def __init__(self, kind: str, known: tuple[str, ...]) -> None:
        self.kind = kind
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name in lower case."""
        return one_of(value, self.kind, self.known)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Show the list in --help; click passes both by name."""
        return f"[{'|'.join(self.known)}]"


class Size(click.ParamType[float]):
    """A size of memory in MiB."""

    name = "SIZE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """'24GiB' -> 24576.0."""
        return value if isinstance(value, float) else parse_memory_mib(str(value))


class Day(click.ParamType[date]):
    """A date."""

    name = "YYYY-MM-DD"

    def __init__(self, what: str) -> None:
        self.what = what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """'2026-07-20' -> that day."""
        try:
            return value if isinstance(value, date) else date.fromisoformat(str(value))
        except ValueError:
            raise UsageError(f"{self.what} must be a date like 2026-07-20, not '{value}'") from None


class Instant(click.ParamType[datetime]):
    """A moment, with its zone: never a guess of which hour was meant."""

    name = "time"

    def __init__(self, what: str) -> None:
        self.what = what

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """'2026-11-21T03:00Z' -> that moment."""
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise UsageError(
                f"{self.what} must be a time with its zone, like 2026-11-21T03:00Z, not '{value}'"
            )
        return moment


class Confidence(click.ParamType[float]):
    """A probability from 0.5 up to, not including, 1."""

    name = "probability"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """'0.9' -> 0.9; '90' is told to be 0.9."""
        return probability(value)
