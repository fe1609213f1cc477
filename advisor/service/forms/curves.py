"""The word `curve`: lists of vCPUs, sizes of RAM and disks, in a body alone."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.answers.curves import MOST_POINTS, Curve
from advisor.answers.what_if import MOST_VCPUS
from advisor.errors import UsageError
from advisor.quantities import parse_memory_mib
from advisor.questions.words import positive
from advisor.service.forms.words import LONGEST_TEXT, About, Word, some_shown

_KINDS = ("vcpus", "memory", "disk")
_TEXT = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
_ITEMS: dict[str, Any] = {
    "vcpus": {"type": "integer", "minimum": 1, "maximum": MOST_VCPUS},
    "memory": _TEXT,
    "disk": _TEXT,
}


def curve(one: About) -> Word:
    """An object with some of `vcpus` ([1, 2, 4]), `memory` (["8GiB"]) and `disk` (["gp3:1TiB"]);
    in a link the same as JSON text."""
    schema = {
        "type": "object",
        "properties": {name: _list_of(_ITEMS[name]) for name in _KINDS},
        "additionalProperties": False,
        "minProperties": 1,
    }
    return one.word(_read, schema, lambda texts: _read(_json(one.only(texts))))


def _list_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": MOST_POINTS}


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise UsageError("curve is no JSON; write it as a body has it") from None


def _read(value: Any) -> Curve:
    if not isinstance(value, dict) or not value or value.keys() - set(_KINDS):
        raise UsageError(f"curve takes an object with some of {', '.join(_KINDS)}")
    lists = {name: _points(name, value.get(name, ())) for name in _KINDS}
    return Curve(
        tuple(int(_whole(item)) for item in lists["vcpus"]),
        tuple(parse_memory_mib(some_shown(item, "curve memory")) for item in lists["memory"]),
        tuple(some_shown(item, "curve disk") for item in lists["disk"]),
    )


def _points(name: str, value: Any) -> tuple[Any, ...] | list[Any]:
    if isinstance(value, tuple) or (isinstance(value, list) and 1 <= len(value) <= MOST_POINTS):
        return value
    raise UsageError(f"curve {name} takes a list of 1 to {MOST_POINTS}")


def _whole(item: Any) -> float:
    if type(item) not in (int, float):
        raise UsageError("curve vcpus takes whole numbers, as [1, 2, 4]")
    return positive(item, "curve vcpus", whole=True, most=MOST_VCPUS)
