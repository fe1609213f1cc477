"""Types of options that belong to no question: text in, checked values out.

Wrong text is exit code 2 with a hint. The options of questions come from `advisor.cli.questions`.
"""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import click

from advisor.cli.questions import FieldType
from advisor.errors import UsageError
from advisor.questions.fields import Choice, Kind, Number
from advisor.questions.fields import Text as ShownText


class _Option(FieldType):
    """A type for an option that is called `what`, as '--max-minutes'."""

    def __init__(self, what: str, kind: Kind) -> None:
        super().__init__(kind, what.removeprefix("--").replace("-", "_"))


class Positive(_Option):
    """A finite number above 0."""

    def __init__(self, what: str, *, whole: bool = False, most: float = math.inf) -> None:
        super().__init__(what, Number(whole=whole, most=most))


class Text(_Option):
    """Anything but nothing: an empty variable of a script is a mistake."""

    def __init__(self, what: str) -> None:
        super().__init__(what, Kind())


class Shown(_Option):
    """A text that is shown again: nothing in it may steer a terminal."""

    def __init__(self, what: str) -> None:
        super().__init__(what, ShownText())


class Name(_Option):
    """One of a closed list, a `noun`; a mistyped one gets the nearest name."""

    def __init__(self, noun: str, known: tuple[str, ...]) -> None:
        super().__init__(noun, Choice(noun, known))
        self.known = known


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
