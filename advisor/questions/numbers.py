"""Fields that are numbers: above 0, probabilities and shares; and curves, which are lists of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.messages import FieldName
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
