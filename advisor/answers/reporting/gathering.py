"""Questions answered one after the other, those that share their preparation together.

A number's last bits depend on what it was computed beside. So questions are grouped by what they
share, and a group by nothing else: whoever answers which group, the report has the same bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any, NamedTuple

from advisor.answers import ask
from advisor.answers.context import Context
from advisor.answers.networks import recommended
from advisor.answers.reporting.evidence import Measured
from advisor.answers.reporting.sections import Answered, Named, language_section, section
from advisor.domain.workload import is_own
from advisor.engine.prepared import Preparations, key_of
from advisor.errors import AdvisorError
from advisor.messages import Message
from advisor.questions.commands import AnyRecommend
from advisor.questions.language_requests import language_request
from advisor.questions.models import Recommend


class ReportedWorkload(NamedTuple):
    """A workload of a report: its name, what is asked, the command that asks it alone, and where it
    was said ('team.yaml, line 7'), for what is wrong with it."""

    name: str
    question: AnyRecommend
    command: str = ""
    place: str = ""


# A question with its place in the report; those of a group share what is prepared.
Group = list[tuple[int, ReportedWorkload]]


def checked(context: Context, questions: Sequence[ReportedWorkload]) -> list[Group]:
    """The questions by what they share, once each is known to be one that can be asked."""
    groups: dict[Hashable, Group] = {}
    for place, question in enumerate(questions):
        with _with_place(question):
            groups.setdefault(_shared(context, place, question), []).append((place, question))
    return list(groups.values())


def _shared(context: Context, place: int, workload: ReportedWorkload) -> Hashable:
    question = workload.question
    if not isinstance(question, Recommend):
        language_request(question, context.catalog)
        return place  # nothing is prepared for several language models
    if question.anchor or is_own(question.model):
        return place  # what it stands on is known once its files were read
    return key_of(context.request(question))


def gathered(context: Context, group: Group, as_of: date) -> Iterator[tuple[int, dict[str, Any]]]:
    """The sections of a group, each with its place."""
    preparations: Preparations | None = None
    measured = Measured()
    for place, workload in group:
        named, question = Named(workload.name, workload.command), workload.question
        with _with_place(workload):
            if not isinstance(question, Recommend):
                asked = question.replace(explain_rejected=True)
                found = ask.recommend(context, asked, today=as_of)
                yield place, language_section(named, found, context.catalog, as_of)
                continue
            question = question.replace(explain=True, explain_rejected=True)
            result = recommended(context, question, preparations=preparations, today=as_of)
            preparations = result.preparations
            answered = Answered(
                result.result,
                result.message_document(),
                result.context,
                preparations.of(result.result.request),
            )
            yield place, section(named, answered, measured, as_of)


@contextmanager
def _with_place(question: ReportedWorkload) -> Iterator[None]:
    """An error with the place of the workload that it is about."""
    try:
        yield
    except AdvisorError as error:
        if not question.place:
            raise
        raise type(error)(
            Message(
                "{place}: workload '{name}': {what}",
                place=question.place,
                name=question.name,
                what=error.message,
            ),
            hint=error.hint,
            field=error.field,
            code=error.code,
        ) from error
