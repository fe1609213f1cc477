"""The kinds of fields that runs have beside those of `advisor.questions.fields`.

A client over HTTP may write numbers as texts, and a list as one text with commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from advisor.domain.workload import is_own
from advisor.errors import UsageError
from advisor.messages import Message
from advisor.quantities import parse_memory_mib
from advisor.questions.fields import (
    Choice,
    Kind,
    Network,
    Parsed,
    Schema,
    Texts,
    client_text,
    json_name,
    wrong,
)
from advisor.questions.numbers import Number
from advisor.questions.question import Question
from advisor.questions.reading import from_values, schema_of
from advisor.runs.budget import parse_budget
from advisor.units import size_text

_MOST_ITEMS = 100
_MOST_OF_ANYTHING = 1e18
_HIGHEST_PORT = 65_535


class Items(Kind):
    """Several values: '0.5,1,2' as text, or a JSON list of texts and numbers."""

    def __init__(self, item: Kind, metavar: str, split: Callable[[str], Iterable[str]] | None = None) -> None:
        self._item = item
        self._split = split or (lambda text: text.split(","))
        self.metavar = metavar

    def from_text(self, text: str, field: str) -> tuple[Any, ...]:
        parts = [part.strip() for part in self._split(text) if part.strip()]
        if not parts:
            raise wrong(field, "{field} is empty", hint="name one, or leave it out")
        return tuple(dict.fromkeys(self._item.from_text(part, field) for part in parts))

    def from_json(self, value: Any, field: str) -> tuple[Any, ...]:
        values = value if isinstance(value, list) else [value]
        if len(values) > _MOST_ITEMS:
            raise wrong(
                field,
                "{field} has {count} items, at most {most} are taken",
                count=len(values),
                most=_MOST_ITEMS,
            )
        parts = [part for each in values for part in self._split(_typed(each, field))]
        items = (self._item.from_json(part, field) for part in parts if part.strip())
        values_once = tuple(dict.fromkeys(items))
        return values_once or self.from_text("", field)

    def text_of(self, value: Sequence[Any]) -> str:
        return ",".join(map(self._item.text_of, value))

    def schema(self) -> Schema:
        item = {"type": ["string", "number"], "maxLength": super().schema()["maxLength"]}
        return {"type": ["string", "number", "array"], "minItems": 1, "maxItems": _MOST_ITEMS, "items": item}


class Amount(Number):
    """A number, which a client may write as a text, too."""

    def from_json(self, value: Any, field: str) -> float:
        return self.from_text(_typed(value, field), field)

    def schema(self) -> Schema:
        return super().schema() | {"type": ["number", "string"]}


class ClientChoice(Choice):
    """One of a closed list, of which a client may not have `withheld`."""

    def __init__(self, noun: str, names: Iterable[str], withheld: str) -> None:
        super().__init__(noun, names)
        self._for_clients = Choice(noun, [name for name in self.names if name != withheld])

    def from_json(self, value: Any, field: str) -> Any:
        return self._for_clients.from_json(value, field)

    def schema(self) -> Schema:
        return self._for_clients.schema()


class NetworkName(Network):
    """A known network in lower case, or a file of one's own, from the folder one stands in."""

    def from_text(self, text: str, field: str) -> str:
        name = str(super().from_text(text, field))
        return str(Path(name).absolute()) if is_own(name) else name.lower()

    def from_json(self, value: Any, field: str) -> str:
        return client_text(value, field)


class Nested(Kind):
    """A question within another one's body."""

    metavar = "JSON"

    def __init__(self, kind: type[Question]) -> None:
        self._kind = kind

    def from_json(self, value: Any, field: str) -> Any:
        if not isinstance(value, dict):
            raise wrong(field, "{field} must be an object, not {what}", what=json_name(value))
        try:
            return from_values(self._kind, value)
        except UsageError as error:
            error.field = f"{field}.{error.field}" if error.field else field
            raise

    def schema(self) -> Schema:
        return schema_of(self._kind)


class Regions(Texts):
    """Regions: a text with commas, or a list."""

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
            raise wrong(field, "'{text}' names no mounted disk", text=text, hint="write it like gp3=/mnt/gp3")
        folder = Path(path).absolute()
        if not folder.is_dir():
            raise wrong(
                field,
                "{field} {text}: there is no folder {folder}",
                text=text,
                folder=path,
                hint="mount the disk first",
            )
        if folder != Path("/") and _is_on_root_disk(folder):
            raise wrong(
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
    """A text or a number of JSON as somebody would type it."""
    if type(value) in (int, float):
        if abs(value) > _MOST_OF_ANYTHING:  # JSON's integers have no limit
            raise wrong(field, "{field} is larger than anything that can be measured")
        return Number().text_of(value)
    return client_text(value, field)


def _parse_share(text: str) -> float:
    """'2%' -> 0.02; a bare number is a share: 0.02."""
    number = Number().from_text(text.strip().rstrip("%"), "rel_error")
    share = number / 100 if text.strip().endswith("%") else number
    if share >= 1:
        raise wrong("rel_error", "{field} is a part of the rate, as 2% or 0.02, not '{text}'", text=text)
    return share


class Share(Parsed):
    """A part of 1: 2% or 0.02."""

    def __init__(self) -> None:
        super().__init__(_parse_share, lambda share: f"{100 * share:.10g}%", "PERCENT", or_number=True)

    def from_json(self, value: Any, field: str) -> float:
        return float(self.from_text(_typed(value, field), field))


def _parse_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _HIGHEST_PORT):
        raise wrong(
            "metrics_port",
            "{field} takes 0 (a free one) to {most}, not '{text}'",
            most=_HIGHEST_PORT,
            text=text,
        )
    return int(text)


def _parse_tag(text: str) -> str:
    """Tags of AWS take letters, digits, blanks and + - = . _ : / @."""
    if len(text) > 100 or not re.fullmatch(r"[\w +\-=.:/@]+", text):
        raise wrong("owner", "{field} '{text}' is no tag: letters, digits and + - = . _ : / @", text=text)
    return text


class Moment(Kind):
    """A time with its zone: never a guess of which hour was meant."""

    metavar = "TIME"

    def from_text(self, text: str, field: str) -> datetime:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise wrong(
                field, "{field} must be a time with its zone, like 2026-11-21T03:00Z, not '{text}'", text=text
            )
        return moment

    def text_of(self, value: datetime) -> str:
        return value.astimezone(UTC).isoformat()


def _parse_region(text: str) -> str:
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-[0-9]{1,2}", text):
        raise wrong(
            "region", "{field}: '{text}' is no region of AWS", text=text, hint="write it like us-east-1"
        )
    return text


SIZE = Parsed(parse_memory_mib, size_text, "SIZE")
BUDGET = Parsed(parse_budget, lambda budget: budget.text.replace(" ", ""), "AMOUNT")
PORT = Parsed(_parse_port, str, "PORT")
TAG = Parsed(_parse_tag, str, "TEXT")
REGION = Parsed(_parse_region, str, "REGION")
