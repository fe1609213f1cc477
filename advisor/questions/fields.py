"""The kinds of fields that questions have: how each is read, printed and described.

A field is declared once, in a question, by `advisor.questions.question.ask`: `max_price: float | None =
ask("USD per hour, disk included.", Number(), default=None)`. Command-line options, HTTP fields, their schemas
and the text that asks the question again follow from it. A value comes as text (on a command line, in a plan
or a link) or as JSON; a client over HTTP (`from_json`, `from_link`) has narrower limits than a person at a
keyboard.

Any bad value raises a `UsageError` that names its `field`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from advisor.domain.money import HOURS_PER_MONTH
from advisor.domain.words import PERCENTILES
from advisor.domain.workload import names_a_file
from advisor.errors import UsageError, unknown_name
from advisor.messages import FieldName, Message
from advisor.quantities import parse_memory_mib, parse_number, read_number, write_number

Schema = dict[str, Any]
LONGEST_TEXT = 300
MOST_ITEMS = 64
_YES, _NO = ("true", "yes", "on"), ("false", "no", "off")


def error_in(
    field: str, text: str, /, *, hint: Message | str | None = None, code: str = "", **parameters: object
) -> UsageError:
    """The error of one field. In text and hint `{field}` is its name as the reader knows it, and any other
    placeholder without a parameter is the name of another field."""
    if isinstance(hint, str):
        hint = Message(hint, code="", **_field_names(hint, field))
    message = Message(text, code=code, **(_field_names(text, field) | parameters))
    return UsageError(message, hint=hint, field=field, code=code)


def _field_names(text: str, field: str) -> dict[str, object]:
    names = [name for _, name, _, _ in Formatter().parse(text) if name]
    return {name: FieldName(field if name == "field" else name) for name in names}


class Kind:
    """A text, and the base of all kinds. `repeats`: the field may be given several times."""

    metavar = "TEXT"
    repeats = False

    def from_text(self, text: str, field: str) -> Any:
        """The value in a text on a command line or in a plan."""
        return some_text(text, field)

    def from_texts(self, texts: Sequence[str], field: str) -> Any:
        """The value in several texts: one item each if the field repeats, else all joined by commas."""
        if self.repeats:
            return tuple(self.from_text(text, field) for text in texts)
        return self.from_text(",".join(texts), field)

    def from_json(self, value: Any, field: str) -> Any:
        """The value in a client's JSON."""
        return self.from_text(client_text(value, field), field)

    def from_link(self, texts: Sequence[str], field: str) -> Any:
        """The value in the query of a client's link."""
        return self.from_json(only_text(texts, field), field)

    def text_of(self, value: Any) -> str:
        """The text of a value, which `from_text` reads again."""
        return str(value)

    def normalized(self, value: Any) -> Any:
        """The value as a question stores it."""
        return value

    def schema(self) -> Schema:
        """JSON Schema of the value."""
        return {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}


class Text(Kind):
    """A text that is printed again, so it must not contain control characters of a terminal."""

    def __init__(self, metavar: str = "TEXT") -> None:
        self.metavar = metavar

    def from_text(self, text: str, field: str) -> str:
        return shown_text(text, field)


class Network(Text):
    """The name of a network. A client may not name a file: no file of the server is opened for one."""

    def __init__(self) -> None:
        super().__init__("NAME|FILE.py:BUILD")

    def from_json(self, value: Any, field: str) -> str:
        name = str(super().from_json(value, field))
        if names_a_file(name):
            raise error_in(
                field,
                "{field} names a file, and no file is opened for a client",
                hint="take a name from the list of networks, or ask by `advisor` where the file is",
            )
        return name


