"""Pieces of OpenAPI that every route is described by."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from advisor.questions.models import Question

PROBLEM = "Problem"
# Whose example is computed when the description is asked for, by the name of the answer.
EXAMPLE = "x-advisor-example"
# What any route under /v1 may say, and when.
_REFUSALS = {
    400: "The request cannot be read.",
    401: "No key, or one that is not known any more.",
    403: "The key does not allow this.",
    404: "There is no such thing.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "Asked under a name that is not this service's.",
    422: "It cannot be asked like this: `detail` says why, `way_out` what would be right.",
    429: "Asked too often; `Retry-After` says when to ask again.",
    431: "Address and headers are too large.",
    500: "A defect, or a damaged file of the service; its log tells more.",
    503: "Not ready, or too busy at the moment.",
}


def reference(schema: str) -> dict[str, str]:
    """`$ref` of a schema of this description."""
    return {"$ref": f"#/components/schemas/{schema}"}


def schema_name(kind: type[Question]) -> str:
    """Of a question in OpenAPI: `Recommend` is 'RecommendQuestion'."""
    return f"{kind.__name__.removesuffix('Question')}Question"


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Problem responses of these statuses; of all where none is named."""
    named = statuses or tuple(status for status in _REFUSALS if status != 404)
    return {status: problem(_REFUSALS[status]) for status in named}


def problem(when: str) -> dict[str, Any]:
    """A response that is a problem document."""
    return {
        "description": when,
        "content": {"application/problem+json": {"schema": reference(PROBLEM)}},
    }


def described(schema: str, example: str | None = None) -> dict[int | str, dict[str, Any]]:
    """Responses of a route whose answer is of `schema`, and is the document called `example`."""
    content: dict[str, Any] = {"schema": reference(schema)}
    if example is not None:
        content[EXAMPLE] = example
    answer = {
        "description": HTTPStatus(200).phrase,
        "content": {"application/json": content},
    }
    return {200: answer, **refusals()}


def body_of(form: str, example: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a route as a form's schema."""
    content = {"schema": reference(form), "example": dict(example)}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}
