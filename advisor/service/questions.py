"""Reads questions from the bodies and query strings of requests."""

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
# The most fields a posted form may have; the page's forms have fewer.
_MOST_FIELDS = 30
# Kinds of problems by the error's code; "invalid" for all other codes.
_KINDS = {"unknown_field": "unknown-field", CONTRADICTION: "unanswerable"}


async def question_in_body(request: Request, kind: Kinds[Q]) -> Q:
    """The question in a JSON body. Raises `Problem` 415 (other type), 400 (unreadable) or 422 (wrong)."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON:
        hint = "send it with Content-Type: application/json"
        detail = Message("the body is '{kind}', not JSON", kind=media_type[:60])
        raise Problem(415, "unsupported-media-type", detail, hint=hint)
    body = await request.body()
    with _refused():
        return from_json(kind, body)


def question_in_link(request: Request, kind: Kinds[Q]) -> Q:
    """The question in the query of a request's URL. Raises `Problem` as `question_in_query` does."""
    return question_in_query(kind, request.scope["query_string"])


def question_in_query(kind: Kinds[Q], query: bytes) -> Q:
    """The question in a query string. Raises `Problem` 400 (unreadable) or 422 (wrong)."""
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
    """The non-empty fields of a posted form, stripped of blanks. Of a repeated field the first value counts.
    Raises `Problem` 400 if there are too many fields."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        posted = parse_qs(body, max_num_fields=_MOST_FIELDS)
    except ValueError:
        detail = Message("a form has {most} fields at most", most=_MOST_FIELDS)
        raise Problem(400, "unreadable", detail, hint="send the fields of the page's own form") from None
    return {name: values[0].strip() for name, values in posted.items() if values[0].strip()}