class Choice(Kind):
    """One of a closed list, in any case, or by a name in `also`; errors name the nearest. The word `every`
    is stored as None."""

    def __init__(self, noun: str, names: Iterable[str], *, every: str = "", **also: str) -> None:
        self.noun = noun
        self.every = every
        self.names = tuple(str(name) for name in names)
        self._members = {str(name).lower(): name for name in names} | also
        self.metavar = f"[{'|'.join(self.names)}]"

    def from_text(self, text: str, field: str) -> Any:
        member = self._members.get(text.strip().lower())
        if member is None:
            raise unknown_name(self.noun, text, self.names, field=field)
        return member

    def text_of(self, value: Any) -> str:
        return self.every if value is None else str(value)

    def normalized(self, value: Any) -> Any:
        return None if self.every and value == self.every else value

    def schema(self) -> Schema:
        return {"type": "string", "enum": list(self.names)}


class KnownOrPath(Kind):
    """A known name, or a path on this machine, which a client may not give."""

    def __init__(self, noun: str, names: Sequence[str], metavar: str) -> None:
        self._known = Choice(noun, names)
        self.metavar = metavar

    def from_json(self, value: Any, field: str) -> Any:
        return self._known.from_json(value, field)

    def schema(self) -> Schema:
        return self._known.schema()


class Flag(Kind):
    """Yes or no."""

    metavar = ""

    def from_text(self, text: str, field: str) -> bool:
        if text.lower() not in (*_YES, *_NO):
            raise error_in(field, "{field} is true or false, not '{text}'", text=text)
        return text.lower() in _YES

    def from_json(self, value: Any, field: str) -> bool:
        if not isinstance(value, bool):
            raise error_in(field, "{field} must be true or false, not {what}", what=json_name(value))
        return value

    def from_link(self, texts: Sequence[str], field: str) -> bool:
        text = only_text(texts, field).lower()
        if text not in ("true", "false"):
            raise error_in(field, "{field} must be true or false, not '{text}'", text=text)
        return text == "true"

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Parsed(Kind):
    """A value with its own syntax. `or_number` also takes JSON numbers, `joins` joins repeated texts."""

    def __init__(
        self,
        parse: Callable[[str], Any],
        write: Callable[[Any], str],
        metavar: str,
        *,
        or_number: bool = False,
        joins: bool = False,
    ) -> None:
        self._parse = parse
        self._write = write
        self._or_number = or_number
        self.joins = joins
        self.metavar = metavar

    def from_text(self, text: str, field: str) -> Any:
        try:
            return self._parse(shown_text(text, field))
        except UsageError as error:
            error.field = error.field or field
            raise

    def from_link(self, texts: Sequence[str], field: str) -> Any:
        return self.from_json(",".join(texts) if self.joins else only_text(texts, field), field)

    def from_json(self, value: Any, field: str) -> Any:
        if self._or_number and type(value) in (int, float):
            value = f"{value:g}" if value != int(value) else str(int(value))
        return super().from_json(value, field)

    def text_of(self, value: Any) -> str:
        return self._write(value)

    def schema(self) -> Schema:
        schema = super().schema()
        if self._or_number:
            schema |= {"type": ["string", "number"], "exclusiveMinimum": 0}
        return schema


class Texts(Text):
    """Several texts, by repeating the option or the word of a link."""

    repeats = True

    def from_json(self, value: Any, field: str) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise error_in(field, "{field} must be a list of texts, not {what}", what=json_name(value))
        if not 1 <= len(value) <= MOST_ITEMS:
            raise error_in(
                field, "{field} takes 1 to {most} texts, not {count}", most=MOST_ITEMS, count=len(value)
            )
        return tuple(self.from_text(client_text(item, field), field) for item in value)

    def from_link(self, texts: Sequence[str], field: str) -> tuple[str, ...]:
        return self.from_json(list(texts), field)

    def schema(self) -> Schema:
        return {"type": "array", "minItems": 1, "maxItems": MOST_ITEMS, "items": super().schema()}


def comma_parts(text: str) -> list[str]:
    """The parts of a text between its commas, without spaces around them; empty ones are left out."""
    return [part.strip() for part in text.split(",") if part.strip()]


