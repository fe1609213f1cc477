"""The fields of an address -> a question.

The API's own reader takes them, so that page, API and command line take and refuse the same. What a
page has besides (where a list goes on) is no field of the question, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from advisor.questions.models import Question
from advisor.questions.reading import fields_of, from_pairs

Q = TypeVar("Q", bound=Question)


def question_of(kind: type[Q], given: Mapping[str, str]) -> Q:
    """The question; `UsageError` for the first field that cannot be read. Of a field that takes
    several values an address may have them divided by commas."""
    fields = fields_of(kind)
    return from_pairs(
        kind,
        [
            (name, part)
            for name, text in given.items()
            if name in fields
            for part in (text.split(",") if fields[name].about.kind.repeats else [text])
            if part.strip()
        ],
    )
