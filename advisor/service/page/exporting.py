"""`/export`: the answer to a question as a file, as /v1/reports writes it; refusals are a page."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.errors import AdvisorError
from advisor.operations.answering.recommending import recommended
from advisor.operations.answering.reports import FORMATS, Format, format_named
from advisor.service.answers import ground_of
from advisor.service.forms.questions import RECOMMEND
from advisor.service.page.asking import read_form
from advisor.service.page.frame import Frame
from advisor.service.page.trouble import trouble_view
from advisor.service.problems import Problem

router = APIRouter(include_in_schema=False)


def export_links(frame: Frame) -> list[dict[str, str]]:
    """The same question as a file, in every format."""
    return [
        {"name": name, "href": frame.same("/export", format=name), "file": _file_name(name, one)}
        for name, one in FORMATS.items()
    ]


@router.get("/export")
def export_answer(request: Request) -> Response:
    """The file; a question that cannot be answered, or a start of nothing, is told as a page."""
    frame = Frame(request)
    asked = dict(frame.asked)
    name = asked.pop("format", "json")
    try:
        return _file(request, name, asked)
    except (AdvisorError, Problem) as error:
        values, status = trouble_view(error, asked, frame)
        return frame.page("problem.html", status=status, **values)


def _file(request: Request, name: str, asked: Mapping[str, str]) -> Response:
    kind = format_named(name)
    text = kind.write(recommended(ground_of(request), read_form(RECOMMEND, asked)))
    headers = {"Content-Disposition": f'attachment; filename="{_file_name(name, kind)}"'}
    return Response(text, media_type=kind.media_type, headers=headers)


def _file_name(name: str, kind: Format) -> str:
    tool = "" if name == kind.extension else f"-{name}"
    return f"recommendation{tool}.{kind.extension}"
