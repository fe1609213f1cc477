"""What clients send: questions, records and forms, out of bodies and links."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from fastapi import Request

from advisor.errors import UsageError, one_line
from advisor.messages import Message
from advisor.questions.question import Question
from advisor.questions.reading import CONTRADICTION, UnreadableError, from_json, from_link
from advisor.service.problems import Problem, problem_of

JSON = "application/json"
Q = TypeVar("Q", bound=Question)
T = TypeVar("T", bound=msgspec.Struct)
# Nothing in a text steers a terminal, and no database refuses it.
Text = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
# More than any form of ours has.
_MOST_FIELDS = 30
# What a question that can be read is refused for, by the code of the error.
_KINDS = {"unknown_field": "unknown-field", CONTRADICTION: "unanswerable"}
_DESCRIBED = "GET /openapi.json describes each field"


async def json_body(request: Request) -> bytes:
    """The body of a request that says it is JSON; `Problem` 415 for another kind."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Problem(415, "unsupported-media-type",
                      Message("the body is '{kind}', not JSON", kind=kind[:60]),
                      hint="send it with Content-Type: application/json")  # fmt: skip
    return await request.body()


async def question_in_body(request: Request, kind: type[Q]) -> Q:
    """The body as a question; `Problem` 400, 415 or 422."""
    body = await json_body(request)
    with _refused():
        return from_json(kind, body)


def question_in_link(request: Request, kind: type[Q]) -> Q:
    """The query of a link as a question; `Problem` 400 or 422."""
    return question_in_query(kind, request.scope["query_string"])


def question_in_query(kind: type[Q], query: bytes) -> Q:
    """The same of a query string."""
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


async def record_in_body(request: Request, kind: type[T]) -> T:
    """The body as a record; `Problem` 400 for what is no JSON, 422 for what is no such record."""
    body = await json_body(request)
    try:
        values = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Problem(400, "unreadable", "the body is no JSON",
                      hint="send one JSON object in UTF-8, without NaN") from None  # fmt: skip
    if not isinstance(values, dict):
        raise Problem(422, "invalid", "the body must be an object", hint=_DESCRIBED)
    return _record_of(values, kind)


def record_in_query(request: Request, kind: type[T]) -> T:
    """The query of a link as a record; `Problem` 422 for what is none."""
    return _record_of(dict(request.query_params), kind, strict=False)


def _record_of(values: dict[str, Any], kind: type[T], *, strict: bool = True) -> T:
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name in values.keys() - fields:
        near = difflib.get_close_matches(name[:100], fields, n=1)
        hint = Message("did you mean {name}?", name=near[0]) if near else _DESCRIBED
        shown = one_line(name[:60])
        raise Problem(422, "unknown-field", Message("there is no field '{name}'", name=shown),
                      hint=hint, field=shown)  # fmt: skip
    try:
        return msgspec.convert(values, kind, strict=strict)
    except msgspec.ValidationError as error:
        required = [field.name for field in fields.values() if field.required]
        raise _invalid(values, kind, required, strict, error) from None


def _invalid(
    values: dict[str, Any],
    kind: type[T],
    required: Sequence[str],
    strict: bool,
    error: msgspec.ValidationError,
) -> Problem:
    """Which field is wrong: the first with which a record of the fields so far is none.

    A field is not converted to its type alone: msgspec 0.22 crashes on unions with a list."""
    record, field, reason = dict[str, Any](), None, str(error)
    for name in (*required, *values):
        if name not in values:
            field, reason = name, "it is missing"
            break
        record[name] = values[name]
        try:
            msgspec.convert(record, kind, strict=strict)
        except msgspec.ValidationError as its_error:
            if record.keys() >= set(required) or len(required) == 1:
                field, reason = name, str(its_error)
                break
    detail = Message("{field}: {reason}", field=field, reason=reason) if field else reason
    return Problem(422, "invalid", detail, hint=_DESCRIBED, field=field)


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of a posted form that say something, without the blanks around them; of one that
    is there twice the first. `Problem` 400 for a form that has too many."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        posted = parse_qs(body, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise Problem(400, "unreadable",
                      Message("a form has {most} fields at most", most=_MOST_FIELDS),
                      hint="send the fields of the page's own form") from None  # fmt: skip
    return {name: values[0].strip() for name, values in posted.items() if values[0].strip()}
