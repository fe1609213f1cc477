"""Questions -> the document `advisor.report/1`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from advisor.answers.context import Context
from advisor.answers.reporting.evidence import Measured
from advisor.answers.reporting.gathering import ReportedWorkload, checked, gathered
from advisor.answers.reporting.parallel import gathered_in_parallel, pays
from advisor.answers.reporting.reproducing import Input, Origin, reproducibility
from advisor.answers.reporting.saved import answered_again, read_saved
from advisor.answers.reporting.sections import Answered, Named, bare_section, section
from advisor.domain import Recommendation
from advisor.engine import Preparations
from advisor.messages import Message
from advisor.render.document import is_language
from advisor.render.sizing.facts import SCHEMA, totals

# Told after each workload: how many are done.
Step = Callable[[int], None]


def _unheard(_done: int) -> None:
    """Nobody waits."""


class Report(NamedTuple):
    """What a report is called, its day, and how it was asked for."""

    title: str
    as_of: date
    origin: Origin


def report(
    context: Context,
    questions: Sequence[ReportedWorkload],
    asked: Report,
    *,
    step: Step = _unheard,
    processes: int = 1,
) -> dict[str, Any]:
    """`advisor.report/1`: a section a question, in their order, and their totals.

    Every question is looked at before the first is answered. Raises what `recommended` raises,
    told with the workload's place. More `processes` share the work where that pays, with the same
    result to the last bit.
    """
    groups = checked(context, questions)
    sections: dict[int, dict[str, Any]] = {}
    if pays(groups, processes):
        parts = gathered_in_parallel(groups, asked.as_of, asked.origin, processes)
    else:
        parts = (part for group in groups for part in gathered(context, group, asked.as_of))
    for place, part in parts:
        sections[place] = part
        step(len(sections))
    return _assembled(context, asked, [sections[place] for place in range(len(questions))])


def report_of_saved(
    context: Context, files: Sequence[Input], asked: Report, *, step: Step = _unheard
) -> dict[str, Any]:
    """The same of saved answers. Where today's catalogue and model still give one, its section is
    whole; else, and of language models, it tells what the saved answer itself tells (`complete` is
    false)."""
    measured, sections = Measured(), []
    for file in files:
        sections.append(_saved_section(context, file, asked.as_of, measured))
        step(len(sections))
    return _assembled(context, asked, sections)


def _saved_section(context: Context, file: Input, as_of: date, measured: Measured) -> dict[str, Any]:
    document = read_saved(file)
    request = document["request"]
    named = Named(f"{request['model']} {request['task']}", "")
    if is_language(document):
        return bare_section(named, document)
    preparations = Preparations(context.catalog, context.model)
    answer = answered_again(document, context, preparations)
    if answer is None:
        return bare_section(named, document)
    prepared = preparations.of(answer.request)
    told = _translatable(document, answer)
    return section(named, Answered(answer, told, context, prepared), measured, as_of)


def _translatable(document: Mapping[str, Any], answer: Recommendation) -> dict[str, Any]:
    """A saved answer with the sentences that its question is still answered with as messages, which
    other languages have words for."""
    messages = {str(one): one for one in (*answer.warnings, *answer.assumptions)}

    def known(sentences: Sequence[str]) -> list[Message | str]:
        return [messages.get(sentence, sentence) for sentence in sentences]

    return {**document, **{name: known(document[name]) for name in ("warnings", "assumptions")}}


def _assembled(context: Context, asked: Report, sections: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "title": asked.title,
        "as_of": asked.as_of.isoformat(),
        "totals": totals(sections),
        "workloads": list(sections),
        "reproducibility": reproducibility(context, asked.origin, sections),
    }
