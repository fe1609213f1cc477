"""A report on one question, and what every report says of how it was asked for."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from advisor.answers.context import load_context
from advisor.answers.reporting.gathering import ReportedWorkload
from advisor.answers.reporting.reports import Report, report
from advisor.answers.reporting.reproducing import Input, Origin
from advisor.errors import UsageError
from advisor.questions.commands import AnyRecommend
from advisor.questions.fields import File, Files
from advisor.questions.language import RecommendGeneration
from advisor.questions.listings import Sources
from advisor.questions.models import Recommend
from advisor.questions.reading import options_of
from advisor.questions.requests import today
from advisor.questions.traffic import KNOWN_TRAFFIC


def report_of_question(question: AnyRecommend, sources: Sources, title: str = "") -> dict[str, object]:
    """`advisor.report/1` about one question, as of today; without a title it is the workload's."""
    asked, day = question_of_report(question, sources), today()
    options = [*options_of(question), *options_of(sources), "--date", day.isoformat()]
    origin = Origin(command_line("report", options), inputs_of(question), sources)
    return report(load_context(sources), [asked], Report(title or asked.name, day, origin))


def question_of_report(question: AnyRecommend, sources: Sources) -> ReportedWorkload:
    """The question under the name that its section has, with the command that asks it alone."""
    model = question.model if isinstance(question, Recommend) else question.model_text
    command = command_line("recommend", [*options_of(question), *options_of(sources)])
    return ReportedWorkload(f"{model} {question.task}", question, command)


def command_line(command: str, options: Sequence[str]) -> str:
    """As a shell takes it."""
    return as_text(f"advisor {command} {shlex.join(options)}".strip())


def as_text(word: str) -> str:
    """A word of a command line, which may hold the bytes of a name that is no UTF-8."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def inputs_of(*questions: AnyRecommend) -> tuple[Input, ...]:
    """What was read of the user's own files that the questions name, each once."""
    files = dict.fromkeys(file for question in questions for file in _files_of(question))
    return tuple(map(read_input, files))


def _files_of(question: AnyRecommend) -> list[str]:
    fields = [field for field in question.fields.values() if isinstance(field.kind, File | Files)]
    values = [getattr(question, field.name) for field in fields]
    files = [file for value in values for file in (value if isinstance(value, tuple) else [value])]
    if isinstance(question, RecommendGeneration) and question.traffic not in KNOWN_TRAFFIC:
        files.append(question.traffic)
    return [str(file) for file in files if file]


def read_input(file: str) -> Input:
    """A file's content under its name; `UsageError` where it cannot be read."""
    try:
        return Input(as_text(file), Path(file).read_bytes())
    except OSError as error:
        raise UsageError("'{file}' cannot be read: {why}", file=file, why=error.strerror or "") from None
