"""The table of all file formats of recommendations and of reports.

Formats of a sizing report (`advisor.render.formats`) keep their names; where a recommendation has a format of
the same name, the report's is called `report-json` and so on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import NamedTuple

from msgspec import Struct

from advisor.answers import ask
from advisor.answers.context import Context
from advisor.answers.reporting.reports import Report, command_line, question_of_report, report
from advisor.errors import unknown_name
from advisor.questions.commands import AnyRecommend
from advisor.questions.listings import Sources
from advisor.questions.reading import options_of
from advisor.questions.settled import today
from advisor.render.formats import REPORT_FORMATS, ReportFormat

_YAML, _PLAIN = "application/yaml", "text/plain; charset=utf-8"
_REPORT = "report-"


class ExportRequest(NamedTuple):
    """A question in its context; `language` and `as_of` (None: today) are for reports only."""

    context: Context
    question: AnyRecommend
    language: str = "en"
    as_of: date | None = None


class Format(Struct, frozen=True):
    """A file format; `about` describes it for people, and a `report` takes a language."""

    extension: str
    media_type: str
    about: str
    write: Callable[[ExportRequest], str | bytes]
    report: bool = False


def _answer(name: str, extension: str, media_type: str, about: str) -> Format:
    def write(request: ExportRequest) -> str:
        return ask.recommend(request.context, request.question).written(name)

    return Format(extension, media_type, about, write)


def _report(kind: ReportFormat) -> Format:
    def write(request: ExportRequest) -> bytes:
        kind.require_packages()
        workload, day = question_of_report(request.question, Sources()), request.as_of or today()
        command = command_line("report", [*options_of(request.question), "--date", str(day)])
        details = Report(workload.name, day, command)
        return kind.content(report(request.context, [workload], details), request.language)

    return Format(kind.extension, kind.media_type, f"sizing report: {kind.about}", write, True)


_ANSWERS: Mapping[str, Format] = {
    name: _answer(name, *facts)
    for name, *facts in (
        ("json", "json", "application/json", "the whole document"),
        ("yaml", "yaml", _YAML, "the same as YAML"),
        ("csv", "csv", "text/csv; charset=utf-8", "a row a spec, for spreadsheets"),
        ("md", "md", "text/markdown; charset=utf-8", "a table for people"),
        ("terraform", "tf", _PLAIN, "what starts it with Terraform"),
        ("skypilot", "yaml", _YAML, "what starts it with SkyPilot"),
        ("dstack", "yml", _YAML, "what starts it with dstack"),
        ("ray", "yaml", _YAML, "what starts it as a Ray cluster"),
        ("awscli", "sh", _PLAIN, "what starts it with the AWS CLI"),
        ("compose", "yaml", _YAML, "what serves a language model with Docker Compose"),
        ("kubernetes", "yaml", _YAML, "what serves it on Kubernetes: a Deployment and a Service"),
        ("kserve", "yaml", _YAML, "what serves it as an InferenceService of KServe"),
    )
}
_REPORTS = {
    f"{_REPORT if name in _ANSWERS else ''}{name}": _report(kind) for name, kind in REPORT_FORMATS.items()
}
FORMATS: Mapping[str, Format] = {**_REPORTS, **_ANSWERS}


def format_named(name: str) -> Format:
    """The format of that name; raises `UsageError` with the nearest names for an unknown one."""
    if name not in FORMATS:
        raise unknown_name("report format", name, FORMATS)
    return FORMATS[name]


def file_name(stem: str, name: str) -> str:
    """A file name such as 'googlenet-inference-terraform.tf': the format keeps equal extensions apart."""
    kind = FORMATS[name]
    tool = "" if name == kind.extension else f"-{name.removesuffix(f'-{kind.extension}')}"
    return f"{stem}{tool}.{kind.extension}"