class Names(Texts):
    """Several names, by repeating the option or with commas between."""


class File(Kind):
    """A file of this machine; a client may not give one."""

    metavar = "FILE"

    def from_text(self, text: str, field: str) -> Path:
        return Path(some_text(text, field))


class Files(File):
    """Several files of this machine, by repeating the option."""

    repeats = True


class Place(Kind):
    """A file or folder of this machine, or an address (s3://bucket/prefix); a client may not give one."""

    metavar = "PATH"


def some_text(value: Any, field: str) -> str:
    """The text without surrounding blanks; `UsageError` for an empty one, often a script's mistake."""
    text = str(value).strip()
    if not text:
        raise error_in(field, "{field} is empty", hint="name one, or leave it out")
    return text


def shown_text(value: Any, field: str) -> str:
    """A text that may be printed again; `UsageError` for control characters of a terminal."""
    text = some_text(value, field)
    if not text.isprintable():
        raise error_in(field, "{field} has characters that cannot be shown: {text!r}", text=text)
    return text


def client_text(value: Any, field: str) -> str:
    """A text from a client's JSON; `UsageError` if it is empty, too long or not printable."""
    if not isinstance(value, str):
        raise error_in(field, "{field} must be a text, not {what}", what=json_name(value))
    if len(value) > LONGEST_TEXT:
        raise error_in(
            field, "{field} is longer than {most} characters", most=LONGEST_TEXT, hint="make it shorter"
        )
    return shown_text(value, field)


def json_name(value: Any) -> str:
    """The kind of a JSON value in words, for errors: the value may be huge."""
    if value is None:
        return "null"
    return {bool: "a boolean", str: "a text", list: "a list", dict: "an object"}.get(type(value), "a number")


def only_text(texts: Sequence[str], field: str) -> str:
    """The text of a field in a link; `UsageError` where it is given several times."""
    if len(texts) > 1:
        raise error_in(field, "{field} is given {count} times", count=len(texts), hint="give it once")
    return texts[0]


# Largest whole number that a double holds exactly, as JSON readers use doubles.
_MOST_WHOLE = 2**53


class Number(Kind):
    """A finite number above 0; `counted` ones, such as all whole ones, may be written 5k or 1.5M."""

    metavar = "NUMBER"

    def __init__(
        self,
        *,
        whole: bool = False,
        counted: bool = False,
        most: float = math.inf,
        client_most: float = math.inf,
        metavar: str = "NUMBER",
    ) -> None:
        self.whole = whole
        self.counted = counted or whole
        self.most = most
        self.client_most = min(most, client_most, _MOST_WHOLE if whole else math.inf)
        self.metavar = metavar

    def from_text(self, text: str, field: str) -> float:
        if self.metavar == "RATE":
            text = re.sub(r"(?<=[\dkM]) ?/ ?s(ec)?$", "", text.strip())
        if self.metavar == "USD":
            text = re.sub(r"^\$ ?(?=[\d.,]+$)", "", text.strip())
        try:
            return self._checked(text, field, self.most)
        except UsageError as error:
            if field.endswith("_ms") and (
                time := re.fullmatch(r"(?:p\d+:)?(\d+\.?\d*) ?(m?)s", text.strip())
            ):
                error.hint = Message("in ms: {ms:g}", ms=float(time[1]) * (1 if time[2] else 1000))
            if field == "max_latency_ms" and (tail := re.fullmatch(r"p\d+:?(\d*\.?\d*)", text.strip())):
                error.hint = Message("it is always the p99 of a batch: write {ms}", ms=tail[1] or "50")
            if field == "dataset_samples" and text.strip() == "0":
                error.hint = "write 1 where nothing has to lie on the disk"
            if self.metavar == "USD" and (usd := re.fullmatch(r"\$?(\d+\.?\d*) ?/ ?mo(nth)?", text.strip())):
                error.hint = Message("in USD an hour: {usd:.3g}", usd=float(usd[1]) / HOURS_PER_MONTH)
            raise

    def from_texts(self, texts: Sequence[str], field: str) -> float:
        return self.from_text(only_text(texts, field), field)

    def from_json(self, value: Any, field: str) -> float:
        if type(value) not in (int, float):
            raise error_in(field, "{field} must be a number, not {what}", what=json_name(value))
        return self._checked(value, field, self.client_most)

    def from_link(self, texts: Sequence[str], field: str) -> float:
        return self._checked(only_text(texts, field), field, self.client_most)

    def text_of(self, value: Any) -> str:
        return write_number(value)

    def schema(self) -> Schema:
        schema: Schema = {"type": "integer" if self.whole else "number", "exclusiveMinimum": 0}
        if math.isfinite(self.client_most):
            schema["maximum"] = self.client_most
        return schema

    def _checked(self, value: Any, field: str, most: float) -> float:
        return parse_number(value, FieldName(field), whole=self.whole, counted=self.counted, most=most)


