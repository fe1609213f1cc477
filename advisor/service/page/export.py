"""`/export`: the answer to a question as a file, as /v1/reports writes it; refusals are a page."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers.reporting.formats import FORMATS, Asked, file_name, format_named
from advisor.domain.generation import LanguageTask
from advisor.errors import AdvisorError
from advisor.questions.commands import RECOMMEND
from advisor.render.exporting import COMPOSE
from advisor.render.exporting import FORMATS as EXPORTS
from advisor.render.exporting.serving import FORMATS as SERVING_EXPORTS
from advisor.service.answers import context_of, threads_of
from advisor.service.page.frame import Frame
from advisor.service.page.question import question_of, trouble_view
from advisor.service.problems import Problem

router = APIRouter(include_in_schema=False)
_STEM = "recommendation"
# What starts no server.
_NOT_OF_LANGUAGE = tuple(name for name in EXPORTS if name not in SERVING_EXPORTS)


def export_links(frame: Frame) -> list[dict[str, str]]:
    """The same question as a file, in each format of its task; `kind` is report or answer."""
    serves = dict(frame.asked).get("task") == LanguageTask.GENERATION
    spared = _NOT_OF_LANGUAGE if serves else (COMPOSE,)
    return [
        {
            "name": name.removeprefix("report-"),
            "kind": "report" if kind.report else "answer",
            "href": frame.same("/export", format=name),
            "file": file_name(_STEM, name),
        }
        for name, kind in FORMATS.items()
        if name not in spared
    ]


@router.get("/export")
async def export_answer(request: Request) -> Response:
    """The file; a question that cannot be answered, or a start of nothing, is told as a page."""
    return await threads_of(request).run(_export, request, slow=True)


def _export(request: Request) -> Response:
    frame = Frame(request)
    asked = dict(frame.asked)
    name = asked.pop("format", "json")
    try:
        return _file(request, name, asked, frame.texts.language)
    except (AdvisorError, Problem) as error:
        values, status = trouble_view(error, frame)
        return frame.page("problem.html", status=status, **values)


def _file(request: Request, name: str, asked: Mapping[str, str], language: str) -> Response:
    kind, question = format_named(name), question_of(RECOMMEND, asked)
    content = kind.write(Asked(context_of(request), question, language))
    headers = {"Content-Disposition": f'attachment; filename="{file_name(_STEM, name)}"'}
    return Response(content, media_type=kind.media_type, headers=headers)
