"""Builds the service's OpenAPI 3.1 document (advisor/service/openapi.json) from the framework's list of
routes, the schemas of questions and documents, and examples that are real answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi.openapi.utils import get_openapi
from fastapi.testclient import TestClient

import advisor.service
from advisor.answers.context import Context
from advisor.infra.build.documents.routes import (
    BY_TASK,
    JSON,
    QUESTIONS,
    ROUTES,
    described_problem,
    reference,
    schema_by_task,
)
from advisor.infra.build.documents.schemas import compact, parts_of
from advisor.questions.reading import schema_of
from advisor.service.app import create_app
from advisor.service.settings import Settings

FILE = Path(advisor.service.__path__[0]) / "openapi.json"
DOCUMENTS = (
    *("Recommendation", "Prediction", "Comparison", "MemoryAnswer", "ServingPrediction", "ServingComparison"),
    *(
        "TuningPrediction",
        "TuningComparison",
        "LanguageMemory",
        "Catalog",
        "InstanceType",
        "Networks",
        "Gpus",
    ),
    *("Measurements", "MeasurementsImport", "SweepJob", "SweepJobs", "Schedule", "Schedules"),
)
# Answers of routes that return a different document for each task.
ANSWERS = {
    "AnyPrediction": ("Prediction", "ServingPrediction", "TuningPrediction"),
    "AnyComparison": ("Comparison", "ServingComparison", "TuningComparison"),
    "AnyMemory": ("MemoryAnswer", "LanguageMemory"),
}
# Problems that any route may return, and when.
_REFUSALS = {
    400: "The request cannot be read.",
    401: "No key, or one that is not known any more.",
    403: "The key does not allow this.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The Host header is no name of this service.",
    422: "This cannot be answered: `detail` says why, `way_out` what would be right.",
    429: "Too many requests; `Retry-After` says when to come back.",
    431: "Address and headers are too large.",
    500: "A defect, or a damaged file of the service; its log has more.",
    503: "Not ready, or too busy at the moment.",
    404: "There is no such thing.",
}
_REFUSED_OF = {"/metrics": (401, 403, 429, 500, 503)}
# Requests made for the example answers: questions with the example of their body, lists with a link. No other
# route is called: requesting a sweep would start one.
_QUESTIONS = ("/v1/recommend", "/v1/predict", "/v1/compare", "/v1/memory")
_LINKS = {
    "/v1/catalog": "cloud=aws&gpu=T4",
    "/v1/networks": "search=resnet",
    "/v1/catalog/{instance_type}": "region=us-east-1",
    "/v1/gpus": "gpu=T4,L4",
}
_SHOWN_TYPE = "g4dn.xlarge"
_ABOUT = (
    "The cheapest cloud instance and disk that will really reach a throughput, with an interval "
    "and the bottleneck. The same fields and the same answers as the command line's."
)
# Lists in examples are cut to this many items: an answer may have hundreds.
_SHOWN = 2
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


def description(context: Context) -> dict[str, Any]:
    """OpenAPI 3.1 of the service, with examples of the context's catalogue and model."""
    app = create_app(Settings(), context)
    document = get_openapi(
        title=app.title, version=app.version, openapi_version="3.1.0", description=_ABOUT, routes=app.routes
    )
    document.setdefault("components", {})["schemas"] = _schemas()
    with TestClient(app, "http://localhost", client=("127.0.0.1", 50_000)) as client:
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                _describe(operation, method, path)
            example = _example(path, operations, client)
            for operation in operations.values():
                operation["responses"] = _responses(path, operation)
                _describe_once(operation)
                if example is not None:
                    operation["responses"]["200"]["content"][JSON]["example"] = example
    return document


def _describe(operation: dict[str, Any], method: str, path: str) -> None:
    """Add to an operation what the framework does not know."""
    if (route := ROUTES.get((method, path))) is None:
        return
    operation["responses"] |= {str(status): response for status, response in route.responses.items()}
    if route.parameters:
        operation["parameters"] = [*operation.get("parameters", ()), *route.parameters]
    if route.body:
        operation["requestBody"] = route.body
    if route.name:
        operation |= {"summary": route.summary, "operationId": route.name}


def _schemas() -> dict[str, Any]:
    """`components/schemas` of the answers, the questions and the problems."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM, "Health": _HEALTH}
    schemas |= {name: schema_of(kind) for kind, name in QUESTIONS.items()}
    schemas |= {name: schema_by_task(kinds) for kinds, name in BY_TASK.items()}
    for name, documents in ANSWERS.items():
        schemas[name] = {"oneOf": [reference(document) for document in documents]}
    answers = parts_of({"oneOf": [{"$ref": name} for name in DOCUMENTS]})
    return schemas | {name: _referring_here(schema) for name, schema in answers.items()}


def _referring_here(value: Any) -> Any:
    """Rewrite references: within OpenAPI, `#` is the whole document."""
    if isinstance(value, Mapping):
        here = {key: _referring_here(item) for key, item in value.items()}
        return here | reference(value["$ref"].rpartition("/")[2]) if "$ref" in value else here
    return [_referring_here(item) for item in value] if isinstance(value, list) else value


def _responses(path: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    """The route's own responses and the general refusals that it does not describe; 404 only if the path has
    a parameter. FastAPI's default 422 is dropped, since the service does not use it."""
    statuses = _REFUSED_OF.get(path) or [status for status in _REFUSALS if status != 404 or "{" in path]
    general = {str(status): described_problem(status, _REFUSALS[status])[status] for status in statuses}
    general.get("431", {}).pop("content", None)  # sent by the server itself, without a body
    own = {
        status: response
        for status, response in operation.get("responses", {}).items()
        if "HTTPValidationError" not in str(response)
    }
    return {**general, **own}


def _describe_once(operation: dict[str, Any]) -> None:
    """Drop the framework's copy of parameters that the route describes."""
    parameters = {
        (parameter["in"], parameter["name"]): parameter for parameter in operation.get("parameters", ())
    }
    if parameters:
        operation["parameters"] = list(parameters.values())


def _example(path: str, operations: Mapping[str, Any], client: TestClient) -> Any:
    """The answer to the body's example or to the list's link; None for other routes."""
    if path in _LINKS:
        answer = client.get(f"{path.format(instance_type=_SHOWN_TYPE)}?{_LINKS[path]}")
    elif path in _QUESTIONS:
        answer = client.post(path, json=operations["post"]["requestBody"]["content"][JSON]["example"])
    else:
        return None
    return _short(answer.raise_for_status().json())


def _short(value: Any) -> Any:
    """Cut lists to two items and round numbers to six digits, which are the same on every machine."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value[:_SHOWN]] if isinstance(value, list) else value


def written(context: Context) -> str:
    """The file's text: a line for each path and each schema."""
    return compact(description(context), 3) + "\n"
