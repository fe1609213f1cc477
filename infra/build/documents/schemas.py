"""Builds the JSON Schema of each document (advisor/render/schemas) from the parts that documents share.

The files in `parts/` list each part's keys with their schemas. Keys that end in `?` are optional, and other
keys are not allowed. Entries that begin with `$` describe the part; a part with an `$id` is a document. The
request in an answer has no file: its schema comes from the question."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from msgspec.json import schema_components

import advisor.render
from advisor.domain import Market
from advisor.domain.words import ANY_MARKET
from advisor.questions.fields import Choice, Number
from advisor.questions.language import ServingQuestion, TuningQuestion
from advisor.questions.network import NetworkQuestion
from advisor.questions.reading import document_names
from advisor.questions.spec import SpecQuestion
from advisor.questions.values import RANKED_KINDS

Schema = dict[str, Any]
FOLDER = Path(advisor.render.__path__[0]) / "schemas"
_PARTS = Path(__file__).with_name("parts")
_REFERENCE = "#/$defs/"
_RANGE = {"anyOf": [{"$ref": f"{_REFERENCE}Range"}, {"type": "null"}]}
# Fields that a question's document writes differently from the question's attribute.
_WRITTEN: Mapping[str, Schema] = {
    "dataset": {"$ref": f"{_REFERENCE}Dataset"},
    "disk": {"type": ["string", "null"]},
    "vcpus": _RANGE,
    "memory_mib": _RANGE,
    "compute_capability": _RANGE,
    "market": {"enum": [*map(str, Market), ANY_MARKET]},
    "price_kinds": {"type": "array", "items": {"enum": list(RANKED_KINDS)}},
    "vcpu_quota": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
}
_LIMITS = ("minimum", "exclusiveMinimum", "exclusiveMaximum")
# Fields that documents of earlier builds lack, so they are optional.
_LATER = frozenset(
    {
        *("stack", "memory_format", "tf32", "input", "sample_input", "model_asked", "namesake", "pareto"),
        *("price_kinds", "accelerated_only", "max_first_epoch_hours", "horizon_hours", "max_results"),
        *("allow_extrapolation", "max_nodes", "required_confidence", "start_minutes", "protocol"),
        *("burstiness", "think_seconds", "input_spread", "output_spread", "api_usd_per_million"),
        *("images_per_request", "image_size", "picture_tokens", "tower_tokens"),
    }
)


def documents() -> dict[str, str]:
    """The name of each document's file -> the part that it consists of."""
    return {
        "memory" if part == "MemoryAnswer" else re.sub(r"(?<=.)(?=[A-Z])", "-", part).lower(): part
        for part, schema in parts().items()
        if "$id" in schema
    }


@cache
def parts() -> dict[str, Schema]:
    """The schema of each part by name; parts refer to each other as `#/$defs/<name>`."""
    every: dict[str, Schema] = {}
    for file in sorted(_PARTS.glob("*.json")):
        members = json.loads(file.read_text(encoding="utf-8"))
        every |= {name: _part(content) for name, content in members.items()}
    for question in (NetworkQuestion, ServingQuestion, TuningQuestion):
        every |= _request(question)
    return every


def parts_of(schema: Schema) -> dict[str, Schema]:
    """All parts that a schema refers to, directly or through other parts."""
    found: dict[str, Schema] = {}
    names = list(_references(schema))
    for name in names:
        if name not in found:
            # Without `$id`: inside a schema with an id, references would be resolved within that schema.
            found[name] = {key: value for key, value in parts()[name].items() if key != "$id"}
            names += _references(found[name])
    return found


def written(part: str) -> str:
    """The text of a document's schema file: a line for each key and each part."""
    schema = parts()[part]
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return compact({**dialect, **schema, "$defs": parts_of(schema)}, 2) + "\n"


def compact(value: Any, depth: int) -> str:
    """JSON without spaces, with a line for each member down to `depth`."""
    if not depth or not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    members = (f"{json.dumps(name)}:{compact(member, depth - 1)}" for name, member in value.items())
    return "{" + ",\n".join(members) + "}"


def _part(content: Schema) -> Schema:
    about = {name if name == "$id" else name[1:]: text for name, text in content.items() if name[0] == "$"}
    keys = {name: schema for name, schema in content.items() if name[0] != "$"}
    return {
        **about,
        "type": "object",
        "required": [name for name in keys if not name.endswith("?")],
        "properties": {name.removesuffix("?"): schema for name, schema in keys.items()},
        "additionalProperties": about.get("additionalProperties", False),
    }


def _request(question: type[SpecQuestion]) -> dict[str, Schema]:
    """The schema of a question as `question_document` writes it, and the schemas that it refers to."""
    hints, keys, words = get_type_hints(question), dict[str, Schema](), dict[str, Schema]()
    for attribute in document_names(question):
        schema, field = _WRITTEN.get(attribute), question.declared.get(attribute)
        if field is not None and isinstance(field.kind, Choice) and field.kind.every:
            schema = {"enum": list(field.kind.names)}
        if schema is None:
            (schema,), more = schema_components([hints[attribute]], ref_template=_REFERENCE + "{name}")
            words |= more
        if field is not None:
            limits = field.kind.schema() if isinstance(field.kind, Number) else {}
            number = next((each for each in schema.get("anyOf", ()) if each != {"type": "null"}), schema)
            number |= {name: limits[name] for name in _LIMITS if name in limits}
            schema = {**schema, "description": field.help}
        name = "model" if attribute == "network" else attribute
        keys[f"{name}?" if name in _LATER else name] = schema
    return {question.__name__: _part(keys), **words}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield value["$ref"].removeprefix(_REFERENCE)
        for member in value.values():
            yield from _references(member)
    elif isinstance(value, list):
        for member in value:
            yield from _references(member)
