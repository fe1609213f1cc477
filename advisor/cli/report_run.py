"""Runs `advisor report`: reads the question, gathers, renders, and writes one file whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import click

from advisor.answers.context import load_context
from advisor.answers.reporting.plans import Entry, read_plan, shown_name
from advisor.answers.reporting.reports import (
    Report,
    ReportedWorkload,
    command_line,
    inputs_of,
    question_of_report,
    read_input,
    report,
    report_of_saved,
)
from advisor.answers.reporting.reproducing import Input, Origin
from advisor.answers.reporting.saved import read_saved
from advisor.cli.printing import is_terminal
from advisor.cli.questions import NOT_IN_REPORTS
from advisor.cli.sending import Destination, format_of_targets, send_out
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.questions.commands import RECOMMEND
from advisor.questions.fields import wrong
from advisor.questions.listings import Sources
from advisor.questions.network import Recommend
from advisor.questions.reading import from_fields, from_texts, options_of
from advisor.questions.settled import today
from advisor.render.facts import SCHEMA
from advisor.render.formats import ReportFormat, format_of_file, report_format

_STDIN = "-"
# What no workload of a plan can say for itself, and what all of them share.
_SHARED = ("live",)


class Ask(NamedTuple):
    """A report's question: the fields that were given, the data behind the answers, and other places to
    look."""

    given: dict[str, Any]
    sources: Sources
    plan_file: str | None
    saved: tuple[str, ...]
    title: str | None
    as_of: date | None


def make_report(ask: Ask, to: Destination, name: str | None, language: str, send: Sequence[str]) -> None:
    """Gather, render, write, send; nothing is written where anything is wrong."""
    kind = _format(to, name, send)
    document = _document(ask)
    with _passing_line(f"rendering {kind.extension}"):
        content = kind.content(document, language)
    to.write(content)
    if to.targets:
        from advisor.runs.delivery.letter import attachment, report_message

        file = attachment(to.path.name if to.path else f"report-{document['as_of']}", kind, content)
        send_out(report_message(document, file), to.targets)


def _format(to: Destination, name: str | None, send: Sequence[str]) -> ReportFormat:
    if name is None:
        name = format_of_file(to.path.name) if to.path else format_of_targets(send)
    kind = report_format(name)
    kind.require_packages()
    if to.prints and kind.binary and sys.stdout.isatty():
        raise UsageError(
            "{format} is no text for a terminal",
            format=name,
            hint=Message("name a file: --out report.{format}", format=name),
        )
    return kind


def plan_report(file: str) -> dict[str, Any]:
    """The report on a plan's workloads as of today."""
    return _of_plan(Ask({}, Sources(), file, (), None, None), file)


def _document(ask: Ask) -> dict[str, Any]:
    ways = [ask.plan_file is not None, bool(ask.saved), _asks(ask)]
    if ways == [True, False, True]:
        raise UsageError(
            "the workloads of a plan say for themselves what is asked",
            hint="write what all of them share under its `defaults:`",
        )
    if sum(ways) != 1:
        raise UsageError(
            "say what to report on", hint="one of: a question (--task, --model, ..), --plan FILE, --from FILE"
        )
    if ask.plan_file is not None:
        return _of_plan(ask, ask.plan_file)
    if ask.saved:
        return _of_saved(ask)
    question = question_of_report(from_fields(RECOMMEND, ask.given), ask.sources)
    return _reported(ask, [_living(question, ask)], (), question.name)


def _asks(ask: Ask) -> bool:
    """Whether a question is asked, beside what a plan or saved answers may be told with."""
    shared = _SHARED if ask.plan_file or ask.saved else ()
    return any(field not in shared for field in ask.given)


def _of_plan(ask: Ask, file: str) -> dict[str, Any]:
    source = _read(file)
    plan = read_plan(source.content, source.name)
    questions = [_living(planned(entry, source.name), ask) for entry in plan.entries]
    stem = "" if file == _STDIN else Path(source.name).stem
    usual = plan.title or shown_name(stem or "workloads", "the plan's name")
    return _reported(ask, questions, (source,), usual)


