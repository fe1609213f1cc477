"""`/export`: the answer to a question as a file, in the formats of the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.errors import AdvisorError, unknown_name
from advisor.operations.answering.recommending import Recommended, recommended
from advisor.report.document import document_yaml
from advisor.report.exporting import FORMATS, export
from advisor.report.tables import recommendation_csv, recommendation_markdown
from advisor.service.answers import ground_of
from advisor.service.forms.questions import RECOMMEND
from advisor.service.page.asking import read_form
from advisor.service.page.frame import Frame
from advisor.service.page.trouble import trouble_view
from advisor.service.problems import Problem

_TEXT = "text/plain; charset=utf-8"
_YAML = "application/yaml; charset=utf-8"


def _json(document: Mapping[str, Any]) -> str:
    import json

    return json.dumps(document, indent=2, allow_nan=False) + "\n"


# Of the whole answer: how it is written, its type, and how the file ends.
DOCUMENTS: dict[str, tuple[Callable[[Mapping[str, Any]], str], str, str]] = {
    "json": (_json, "application/json", "json"),
    "csv": (recommendation_csv, "text/csv; charset=utf-8", "csv"),
    "md": (recommendation_markdown, "text/markdown; charset=utf-8", "md"),
    "yaml": (document_yaml, _YAML, "yaml"),
}
# Of what starts the recommended spec: how the file ends.
ENDINGS = {"terraform": "tf", "skypilot": "yaml", "dstack": "yaml", "ray": "yaml", "awscli": "sh"}

router = APIRouter(include_in_schema=False)


def export_links(frame: Frame) -> list[dict[str, str]]:
    """The same question as a file, in every format."""
    endings = {name: ending for name, (_, _, ending) in DOCUMENTS.items()} | ENDINGS
    return [
        {"name": name, "href": frame.same("/export", format=name), "file": _file_name(ending)}
        for name, ending in endings.items()
    ]


@router.get("/export")
def export_answer(request: Request) -> Response:
    """The file; a question that cannot be answered, or a start of nothing, is told as a page."""
    frame = Frame(request)
    asked = dict(frame.asked)
    form = asked.pop("format", "json")
    try:
        found = recommended(ground_of(request), read_form(RECOMMEND, asked))
        return _file(found, form)
    except (AdvisorError, Problem) as error:
        values, status = trouble_view(error, asked, frame)
        return frame.page("problem.html", status=status, **values)


def _file(found: Recommended, form: str) -> Response:
    if form in DOCUMENTS:
        write, kind, ending = DOCUMENTS[form]
        return _download(write(found.document()), kind, ending)
    if form not in FORMATS:
        raise unknown_name("export", form, (*DOCUMENTS, *FORMATS))
    if found.answer.chosen is None:
        raise Problem(409, "nothing-to-start", "nothing on offer does this: nothing can be started")
    kind = _YAML if ENDINGS[form] == "yaml" else _TEXT
    return _download(export(found.answer.chosen, form), kind, ENDINGS[form])


def _download(text: str, kind: str, ending: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{_file_name(ending)}"'}
    return Response(text, media_type=kind, headers=headers)


def _file_name(ending: str) -> str:
    return f"recommendation.{ending}"
