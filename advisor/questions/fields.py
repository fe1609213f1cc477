"""The kinds of fields that questions have: how each is read, printed and described.

A field is declared once, in a question, by `advisor.questions.question.ask`: `max_price: float | None =
ask("USD per hour, disk included.", Number(), default=None)`. Options of the command line, fields over HTTP,
their schemas and the text that asks again follow from that. A value comes as a text (of a command line, a
plan or a link) or as a JSON value; a client over HTTP (`from_json`, `from_link`) has narrower limits than
somebody at a keyboard.

Whatever is wrong is a `UsageError` that names its `field`."""

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


def wrong(
    field: str, text: str, /, *, hint: Message | str | None = None, code: str = "", **parameters: object
) -> UsageError:
    """The error of one field; `{field}` in text and hint is its name as the reader knows it, and whatever
    else is no parameter is the name of another field."""
    if isinstance(hint, str):
        hint = Message(hint, code="", **_field_names(hint, field))
    message = Message(text, code=code, **(_field_names(text, field) | parameters))
    return UsageError(message, hint=hint, field=field, code=code)


def _field_names(text: str, field: str) -> dict[str, object]:
    names = [name for _, name, _, _ in Formatter().parse(text) if name]
    return {name: FieldName(field if name == "field" else name) for name in names}


class Kind:
    """A text, and what all kinds have in common. `repeats`: it may be given several times."""

    metavar = "TEXT"
    repeats = False

    def from_text(self, text: str, field: str) -> Any:
        """The value of a text on a command line or in a plan."""
        return some_text(text, field)

    def from_texts(self, texts: Sequence[str], field: str) -> Any:
        """The value of several texts: each where it repeats, else all of them as one with commas."""
        if self.repeats:
            return tuple(self.from_text(text, field) for text in texts)
        return self.from_text(",".join(texts), field)

    def from_json(self, value: Any, field: str) -> Any:
        """A JSON value of a client."""
        return self.from_text(client_text(value, field), field)

    def from_link(self, texts: Sequence[str], field: str) -> Any:
        """The value in the query of a client's link."""
        return self.from_json(only_text(texts, field), field)

    def text_of(self, value: Any) -> str:
        """The text that `from_text` reads."""
        return str(value)

    def held(self, value: Any) -> Any:
        """The value as a question holds it."""
        return value

    def schema(self) -> Schema:
        """JSON Schema of the value."""
        return {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}


class Text(Kind):
    """A text that is shown again: nothing in it may steer a terminal."""

    def __init__(self, metavar: str = "TEXT") -> None:
        self.metavar = metavar

    def from_text(self, text: str, field: str) -> str:
        return shown_text(text, field)


class Network(Text):
    """The name of a network; a file of the server is never opened for a client."""

    def __init__(self) -> None:
        super().__init__("NAME|FILE.py:BUILD")

    def from_json(self, value: Any, field: str) -> str:
        name = str(super().from_json(value, field))
        if names_a_file(name):
            raise wrong(
                field,
                "{field} names a file, and no file is opened for a client",
                hint="take a name from the list of networks, or ask by `advisor` where the file is",
            )
        return name


class Choice(Kind):
    """One of a closed list, in any case; errors name the nearest. `every` is held as None."""

    def __init__(self, noun: str, names: Iterable[str], *, every: str = "") -> None:
        self.noun = noun
        self.every = every
        self.names = tuple(str(name) for name in names)
        self._members = {str(name).lower(): name for name in names}
        self.metavar = f"[{'|'.join(self.names)}]"

    def from_text(self, text: str, field: str) -> Any:
        member = self._members.get(text.strip().lower())
        if member is None:
            raise unknown_name(self.noun, text, self.names, field=field)
        return member

    def text_of(self, value: Any) -> str:
        return self.every if value is None else str(value)

    def held(self, value: Any) -> Any:
        return None if self.every and value == self.every else value

    def schema(self) -> Schema:
        return {"type": "string", "enum": list(self.names)}


class KnownOrPath(Kind):
    """A known name, or a path of one's own: a client has no paths."""

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
            raise wrong(field, "{field} is true or false, not '{text}'", text=text)
        return text.lower() in _YES

    def from_json(self, value: Any, field: str) -> bool:
        if not isinstance(value, bool):
            raise wrong(field, "{field} must be true or false, not {what}", what=json_name(value))
        return value

    def from_link(self, texts: Sequence[str], field: str) -> bool:
        text = only_text(texts, field).lower()
        if text not in ("true", "false"):
            raise wrong(field, "{field} must be true or false, not '{text}'", text=text)
        return text == "true"

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Parsed(Kind):
    """A value written as text; `or_number` takes JSON's 8 for "8", `joins` repeated ones."""

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
    """Several texts: an option or a word of a link that is given again for each."""

    repeats = True

    def from_json(self, value: Any, field: str) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise wrong(field, "{field} must be a list of texts, not {what}", what=json_name(value))
        if not 1 <= len(value) <= MOST_ITEMS:
            raise wrong(
                field, "{field} takes 1 to {most} texts, not {count}", most=MOST_ITEMS, count=len(value)
            )
        return tuple(self.from_text(client_text(item, field), field) for item in value)

    def from_link(self, texts: Sequence[str], field: str) -> tuple[str, ...]:
        return self.from_json(list(texts), field)

    def schema(self) -> Schema:
        return {"type": "array", "minItems": 1, "maxItems": MOST_ITEMS, "items": super().schema()}