def planned(entry: Entry, file: str) -> ReportedWorkload:
    """A workload of a plan as a question; `UsageError` has its place."""
    line = f"{file}, line {entry.line}"
    try:
        for field in entry.fields:
            if field in (*_SHARED, *Sources.fields):
                raise wrong(
                    field,
                    "{field} is one for all workloads",
                    hint=Message("give {field} to `report`", field=FieldName(field)),
                )
            if field in NOT_IN_REPORTS:
                raise wrong(
                    field, "{field} changes nothing of a report: it explains anyway", hint="leave it out"
                )
        question = from_texts(RECOMMEND, entry.fields, "word of a workload")
    except UsageError as error:
        raise UsageError(
            Message("{place}: workload '{name}': {what}", place=line, name=entry.name, what=error.message),
            hint=error.hint,
            field=error.field,
        ) from error
    return ReportedWorkload(entry.name, question, command_line("recommend", options_of(question)), line)


def _living(question: ReportedWorkload, ask: Ask) -> ReportedWorkload:
    if not ask.given.get("live"):
        return question
    if ask.as_of not in (None, today()):
        raise UsageError("--live tells today's prices", hint="leave out --date")
    if not isinstance(question.question, Recommend):
        raise RECOMMEND.refusal("live")
    return question._replace(question=question.question.replace(live=True))


def _reported(
    ask: Ask, questions: Sequence[ReportedWorkload], inputs: Sequence[Input], usual: str
) -> dict[str, Any]:
    read = (*inputs, *inputs_of(*(question.question for question in questions)))
    context, wanted = load_context(ask.sources), _report(ask, read, usual)
    with _counting(len(questions)) as step:
        return report(context, questions, wanted, step=step)


def _of_saved(ask: Ask) -> dict[str, Any]:
    sources = [_read(file) for file in ask.saved]
    documents = [read_saved(file) for file in sources]
    reports = [file for file in documents if file["schema"] == SCHEMA]
    if not reports:
        names = [f"{file['request']['model']} {file['request']['task']}" for file in documents]
        usual = names[0] if len(names) == 1 else "workloads"
        context, wanted = load_context(ask.sources), _report(ask, sources, usual)
        with _counting(len(sources)) as step:
            return report_of_saved(context, sources, wanted, step=step)
    if len(documents) > 1:
        raise UsageError("a saved report stands alone", hint="`advisor report diff` compares two of them")
    if ask.title or ask.as_of:
        raise UsageError("a saved report keeps its title and its day", hint="leave out --title and --date")
    return reports[0]


def _report(ask: Ask, inputs: Sequence[Input], usual: str) -> Report:
    day = ask.as_of or today()
    origin = Origin(command_line("report", _options_of(ask, day)), inputs, ask.sources)
    title = usual if ask.title is None else shown_name(ask.title, "--title")
    return Report(title, day, origin)


def _options_of(ask: Ask, day: date) -> list[str]:
    """The options that ask for the same report, but for its output."""
    options = [] if ask.plan_file is None else ["--plan", ask.plan_file]
    options += [word for file in ask.saved for word in ("--from", file)]
    options += [] if ask.title is None else ["--title", ask.title]
    if _asks(ask):
        options += options_of(from_fields(RECOMMEND, ask.given))
    elif ask.given.get("live"):
        options += ["--live"]
    return [*options, *options_of(ask.sources), "--date", day.isoformat()]


def _read(file: str) -> Input:
    return Input("stdin", sys.stdin.buffer.read()) if file == _STDIN else read_input(file)


@contextmanager
def _passing_line(text: str) -> Iterator[None]:
    draws = is_terminal(sys.stderr)
    click.echo(f"\r\x1b[K{text}" if draws else "", nl=False, err=True)
    try:
        yield
    finally:
        click.echo("\r\x1b[K" if draws else "", nl=False, err=True)


@contextmanager
def _counting(length: int) -> Iterator[Callable[[int], None]]:
    """Yields a callback for the number of finished workloads; on a terminal it moves a progress bar."""
    if length < 2 or not is_terminal(sys.stderr):
        yield lambda _done: None
        return
    with click.progressbar(length=length, label="workloads", file=sys.stderr) as bar:
        yield lambda done: bar.update(done - bar.pos)
