"""The field of curves: lists of vCPUs, RAM and disks, along which a client asks for a rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.quantities import parse_memory_mib
from advisor.questions.fields import Kind, Schema, client_text, only_text, wrong
from advisor.questions.numbers import Number
from advisor.questions.values import Curve

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
        """The points."""
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
        """The same of JSON text."""
        import msgspec

        try:
            value = msgspec.json.decode(only_text(texts, field))
        except msgspec.DecodeError:
            raise wrong(field, "{field} is no JSON", hint="write it as a body has it") from None
        return self.from_json(value, field)

    def schema(self) -> Schema:
        """An object of arrays."""
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
