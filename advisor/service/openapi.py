"""OpenAPI 3.1: the framework's list of routes, with the schemas of the documents that ship in
`advisor/render` and of the questions, and with what may be refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from advisor.answers.context import Context
from advisor.questions import commands, language, listings, network
from advisor.questions.question import ByTask, Kinds, Question
from advisor.questions.reading import schema_by_task, schema_of
from advisor.runs.questions import ScheduleRequest
from advisor.runs.sweep_questions import NewSweep
from advisor.service.answers import document_json

# The names of the questions' schemas here.
QUESTIONS: Mapping[type[Question], str] = {
    network.Recommend: "RecommendNetwork",
    network.Predict: "PredictNetwork",
    network.Compare: "CompareNetwork",
    network.MemoryQuestion: "MemoryOfNetwork",
    language.RecommendGeneration: "RecommendGeneration",
    language.PredictGeneration: "PredictGeneration",
    language.CompareGeneration: "CompareGeneration",
    language.MemoryGeneration: "MemoryOfGeneration",
    language.RecommendFinetuning: "RecommendFinetuning",
    language.PredictFinetuning: "PredictFinetuning",
    language.MemoryFinetuning: "MemoryOfFinetuning",
    listings.Gpus: "GpusQuestion",
    listings.Offers: "CatalogQuestion",
    listings.InstanceDetails: "TypeQuestion",
    NewSweep: "NewSweep",
    ScheduleRequest: "NewSchedule",
}
BY_TASK: Mapping[ByTask[Any], str] = {
    commands.RECOMMEND: "RecommendQuestion",
    commands.PREDICT: "PredictQuestion",
    commands.COMPARE: "CompareQuestion",
    commands.MEMORY: "MemoryQuestion",
}
# The name of a document's schema here -> its file in advisor/render/schemas.
DOCUMENTS = {
    "Recommendation": "recommendation",
    "Prediction": "prediction",
    "Comparison": "comparison",
    "MemoryAnswer": "memory",
    "ServingPrediction": "serving-prediction",
    "ServingComparison": "serving-comparison",
    "TuningPrediction": "tuning-prediction",
    "LanguageMemory": "language-memory",
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
# Answers of routes whose task decides which document it is.
ANSWERS = {
    "AnyPrediction": ("Prediction", "ServingPrediction", "TuningPrediction"),
    "AnyComparison": ("Comparison", "ServingComparison"),
    "AnyMemory": ("MemoryAnswer", "LanguageMemory"),
}
# The type that examples name.
SHOWN_TYPE = "g4dn.xlarge"
# A list of an example shows so many of its things: an answer may name hundreds.
_SHOWN = 2
# The name of an answer's example, which is computed when the description is read.
_EXAMPLE = "x-advisor-example"
# A real answer, of the very catalogue and model that answer.
Example = Callable[[Context], Mapping[str, Any]]
_ABOUT = (
    "The cheapest cloud instance and disk that will really reach a throughput, with an interval "
    "and the bottleneck. The same fields and the same answers as the command line's."
)
# What any route under /v1 may refuse, and when.
_REFUSALS = {
    400: "The request cannot be read.",
    401: "No key, or one that is not known any more.",
    403: "The key does not allow this.",
    404: "There is no such thing.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The Host header is no name of this service.",
    422: "This cannot be answered: `detail` says why, `way_out` what would be right.",
    429: "Too many requests; `Retry-After` says when to come back.",
    431: "Address and headers are too large.",
    500: "A defect, or a damaged file of the service; its log has more.",
    503: "Not ready, or too busy at the moment.",
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
        "field": {"type": "string", "description": "The field of the question that is wrong."},
        "id": {"type": "string", "description": "Of a defect, in the log too."},
    },
}
_HEALTH = {
    "type": "object",
    "required": ["status", "version"],
    "properties": {"status": {"enum": ["alive", "ready"]}, "version": _TEXT},
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Problem responses of these statuses; of all where none is named."""
    named = statuses or tuple(status for status in _REFUSALS if status != 404)
    responses: dict[int | str, dict[str, Any]] = {status: problem(_REFUSALS[status]) for status in named}
    if 431 in responses:  # the server's own answer, which has no body
        del responses[431]["content"]
    return responses