class Names(Texts):
    """Several names, each given again or all of them with commas between."""

    def each(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Every name of every text."""
        return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


class File(Kind):
    """A file of this machine; no client has one."""

    metavar = "FILE"

    def from_text(self, text: str, field: str) -> Path:
        return Path(some_text(text, field))


class Files(File):
    """Several of them."""

    repeats = True


class Place(Kind):
    """A file or folder of this machine, or an address (s3://bucket/prefix); no client has one."""

    metavar = "PATH"


def some_text(value: Any, field: str) -> str:
    """The text without blanks around it; nothing at all is a mistake of a script."""
    text = str(value).strip()
    if not text:
        raise wrong(field, "{field} is empty", hint="name one, or leave it out")
    return text


def shown_text(value: Any, field: str) -> str:
    """A text that is shown again: nothing in it may steer a terminal."""
    text = some_text(value, field)
    if not text.isprintable():
        raise wrong(field, "{field} has characters that cannot be shown: {text!r}", text=text)
    return text


def client_text(value: Any, field: str) -> str:
    """A text of JSON: something in it, nothing that steers a terminal, and no book."""
    if not isinstance(value, str):
        raise wrong(field, "{field} must be a text, not {what}", what=json_name(value))
    if len(value) > LONGEST_TEXT:
        raise wrong(
            field, "{field} is longer than {most} characters", most=LONGEST_TEXT, hint="make it shorter"
        )
    return shown_text(value, field)


def json_name(value: Any) -> str:
    """The kind of a JSON value in words: the value itself may be a book."""
    if value is None:
        return "null"
    kinds = {bool: "a boolean", str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), "a number")


def only_text(texts: Sequence[str], field: str) -> str:
    """The one text that a link has of a field."""
    if len(texts) > 1:
        raise wrong(field, "{field} is given {count} times", count=len(texts), hint="give it once")
    return texts[0]


# As far as a double counts, which is what JSON's readers have.
_MOST_WHOLE = 2**53


class Number(Kind):
    """A finite number above 0; what is `counted`, as all whole ones are, may be 5k or 1.5M."""

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
        try:
            return self._checked(text, field, self.most)
        except UsageError as error:
            if field.endswith("_ms") and (
                time := re.fullmatch(r"(?:p\d+:)?(\d+\.?\d*) ?(m?)s", text.strip())
            ):
                error.hint = Message("in ms: {ms:g}", ms=float(time[1]) * (1 if time[2] else 1000))
            if field == "dataset_samples" and text.strip() == "0":
                error.hint = "write 1 where nothing has to lie on the disk"
            if self.metavar == "USD" and (usd := re.fullmatch(r"\$?(\d+\.?\d*) ?/ ?mo(nth)?", text.strip())):
                error.hint = Message("in USD an hour: {usd:.3g}", usd=float(usd[1]) / HOURS_PER_MONTH)
            raise

    def from_texts(self, texts: Sequence[str], field: str) -> float:
        return self.from_text(only_text(texts, field), field)

    def from_json(self, value: Any, field: str) -> float:
        if type(value) not in (int, float):
            raise wrong(field, "{field} must be a number, not {what}", what=json_name(value))
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


# Of samples or tokens in a second.
RATE = Number(counted=True, metavar="RATE")


class TimeLimit(NamedTuple):
    """The longest that a time may be, in ms or (of whole requests) in seconds: of the mean request, or of
    the request that `percentile` of a hundred are no slower than."""

    field: str
    percentile: int | None
    most: float

    @classmethod
    def of(cls, field: str, value: float | str) -> TimeLimit:
        """The limit that a field's value writes: 2000, or 'p99:2000'."""
        percentile, found, most = str(value).rpartition(":")
        return cls(field, int(percentile[1:]) if found else None, float(most))

    @property
    def reason(self) -> str:
        """'ttft', 'tpot' or 'e2e'."""
        return self.field.split("_")[1]

    @property
    def unit(self) -> float:
        """How many of it a second has."""
        return 1000.0 if self.field.endswith("_ms") else 1.0

    def written(self, most: float) -> float | str:
        """Another limit of the same kind, as a field's value."""
        return most if self.percentile is None else f"p{self.percentile}:{most:.12g}"


class Latency(Number):
    """A limit on the mean of a time, or with `p99:` before it on a percentile."""

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
            if ":" in str(value):
                known = " or ".join(f"p{percentile}:2000" for percentile in PERCENTILES)
                raise UsageError(
                    Message(
                        "{field} takes one limit: of the mean or a known percentile", field=FieldName(field)
                    ),
                    hint=Message("write it like 2000, or {known}", known=known),
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
            raise wrong(field, "{field} must be 0 or a number above it, not '{value}'", value=value)
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
            raise wrong(
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
    """Further predictions beside one: one point for each value."""

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
    """Lists of vCPUs ([1, 2, 4]), RAM (["8GiB"]) and disks (["gp3:1TiB"]); JSON text in links."""

    metavar = "JSON"

    def from_json(self, value: Any, field: str) -> Curve:
        if not isinstance(value, dict) or not value or value.keys() - set(_CURVES):
            raise wrong(field, "{field} takes an object with some of {names}", names=tuple(_CURVES))
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
            raise wrong(field, "{field} is no JSON", hint="write it as a body has it") from None
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
        raise wrong(field, "{field} takes a list of 1 to {most}", most=MOST_POINTS)
