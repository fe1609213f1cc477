"""Reads questions from bodies and links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import parse_qs

from fastapi import Request

from advisor.errors import UsageError
from advisor.messages import Message
from advisor.questions.question import CONTRADICTION, Kinds, Question
from advisor.questions.reading import UnreadableError, from_json, from_link
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
