"""An answer as a file: one table of the formats there are, of recommendations and of reports.

The formats of a sizing report (`advisor.render.sizing.formats`) stand here under their own names;
those that a recommendation has too are called `report-json` and so on.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from datetime import date
from typing import NamedTuple

from advisor.answers.ground import Ground
from advisor.answers.recommending import Recommended, recommended
from advisor.engine import no_offer
from advisor.errors import NoOfferError, unknown_name
from advisor.questions.models import Recommend
from advisor.questions.reading import options_of
from advisor.questions.requests import today
from advisor.records import dataclass
from advisor.render.document import document_yaml
from advisor.render.exporting import FORMATS as TOOLS
from advisor.render.exporting import export
from advisor.render.sizing.formats import REPORT_FORMATS, ReportFormat

_YAML, _PLAIN = "application/yaml", "text/plain; charset=utf-8"
_REPORT = "report-"


class Asked(NamedTuple):
    """A question on its ground. A report has a language and a day (today, where none is said)."""

    ground: Ground
    question: Recommend
    language: str = "en"
    as_of: date | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """What a file of it is called and is; `about` is for people. A `report` has a language."""

    extension: str
    media_type: str
    about: str
    write: Callable[[Asked], str | bytes]
    report: bool = False


def _json(found: Recommended) -> str:
    return json.dumps(found.document(), indent=2, allow_nan=False) + "\n"


def _csv(found: Recommended) -> str:
    from advisor.render.tables import recommendation_csv  # most answers are no table of cells

    return recommendation_csv(found.document())


def _markdown(found: Recommended) -> str:
    from advisor.render.tables import recommendation_markdown  # as above

    return recommendation_markdown(found.document())


def _exported(tool: str) -> Callable[[Recommended], str]:
    def write(found: Recommended) -> str:
        if found.answer.chosen is None:
            raise NoOfferError(no_offer(found.answer))
        return export(found.answer.chosen, tool)

    return write


# How a recommendation is written, by the name of a format.
TEXTS: Mapping[str, Callable[[Recommended], str]] = {
    "json": _json,
    "yaml": lambda found: document_yaml(found.document()),
    "csv": _csv,
    "md": _markdown,
    **{tool: _exported(tool) for tool in TOOLS},
}


def _answer(name: str, extension: str, media_type: str, about: str) -> Format:
    def write(asked: Asked) -> str:
        return TEXTS[name](recommended(asked.ground, asked.question))

    return Format(extension, media_type, about, write)


def _report(kind: ReportFormat) -> Format:
    def write(asked: Asked) -> bytes:
        from advisor.answers.reporting.gathering import Question  # few ask for it
        from advisor.answers.reporting.reports import Report, report
        from advisor.answers.reporting.reproducing import Origin

        kind.require_packages()
        question = asked.question
        options = shlex.join(options_of(question))
        name = f"{question.model} {question.task}"
        one = Question(name, question, f"advisor recommend {options}")
        day = asked.as_of or today()
        said = Report(name, day, Origin(f"advisor report {options} --date {day}"))
        return kind.content(report(asked.ground, [one], said), asked.language)

    return Format(kind.extension, kind.media_type, f"sizing report: {kind.about}", write, True)


_ANSWERS: Mapping[str, Format] = {
    name: _answer(name, *said)
    for name, *said in (
        ("json", "json", "application/json", "the whole document"),
        ("yaml", "yaml", _YAML, "the same as YAML"),
        ("csv", "csv", "text/csv; charset=utf-8", "a row a spec, for spreadsheets"),
        ("md", "md", "text/markdown; charset=utf-8", "a table for people"),
        ("terraform", "tf", _PLAIN, "what starts it with Terraform"),
        ("skypilot", "yaml", _YAML, "what starts it with SkyPilot"),
        ("dstack", "yml", _YAML, "what starts it with dstack"),
        ("ray", "yaml", _YAML, "what starts it as a Ray cluster"),
        ("awscli", "sh", _PLAIN, "what starts it with the AWS CLI"),
    )
}
_REPORTS = {
    f"{_REPORT if name in _ANSWERS else ''}{name}": _report(one)
    for name, one in REPORT_FORMATS.items()
}
FORMATS: Mapping[str, Format] = {**_REPORTS, **_ANSWERS}


def format_named(name: str) -> Format:
    """The format of that name; `UsageError` with the nearest for another."""
    if name not in FORMATS:
        raise unknown_name("report format", name, FORMATS)
    return FORMATS[name]


def file_name(stem: str, name: str) -> str:
    """'googlenet-inference-terraform.tf': what two formats end with alike is told apart."""
    one = FORMATS[name]
    tool = "" if name == one.extension else f"-{name.removesuffix(f'-{one.extension}')}"
    return f"{stem}{tool}.{one.extension}"