class Hours(Number):
    """A time in hours, which may be written as 3h or 2d."""

    def from_text(self, text: str, field: str) -> float:
        time = re.fullmatch(r"(\d+\.?\d*) ?(h|d)", text.strip())
        return super().from_text(
            f"{float(time[1]) * (24 if time[2] == 'd' else 1):g}" if time else text, field
        )


# Samples or tokens per second.
RATE = Number(counted=True, metavar="RATE")


class TimeLimit(NamedTuple):
    """The upper limit of a time, in ms or (of whole requests) seconds: of the mean request, or of a
    `percentile` of requests."""

    field: str
    percentile: int | None
    most: float

    @classmethod
    def parse(cls, field: str, value: float | str) -> TimeLimit:
        """The limit in a field's value: 2000, or 'p99:2000'."""
        percentile, found, most = str(value).rpartition(":")
        return cls(field, int(percentile[1:]) if found else None, float(most))

    @property
    def reason(self) -> str:
        """The time that is limited: 'ttft', 'tpot' or 'e2e'."""
        return self.field.split("_")[1]

    @property
    def unit(self) -> float:
        """Units of the limit per second: 1000 for ms, else 1."""
        return 1000.0 if self.field.endswith("_ms") else 1.0

    def written(self, most: float) -> float | str:
        """A field's value for this limit with another upper end."""
        return most if self.percentile is None else self.text(most)

    def text(self, most: float) -> str:
        """Return a limit as options take it: '2000', 'p99:2000'."""
        return f"{most:.12g}" if self.percentile is None else f"p{self.percentile}:{most:.12g}"


class Latency(Number):
    """A limit on the mean of a time, or after `p99:` on a percentile."""

    _TAIL = re.compile(rf"p({'|'.join(map(str, PERCENTILES))}):([^:]*)", re.IGNORECASE)

    def __init__(self, unit: str) -> None:
        super().__init__(metavar=f"[pN:]{unit}")

    def from_json(self, value: Any, field: str) -> Any:
        return (
            self._checked(value, field, self.client_most)
            if isinstance(value, str)
            else super().from_json(value, field)
        )

    def text_of(self, value: Any) -> str:
        return value if isinstance(value, str) else super().text_of(value)

    def schema(self) -> dict[str, Any]:
        pattern = f"^p({'|'.join(map(str, PERCENTILES))}):[0-9.eE+-]+$"
        return super().schema() | {"type": ["number", "string"], "pattern": pattern}

    def _checked(self, value: Any, field: str, most: float) -> Any:
        if not (tail := self._TAIL.fullmatch(str(value).strip())):
            if ":" in str(value) or re.match("p[0-9]", str(value).strip(), re.IGNORECASE):
                known = " or ".join(f"p{percentile}:2000" for percentile in PERCENTILES)
                meant = f"p{str(value).strip()}"
                raise UsageError(
                    Message(
                        "{field} takes one limit: of the mean or a known percentile", field=FieldName(field)
                    ),
                    hint=Message("did you mean {names}?", names=meant)
                    if self._TAIL.fullmatch(meant)
                    else Message("write it like 2000, or {known}", known=known),
                    field=field,
                )
            return super()._checked(value, field, most)
        number = super()._checked(tail[2], field, most)
        return TimeLimit(field, int(tail[1]), number).written(number)


