"""Kinds of fields that only runs have, and the budget of a sweep: trials, time or money.

An HTTP client may send numbers as text, and a list as one text with commas."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from advisor.domain import Measurement
from advisor.domain.workload import is_own_code
from advisor.errors import UsageError
from advisor.messages import FieldName, Message, size_text
from advisor.quantities import parse_memory_mib, parse_number
from advisor.questions.fields import (
    Choice,
    Kind,
    Network,
    Number,
    Parsed,
    Schema,
    Texts,
    client_text,
    error_in,
    json_name,
)
from advisor.questions.question import Question
from advisor.questions.reading import from_values, schema_of

# Time of a trial outside its counted window: start-up, page cache, drained batches, stages.
OVERHEAD_SECONDS = 9.0
_HOURS = {"h": 1.0, "hours": 1.0, "min": 1 / 60, "m": 1 / 60, "s": 1 / 3600}
_TRIALS = ("trials", "trial")
_WRITTEN = re.compile(r"\s*(?P<dollar>\$?)\s*(?P<number>[^a-zA-Z$\s]+)\s*(?P<unit>[a-zA-Z]*)\s*")


class Budget(Struct, frozen=True, kw_only=True):
    """A limit in exactly one of `trials`, `seconds` and `usd`, which the host's price turns into time."""

    trials: int | None = None
    seconds: float | None = None
    usd: float | None = None
    usd_per_hour: float | None = None

    def seconds_left(self, spent_seconds: float) -> float:
        """Seconds left of the budget; infinite for a budget of trials."""
        allowed = self.seconds
        if self.usd is not None and self.usd_per_hour is not None:
            allowed = 3600 * self.usd / self.usd_per_hour
        return math.inf if allowed is None else allowed - spent_seconds

    def trials_left(self, done: int, spent_seconds: float, each_seconds: float) -> int:
        """The number of further trials of `each_seconds` within the budget."""
        if self.trials is not None:
            return max(0, self.trials - done)
        return max(0, int(self.seconds_left(spent_seconds) / each_seconds))

    @property
    def ending(self) -> str:
        """The reason to give when the budget allows no further trial."""
        what = "is used up" if self.trials is not None else "has no room for another trial"
        return f"the budget of {self.text} {what}"

    @property
    def text(self) -> str:
        """The budget as a user would write it."""
        if self.trials is not None:
            return "1 trial" if self.trials == 1 else f"{self.trials} trials"
        if self.usd is not None:
            return f"{self.usd:.12g} USD"
        seconds = self.seconds or 0.0
        return f"{seconds / 60:.12g} min" if seconds >= 60 else f"{seconds:.12g} s"


def parse_budget(text: str) -> Budget:
    """The budget in '30trials', '2h', '90min', '5USD' or '$5'; `UsageError` for other texts."""
    match = _WRITTEN.fullmatch(text)
    unit = match["unit"].lower() if match else ""
    dollars = match is not None and (bool(match["dollar"]) or unit == "usd")
    is_unit = unit in _HOURS or unit in _TRIALS
    if match is None or not (is_unit or dollars) or (match["dollar"] and unit not in ("", "usd")):
        raise UsageError(
            "'{given}' is no budget",
            given=text,
            field="budget",
            hint="write it like 30trials, 2h, 90min or 5USD",
        )
    whole = unit in _TRIALS
    number = parse_number(match["number"], FieldName("budget"), whole=whole)
    if whole:
        return Budget(trials=int(number))
    return Budget(usd=number) if dollars else Budget(seconds=3600 * _HOURS[unit] * number)


def seconds_of(measurement: Measurement) -> float:
    """Approximate duration of a trial, with all its runs and failed attempts."""
    runs = [{"wall_seconds": measurement.wall_seconds}, *measurement.repeats, *measurement.attempts]
    each = OVERHEAD_SECONDS + float(measurement.trial.plan.get("warmup_seconds", 0.0))
    return sum(each + (run.get("wall_seconds") or 0.0) for run in runs)


_MOST_ITEMS = 100
_MOST_OF_ANYTHING = 1e18
_HIGHEST_PORT = 65_535


class Items(Kind):
    """Several values: '0.5,1,2', or a JSON list of texts and numbers."""

    def __init__(self, item: Kind, metavar: str, split: Callable[[str], Iterable[str]] | None = None) -> None:
        self._item = item
        self._split = split or (lambda text: text.split(","))
        self.metavar = metavar

    def from_text(self, text: str, field: str) -> tuple[Any, ...]:
        parts = [part.strip() for part in self._split(text) if part.strip()]
        if not parts:
            raise error_in(field, "{field} is empty", hint="name one, or leave it out")
        return tuple(dict.fromkeys(self._item.from_text(part, field) for part in parts))

    def from_json(self, value: Any, field: str) -> tuple[Any, ...]:
        values = value if isinstance(value, list) else [value]
        if len(values) > _MOST_ITEMS:
            raise error_in(
                field,
                "{field} has {count} items, at most {most} are taken",
                count=len(values),
                most=_MOST_ITEMS,
            )
        parts = [part for each in values for part in self._split(_typed(each, field))]
        items = (self._item.from_json(part, field) for part in parts if part.strip())
        return tuple(dict.fromkeys(items)) or self.from_text("", field)

    def text_of(self, value: Sequence[Any]) -> str:
        return ",".join(map(self._item.text_of, value))

    def schema(self) -> Schema:
        item = {"type": ["string", "number"], "maxLength": super().schema()["maxLength"]}
        return {"type": ["string", "number", "array"], "minItems": 1, "maxItems": _MOST_ITEMS, "items": item}


class Amount(Number):
    """A number, which an HTTP client may also send as text."""

    def from_json(self, value: Any, field: str) -> float:
        return self.from_text(_typed(value, field), field)

    def schema(self) -> Schema:
        return super().schema() | {"type": ["number", "string"]}