def problem(when: str) -> dict[str, Any]:
    """A response that is a problem document."""
    content = {"application/problem+json": {"schema": _reference("Problem")}}
    return {"description": when, "content": content}


def described(schema: str, name: str = "", example: Example | None = None) -> dict[int | str, dict[str, Any]]:
    """Responses of a route whose answer is of `schema`; `example` under a name of its own."""
    content: dict[str, Any] = {"schema": _reference(schema)}
    if example is not None:
        content[_EXAMPLE] = name
        _examples[name] = example
    answer = {"description": HTTPStatus.OK.phrase, "content": {"application/json": content}}
    return {200: answer, **refusals()}


def question_body(kinds: Kinds[Any], example: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a route that takes this question, or one by task."""
    name = BY_TASK[kinds] if isinstance(kinds, ByTask) else QUESTIONS[kinds]
    content = {"schema": _reference(name), "example": dict(example)}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def description(app: FastAPI, context: Context | None) -> dict[str, Any]:
    """OpenAPI 3.1 of `app`; with a context, its answers have examples."""
    document = get_openapi(
        title=app.title, version=app.version, openapi_version="3.1.0", description=_ABOUT, routes=app.routes
    )
    document.setdefault("components", {})["schemas"] = _schemas()
    for path, operation in _operations(document):
        if path.startswith("/v1"):
            operation["responses"] = _responses(path, operation)
        _describe_once(operation)
        for response in operation.get("responses", {}).values():
            for content in response.get("content", {}).values():
                _add_example(content, context)
    return document


# Filled in as routes are declared.
_examples: dict[str, Example] = {}


def _reference(schema: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema}"}


def _schemas() -> dict[str, Any]:
    """`components/schemas` of the answers, the questions and the problems."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM, "Health": _HEALTH}
    schemas |= {name: schema_of(kind) for kind, name in QUESTIONS.items()}
    schemas |= {name: schema_by_task(kinds, QUESTIONS) for kinds, name in BY_TASK.items()}
    for name, documents in ANSWERS.items():
        schemas[name] = {"oneOf": [_reference(document) for document in documents]}
    for name, file in DOCUMENTS.items():
        schemas |= document_schemas(name, file)
    return schemas


def document_schemas(name: str, file: str) -> dict[str, Any]:
    """The schema of a document, and each of its `$defs` as `<name>.<def>`: within OpenAPI, `#` is the whole
    description."""
    text = (files("advisor.render") / f"schemas/{file}.schema.json").read_text()
    schema: dict[str, Any] = json.loads(text)
    parts = schema.pop("$defs", {})
    schema = {key: value for key, value in schema.items() if key not in ("$schema", "$id")}
    named = {name: schema} | {f"{name}.{part}": content for part, content in parts.items()}
    return {key: _hoisted(value, name) for key, value in named.items()}


def _hoisted(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        if "$ref" in value:
            part = str(value["$ref"]).removeprefix("#/$defs/")
            return dict(value) | _reference(f"{name}.{part}")
        return {key: _hoisted(item, name) for key, item in value.items()}
    return [_hoisted(item, name) for item in value] if isinstance(value, list) else value


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def _responses(path: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    """The route's own, and the refusals that it does not describe itself; 404 where something is named in its
    path. FastAPI's own idea of a 422 is none of ours."""
    general = refusals() | (refusals(404) if "{" in path else {})
    own = {
        status: response
        for status, response in operation.get("responses", {}).items()
        if "HTTPValidationError" not in str(response)
    }
    return {**{str(status): response for status, response in general.items()}, **own}


def _describe_once(operation: dict[str, Any]) -> None:
    """Keep the route's description of a parameter that the framework found too."""
    parameters = {
        (parameter["in"], parameter["name"]): parameter for parameter in operation.get("parameters", ())
    }
    if parameters:
        operation["parameters"] = list(parameters.values())


def _add_example(content: dict[str, Any], context: Context | None) -> None:
    name = content.pop(_EXAMPLE, None)
    if name is not None and context is not None:
        content["example"] = _short(json.loads(document_json(_examples[name](context))))


def _short(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value[:_SHOWN]] if isinstance(value, list) else value
