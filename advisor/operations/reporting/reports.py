"""Questions -> the document `advisor.report/1`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

from advisor.operations.answering.ground import Ground
from advisor.operations.answering.recommending import Decide, recommended
from advisor.operations.answering.words import Words
from advisor.operations.reporting.measured import Measured
from advisor.operations.reporting.reproducing import Origin, reproducibility
from advisor.operations.reporting.sections import Answered, Named, section
from advisor.operations.reporting.subject import Deciding
from advisor.report.sizing.facts import SCHEMA, totals

# Told after each workload: how many are done.
Step = Callable[[int], None]


class Question(NamedTuple):
    """A workload of a report: its name, its words, and the command that asks it alone."""

    name: str
    words: Words
    command: str = ""


class Report(NamedTuple):
    """What a report is called, its day, and how it was asked for."""

    title: str
    as_of: date
    origin: Origin


def report(
    ground: Ground,
    questions: Sequence[Question],
    asked: Report,
    *,
    deciding: Decide | None = None,
    step: Step = lambda _done: None,
) -> dict[str, Any]:
    """`advisor.report/1`: a section a question, in their order, and their totals.

    `deciding` asks a cloud first, where that is wanted. Raises what `recommended` raises.
    """
    measured = Measured()
    sections = []
    for one in sections_of(ground, questions, asked.as_of, measured, deciding):
        sections.append(one)
        step(len(sections))
    return assembled(ground, asked, sections, measured)


def sections_of(
    ground: Ground,
    questions: Sequence[Question],
    as_of: date,
    measured: Measured,
    deciding: Decide | None = None,
) -> Iterator[dict[str, Any]]:
    """The sections, one after the other."""
    known = Deciding(as_of)
    for one in questions:
        found = recommended(ground, {**one.words, "explain": True}, deciding or known)
        answer, (catalog, model, _) = found.answer, found.ground
        prepared = known.prepared(answer.request, catalog, model)
        yield section(
            Named(one.name, one.command),
            Answered(answer, found.document(), found.ground, prepared),
            measured,
        )


def assembled(
    ground: Ground, asked: Report, sections: Sequence[dict[str, Any]], measured: Measured
) -> dict[str, Any]:
    """The whole document."""
    return {
        "schema": SCHEMA,
        "title": asked.title,
        "as_of": asked.as_of.isoformat(),
        "totals": totals(sections),
        "workloads": list(sections),
        "reproducibility": reproducibility(ground, asked.origin, measured, sections),
    }
