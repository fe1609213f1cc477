"""Reads questions from bodies and links, and describes routes for OpenAPI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qs

from fastapi import Request

from advisor.errors import UsageError
from advisor.messages import Message
from advisor.questions import commands, language, listings, network
from advisor.questions.question import CONTRADICTION, ByTask, Kinds, Question
from advisor.questions.reading import UnreadableError, from_json, from_link
from advisor.runs.questions import ScheduleRequest
from advisor.runs.sweep_questions import NewSweep
from advisor.service.problems import Problem, problem_of

JSON = "application/json"
Q = TypeVar("Q", bound=Question)
# More than any form of ours has.
_MOST_FIELDS = 30
# What a question that can be read is refused for, by the code of the error.
_KINDS = {"unknown_field": "unknown-field", CONTRADICTION: "unanswerable"}


async def json_body(request: Request) -> bytes:
    """The body of a request that says it is JSON; `Problem` 415 for another kind."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Problem(
            415,
            "unsupported-media-type",
            Message("the body is '{kind}', not JSON", kind=kind[:60]),
            hint="send it with Content-Type: application/json",
        )
    return await request.body()


async def question_in_body(request: Request, kind: Kinds[Q]) -> Q:
    """The body as a question; `Problem` 400, 415 or 422."""
    body = await json_body(request)
    with _refused():
        return from_json(kind, body)


def question_in_link(request: Request, kind: Kinds[Q]) -> Q:
    """The query of a link as a question; `Problem` 400 or 422."""
    return question_in_query(kind, request.scope["query_string"])


def question_in_query(kind: Kinds[Q], query: bytes) -> Q:
    """A query string as a question; `Problem` 400 or 422."""
    with _refused():
        return from_link(kind, query)


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except UnreadableError as error:
        raise Problem(400, "unreadable", error.message, hint=error.hint) from None
    except UsageError as error:
        raise problem_of(error, _KINDS.get(error.code, "invalid")) from None


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of a posted form that say something, without the blanks around them; of one that is there
    twice the first. `Problem` 400 for a form that has too many."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        posted = parse_qs(body, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise Problem(
            400,
            "unreadable",
            Message("a form has {most} fields at most", most=_MOST_FIELDS),
            hint="send the fields of the page's own form",
        ) from None
    return {name: values[0].strip() for name, values in posted.items() if values[0].strip()}


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
    language.CompareFinetuning: "CompareFinetuning",
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
Responses = dict[int | str, dict[str, Any]]


def described(schema: str, *, status: int = HTTPStatus.OK, about: str = "") -> Responses:
    """The response of a route whose answer is a document of `schema`."""
    content = {JSON: {"schema": reference(schema)}}
    return {status: {"description": about or HTTPStatus.OK.phrase, "content": content}}


def described_file(schemas: Mapping[str, Any]) -> Responses:
    """The response of a route that answers with a file, by the media types that it may have."""
    content = {kind: {"schema": schema} for kind, schema in schemas.items()}
    return {HTTPStatus.OK: {"description": "The file.", "content": content}}


def described_problem(status: int, when: str) -> Responses:
    """A refusal that no other route has."""
    content = {"application/problem+json": {"schema": reference("Problem")}}
    return {status: {"description": when, "content": content}}


def question_body(kinds: Kinds[Any], example: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a route that takes this question, or one by task."""
    name = BY_TASK[kinds] if isinstance(kinds, ByTask) else QUESTIONS[kinds]
    content = {"schema": reference(name), "example": dict(example)}
    return {"requestBody": {"required": True, "content": {JSON: content}}}


def reference(schema: str) -> dict[str, str]:
    """A reference to a schema of the description."""
    return {"$ref": f"#/components/schemas/{schema}"}
