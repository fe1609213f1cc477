"""Schemas of OpenAPI: the questions, and those of the documents that ship in `advisor/render`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from advisor.questions.models import Question
from advisor.questions.reading import schema_of
from advisor.service.openapi.parts import PROBLEM, reference, schema_name

# The name of a document's schema here -> its file in advisor/render/schemas.
DOCUMENTS = {
    "Recommendation": "recommendation",
    "Prediction": "prediction",
    "Comparison": "comparison",
    "MemoryAnswer": "memory",
    "Catalog": "catalog",
    "InstanceType": "instance-type",
    "Networks": "networks",
    "Gpus": "gpus",
    "Measurements": "measurements",
    "MeasurementsImport": "measurements-import",
    "SweepJob": "sweep-job",
    "SweepJobs": "sweep-jobs",
    "Schedule": "schedule",
    "Schedules": "schedules",
}
_TEXT = {"type": "string"}
_PROBLEM = {
    "title": "A problem (RFC 9457)",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri", "description": "Which kind of problem."},
        "title": _TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "What is wrong, in one line."},
        "way_out": {"type": "string", "description": "What would be right, where that is known."},
        "field": {"type": "string", "description": "The word of the question that is wrong."},
        "id": {"type": "string", "description": "Under which a defect stands in the log."},
    },
}
_HEALTH = {
    "type": "object",
    "required": ["status", "version"],
    "properties": {"status": {"enum": ["alive", "ready"]}, "version": _TEXT},
}


def all_schemas(kinds: Iterable[type[Question]]) -> dict[str, Any]:
    """`components/schemas` of the answers, the questions and the problems."""
    schemas: dict[str, Any] = {PROBLEM: _PROBLEM, "Health": _HEALTH}
    schemas |= {schema_name(kind): schema_of(kind) for kind in kinds}
    for name, file in DOCUMENTS.items():
        schemas |= document_schemas(name, file)
    return schemas


def document_schemas(name: str, file: str) -> dict[str, Any]:
    """The schema of a document, and each of its `$defs` as `<name>.<def>`: within OpenAPI, `#` is
    the whole description."""
    text = (files("advisor.render") / f"schemas/{file}.schema.json").read_text()
    schema: dict[str, Any] = json.loads(text)
    parts = schema.pop("$defs", {})
    schema = {key: value for key, value in schema.items() if key not in ("$schema", "$id")}
    named = {name: schema} | {f"{name}.{part}": one for part, one in parts.items()}
    return {key: _hoisted(value, name) for key, value in named.items()}


def _hoisted(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        if "$ref" in value:
            part = str(value["$ref"]).removeprefix("#/$defs/")
            return dict(value) | reference(f"{name}.{part}")
        return {key: _hoisted(one, name) for key, one in value.items()}
    return [_hoisted(one, name) for one in value] if isinstance(value, list) else value
