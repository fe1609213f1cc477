"""Whether a JSON value is what one of our schemas says: what people saved is not believed.

The part of JSON Schema 2020-12 that advisor/render/schemas use of these documents; a test holds it
to the library that knows all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import Any

Schema = Mapping[str, Any]
_OTHER = "../"
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and value == int(value),
}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def first_fault(value: Any, schema_id: str) -> str | None:
    """What is wrong first, as '$.workloads[2].name is no string'; None where nothing is."""
    schema = _schema(schema_id)
    return next(_faults(value, schema, schema, "$"), None)


@cache
def _schema(schema_id: str) -> Schema:
    name = schema_id.removeprefix("advisor.").partition("/")[0]
    file = files("advisor.render") / "schemas" / f"{name}.schema.json"
    found: Schema = json.loads(file.read_text())
    return found


def _faults(value: Any, schema: Schema, root: Schema, at: str) -> Iterator[str]:
    if "$ref" in schema:
        yield from _referred(value, schema["$ref"], root, at)
    if "oneOf" in schema:
        yield from _one_of(value, schema["oneOf"], root, at)
    if "const" in schema and value != schema["const"]:
        yield f"{at} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is none of {', '.join(map(str, schema['enum']))}"
    types = schema.get("type", [])
    names = [types] if isinstance(types, str) else types
    if names and not any(_TYPES[name](value) for name in names):
        yield f"{at} is no {' or '.join(names)}"
        return
    yield from _inside(value, schema, root, at)


def _inside(value: Any, schema: Schema, root: Schema, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _object(value, schema, root, at)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _faults(item, schema.get("items", {}), root, f"{at}[{place}]")
        if len(value) < schema.get("minItems", 0):
            yield f"{at} has too few items"
    elif isinstance(value, str):
        yield from _text(value, schema, at)
    elif _is_number(value):
        yield from _number(value, schema, at)


def _object(value: Mapping[str, Any], schema: Schema, root: Schema, at: str) -> Iterator[str]:
    known, more = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at} lacks {name}"
    for name, item in value.items():
        if name in known:
            yield from _faults(item, known[name], root, f"{at}.{name}")
        elif more is False:
            yield f"{at} has {name[:60]!r}, which does not belong there"
        elif isinstance(more, dict):
            yield from _faults(item, more, root, f"{at}.{name[:60]}")


def _text(value: str, schema: Schema, at: str) -> Iterator[str]:
    if len(value) < schema.get("minLength", 0):
        yield f"{at} is too short"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at} does not look like {schema['pattern']}"
    if schema.get("format") == "date" and not _is_day(value):
        yield f"{at} is no date"


def _number(value: float, schema: Schema, at: str) -> Iterator[str]:
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    if (low is not None and value < low) or (above is not None and value <= above):
        yield f"{at} is too small"
    if (high is not None and value > high) or (below is not None and value >= below):
        yield f"{at} is too large"


def _one_of(value: Any, choices: Sequence[Schema], root: Schema, at: str) -> Iterator[str]:
    faults = [next(_faults(value, one, root, at), None) for one in choices]
    if all(faults):
        yield max((str(one) for one in faults), key=lambda text: text.count("."))


def _referred(value: Any, name: str, root: Schema, at: str) -> Iterator[str]:
    if name.startswith(_OTHER):
        other = _schema(name.removeprefix(_OTHER))
        yield from _faults(value, other, other, at)
    else:
        yield from _faults(value, root["$defs"][name.rpartition("/")[2]], root, at)


def _is_day(text: str) -> bool:
    try:
        return bool(_DAY.fullmatch(text) and date.fromisoformat(text))
    except ValueError:
        return False


def _is_number(value: Any) -> bool:
    """One that can be computed with: JSON has integers of any size."""
    try:
        return not isinstance(value, bool) and isinstance(value, (int, float)) and isfinite(value)
    except OverflowError:
        return False
