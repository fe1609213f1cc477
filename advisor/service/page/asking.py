"""The fields of an address -> a question.

It is read as the API reads a link, so that page, API and command line take and refuse the same.
What a page has besides (where a list goes on) is no field of the question, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from advisor.errors import AdvisorError, UsageError
from advisor.questions.models import Question
from advisor.questions.reading import fields_of, from_pairs
from advisor.service.problems import Problem, problem_of_question

Q = TypeVar("Q", bound=Question)


def read_form(kind: type[Q], asked: Mapping[str, str]) -> Q:
    """The question of an address; `Problem` for the first field that cannot be read. Of a field
    that may have several values an address may have them divided by commas."""
    fields = fields_of(kind)
    pairs = [
        (name, value)
        for name, text in asked.items()
        if name in fields
        for value in (text.split(",") if fields[name].about.kind.repeats else [text])
        if value.strip()
    ]
    try:
        return from_pairs(kind, pairs)
    except UsageError as error:
        raise problem_of_question(error) from None


def field_of(error: Exception) -> str | None:
    """Which field an error is about; None where it is about the question as a whole."""
    if isinstance(error, Problem):
        field = error.more.get("field")
        return None if field is None else str(field)
    return error.field if isinstance(error, AdvisorError) else None