class FromZero(Number):
    """A number that may be 0."""

    def schema(self) -> Schema:
        return {"type": "number", "minimum": 0}

    def _checked(self, value: Any, field: str, most: float) -> float:
        number = read_number(str(value), field=field)
        if not 0 <= number < most:
            raise error_in(field, "{field} must be 0 or a number above it, not '{value}'", value=value)
        return number


class Share(Number):
    """A number from 0 up to, not including, 1."""

    least, example = 0.0, 0.5

    def __init__(self, metavar: str = "SHARE") -> None:
        super().__init__(most=1, metavar=metavar)

    def schema(self) -> Schema:
        return {"type": "number", "minimum": self.least, "exclusiveMaximum": 1}

    def _checked(self, value: Any, field: str, most: float) -> float:
        number = read_number(str(value), field=field)
        if not self.least <= number < most:
            raise error_in(
                field,
                "{field} must lie between {least:g} and 1 (as {example}), not '{value}'",
                least=self.least,
                example=self.example,
                value=value,
            )
        return number


class Probability(Share):
    """A number from 0.5 up to, not including, 1."""

    least, example = 0.5, 0.9

    def __init__(self) -> None:
        super().__init__("PROBABILITY")


class Curve(Struct, frozen=True):
    """Further predictions beside the one of a question: a point per value."""

    vcpus: tuple[int, ...] = ()
    memory_mib: tuple[float, ...] = ()
    disks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.vcpus) + len(self.memory_mib) + len(self.disks)


MOST_POINTS = 256
_CURVES: Mapping[str, Schema] = {
    "vcpus": {"type": "integer", "minimum": 1, "maximum": 1024},
    "memory": Kind().schema(),
    "disk": Kind().schema(),
}


class CurveOf(Kind):
    """JSON lists of vCPUs ([1, 2, 4]), RAM (["8GiB"]) and disks (["gp3:1TiB"]); as text in links."""

    metavar = "JSON"

    def from_json(self, value: Any, field: str) -> Curve:
        if not isinstance(value, dict) or not value or value.keys() - set(_CURVES):
            raise error_in(field, "{field} takes an object with some of {names}", names=tuple(_CURVES))
        lists = {name: self._points(value.get(name, ()), f"{field}.{name}") for name in _CURVES}
        whole = Number(whole=True, most=_CURVES["vcpus"]["maximum"])
        return Curve(
            tuple(int(whole.from_json(item, f"{field}.vcpus")) for item in lists["vcpus"]),
            tuple(parse_memory_mib(client_text(item, f"{field}.memory")) for item in lists["memory"]),
            tuple(client_text(item, f"{field}.disk") for item in lists["disk"]),
        )

    def from_link(self, texts: Sequence[str], field: str) -> Curve:
        try:
            value = msgspec.json.decode(only_text(texts, field))
        except msgspec.DecodeError:
            raise error_in(field, "{field} is no JSON", hint="write it as a body has it") from None
        return self.from_json(value, field)

    def schema(self) -> Schema:
        return {
            "type": "object",
            "properties": {
                name: {"type": "array", "items": items, "minItems": 1, "maxItems": MOST_POINTS}
                for name, items in _CURVES.items()
            },
            "additionalProperties": False,
            "minProperties": 1,
        }

    def _points(self, value: Any, field: str) -> Sequence[Any]:
        if value == () or (isinstance(value, list) and 1 <= len(value) <= MOST_POINTS):
            return tuple(value)
        raise error_in(field, "{field} takes a list of 1 to {most}", most=MOST_POINTS)
