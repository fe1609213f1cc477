"""`/`: a question by its words, and the answer under its address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from msgspec.structs import replace
from starlette.responses import Response

from advisor.answers.context import Context
from advisor.answers.recommending import recommended
from advisor.errors import AdvisorError
from advisor.questions.models import Recommend
from advisor.service.answers import context_of
from advisor.service.page.answer_view import answer_view
from advisor.service.page.asking import question_of
from advisor.service.page.choices import choices_of
from advisor.service.page.frame import Frame
from advisor.service.page.trouble import trouble_view
from advisor.service.page.what_if import what_if_of
from advisor.service.problems import Problem

# What is answered where nobody has asked yet: an answer says more than an empty page.
EXAMPLE = {"task": "inference", "model": "googlenet", "target_throughput": "500"}
USUAL = {"precision": "fp32", "cloud": "aws", "market": "on-demand"}
# Fields that everybody sees; the others are in the disclosure, which is open if one is filled in.
ALWAYS_SHOWN = {*EXAMPLE, *USUAL, "region", "rejected"}

router = APIRouter(include_in_schema=False)


@router.get("/")
def find(request: Request) -> Response:
    """The whole page, or the answer alone where the script asks for it."""
    frame = Frame(request)
    asked = dict(frame.asked)
    is_example = not {"task", "model"} & set(asked)
    if is_example:
        asked = EXAMPLE | asked
        frame.asked = list(asked.items())
    shown = {**USUAL, **asked}
    values, status = _answered(context_of(request), asked, frame)
    values |= {"asked": shown, "example": is_example and not frame.is_part}
    if frame.is_part:
        return frame.page("answer.html", status=status, **values)
    return frame.page("find.html", status=status, **_form(request, shown, frame), **values)


def _form(request: Request, shown: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    return {
        "choices": choices_of(context_of(request), shown, frame.words),
        "more_open": any(name not in ALWAYS_SHOWN for name in shown)
        or shown["market"] != USUAL["market"],
    }


def _answered(
    context: Context, asked: Mapping[str, str], frame: Frame
) -> tuple[dict[str, Any], int]:
    """The answer's values, or what is wrong with the question and the way out."""
    try:
        every = asked.get("rejected") == "all"
        question = question_of(Recommend, asked)
        question = replace(question, pareto=True, explain_rejected=every)
        document = recommended(context, question).message_document()
        values = answer_view(document, frame)
        if values["pick"]:
            values["what_if"] = what_if_of(context, document["recommendation"], frame)
        return values, 200
    except (AdvisorError, Problem) as error:
        return trouble_view(error, frame)
