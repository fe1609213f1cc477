"""Fields that are numbers: above 0, probabilities and shares; and curves, which are lists of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from advisor.domain.words import PERCENTILES
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.quantities import parse_memory_mib, parse_number, read_number, write_number
from advisor.questions.fields import Kind, Schema, client_text, json_name, only_text, wrong
from advisor.questions.values import Curve

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
        return self._checked(text, field, self.most)

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

    _TAIL = re.compile(rf"p({'|'.join(map(str, PERCENTILES))}):(.*)", re.IGNORECASE)

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
                    Message("{field} takes a mean or a known percentile", field=FieldName(field)),
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


MOST_POINTS = 256
_CURVES: Mapping[str, Schema] = {
    "vcpus": {"type": "integer", "minimum": 1, "maximum": 1024},
    "memory": Kind().schema(),
    "disk": Kind().schema(),
}


class CurveOf(Kind):
    """Lists of vCPUs ([1, 2, 4]), RAM (["8GiB"]) and disks (["gp3:1TiB"]); in a link the same as
    JSON text. Only clients have it."""

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
        import msgspec

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
