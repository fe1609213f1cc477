"""Questions and forms out of bodies and links; and descriptions of routes for OpenAPI
(`advisor.infra.build.documents` writes it): questions and answers by the names of their schemas, and
refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qs

from fastapi import Request

from advisor.answers.context import Context
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
# The type that examples name.
SHOWN_TYPE = "g4dn.xlarge"
# The name of an answer's example, which is computed when the description is read.
EXAMPLE = "x-advisor-example"
# A real answer, of the very catalogue and model that answer.
Example = Callable[[Context], Mapping[str, Any]]
# By name; filled in as routes are declared.
EXAMPLES: dict[str, Example] = {}
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


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Problem responses of these statuses; of all where none is named."""
    named = statuses or tuple(status for status in _REFUSALS if status != 404)
    responses: dict[int | str, dict[str, Any]] = {status: problem(_REFUSALS[status]) for status in named}
    if 431 in responses:  # the server's own answer, which has no body
        del responses[431]["content"]
    return responses


def problem(when: str) -> dict[str, Any]:
    """A response that is a problem document."""
    content = {"application/problem+json": {"schema": reference("Problem")}}
    return {"description": when, "content": content}


def described(schema: str, name: str = "", example: Example | None = None) -> dict[int | str, dict[str, Any]]:
    """Responses of a route whose answer is of `schema`; `example` under a name of its own."""
    content: dict[str, Any] = {"schema": reference(schema)}
    if example is not None:
        content[EXAMPLE] = name
        EXAMPLES[name] = example
    answer = {"description": HTTPStatus.OK.phrase, "content": {"application/json": content}}
    return {200: answer, **refusals()}


def question_body(kinds: Kinds[Any], example: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a route that takes this question, or one by task."""
    name = BY_TASK[kinds] if isinstance(kinds, ByTask) else QUESTIONS[kinds]
    content = {"schema": reference(name), "example": dict(example)}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def reference(schema: str) -> dict[str, str]:
    """A reference to a schema of the description."""
    return {"$ref": f"#/components/schemas/{schema}"}