class ClientChoice(Choice):
    """One of a closed list; HTTP clients may not choose `withheld`."""

    def __init__(self, noun: str, names: Iterable[str], withheld: str) -> None:
        super().__init__(noun, names)
        self._for_clients = Choice(noun, [name for name in self.names if name != withheld])

    def from_json(self, value: Any, field: str) -> Any:
        return self._for_clients.from_json(value, field)

    def schema(self) -> Schema:
        return self._for_clients.schema()


class NetworkName(Network):
    """A known network in lower case, or the absolute path of a user's file."""

    def from_text(self, text: str, field: str) -> str:
        name = str(super().from_text(text, field))
        return str(Path(name).absolute()) if is_own_code(name) else name.lower()

    def from_json(self, value: Any, field: str) -> str:
        return client_text(value, field)


class Nested(Kind):
    """A question as a JSON object in a field of another question."""

    metavar = "JSON"

    def __init__(self, kind: type[Question]) -> None:
        self._kind = kind

    def from_json(self, value: Any, field: str) -> Any:
        if not isinstance(value, dict):
            raise error_in(field, "{field} must be an object, not {what}", what=json_name(value))
        try:
            return from_values(self._kind, value)
        except UsageError as error:
            error.field = f"{field}.{error.field}" if error.field else field
            raise

    def schema(self) -> Schema:
        return schema_of(self._kind)


class Regions(Texts):
    """Regions: a text with commas, or a JSON list."""

    def from_json(self, value: Any, field: str) -> tuple[str, ...]:
        return super().from_json(value.split(",") if isinstance(value, str) else value, field)

    def schema(self) -> Schema:
        return super().schema() | {"type": ["string", "array"]}


class DiskPath(Kind):
    """`gp3=/mnt/gp3`: a folder on a mounted disk of that type."""

    metavar = "TYPE=PATH"
    repeats = True

    def from_text(self, text: str, field: str) -> tuple[str, Path]:
        disk_type, _, path = (part.strip() for part in text.partition("="))
        if not (disk_type and path):
            raise error_in(
                field, "'{text}' names no mounted disk", text=text, hint="write it like gp3=/mnt/gp3"
            )
        folder = Path(path).absolute()
        if not folder.is_dir():
            raise error_in(
                field,
                "{field} {text}: there is no folder {folder}",
                text=text,
                folder=path,
                hint="mount the disk first",
            )
        if folder != Path("/") and _is_on_root_disk(folder):
            raise error_in(
                field,
                "{field} {text}: {folder} lies on the disk of /, so nothing is mounted there",
                text=text,
                folder=path,
                hint=Message(
                    "mount the disk first, or write {disk_type}=/ where that is the disk you mean",
                    disk_type=disk_type,
                ),
            )
        return disk_type.lower(), folder

    def text_of(self, value: tuple[str, Path]) -> str:
        return f"{value[0]}={value[1]}"


def _is_on_root_disk(folder: Path) -> bool:
    return folder.stat().st_dev == Path("/").stat().st_dev


def _typed(value: Any, field: str) -> str:
    """A JSON text or number, as a user would type it."""
    if type(value) in (int, float):
        if abs(value) > _MOST_OF_ANYTHING:  # JSON's integers have no limit
            raise error_in(field, "{field} is larger than anything that can be measured")
        return Number().text_of(value)
    return client_text(value, field)


def _parse_share(text: str) -> float:
    """'2%' -> 0.02; '0.02' -> 0.02."""
    number = Number().from_text(text.strip().rstrip("%"), "rel_error")
    share = number / 100 if text.strip().endswith("%") else number
    if share >= 1:
        raise error_in("rel_error", "{field} is a part of the rate, as 2% or 0.02, not '{text}'", text=text)
    return share


class Share(Parsed):
    """A share below 1, written 2% or 0.02."""

    def __init__(self) -> None:
        super().__init__(_parse_share, lambda share: f"{100 * share:.10g}%", "PERCENT", or_number=True)

    def from_json(self, value: Any, field: str) -> float:
        return float(self.from_text(_typed(value, field), field))


def _parse_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _HIGHEST_PORT):
        raise error_in(
            "metrics_port",
            "{field} takes 0 (a free one) to {most}, not '{text}'",
            most=_HIGHEST_PORT,
            text=text,
        )
    return int(text)


def _parse_tag(text: str) -> str:
    """The text, if AWS allows it in a tag: letters, digits, blanks and + - = . _ : / @."""
    if len(text) > 100 or not re.fullmatch(r"[\w +\-=.:/@]+", text):
        raise error_in("owner", "{field} '{text}' is no tag: letters, digits and + - = . _ : / @", text=text)
    return text


class Moment(Kind):
    """A time that must name its zone, so that the hour is never guessed."""

    metavar = "TIME"

    def from_text(self, text: str, field: str) -> datetime:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise error_in(
                field, "{field} must be a time with its zone, like 2026-11-21T03:00Z, not '{text}'", text=text
            )
        return moment

    def text_of(self, value: datetime) -> str:
        return value.astimezone(UTC).isoformat()


def _parse_region(text: str) -> str:
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-[0-9]{1,2}", text):
        raise error_in(
            "region", "{field}: '{text}' is no region of AWS", text=text, hint="write it like us-east-1"
        )
    return text


SIZE = Parsed(parse_memory_mib, size_text, "SIZE")
BUDGET = Parsed(parse_budget, lambda budget: budget.text.replace(" ", ""), "AMOUNT")
PORT = Parsed(_parse_port, str, "PORT")
TAG = Parsed(_parse_tag, str, "TEXT")
REGION = Parsed(_parse_region, str, "REGION")
