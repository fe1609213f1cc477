"""`/compare`: instances side by side, or GPUs relative to one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers.comparing import compared
from advisor.answers.context import Context
from advisor.errors import AdvisorError
from advisor.questions.models import Compare
from advisor.service.answers import context_of
from advisor.service.page.asking import question_of
from advisor.service.page.choices import choices_of
from advisor.service.page.comparison_view import comparison_view
from advisor.service.page.frame import Frame
from advisor.service.page.trouble import trouble_view
from advisor.service.page.what_if import target_of
from advisor.service.problems import Problem

EXAMPLE = {"task": "training", "model": "resnet50", "instance": "g4dn.xlarge,g5.xlarge,g6.xlarge"}
USUAL = {"precision": "fp32", "cloud": "aws", "market": "on-demand"}

router = APIRouter(include_in_schema=False)


@router.get("/compare")
def compare(request: Request) -> Response:
    """The whole page, or the comparison alone where the script asks for it."""
    frame = Frame(request)
    asked = _asked(frame)
    is_example = not {"instance", "gpu"} & set(asked)
    if is_example:
        asked = EXAMPLE | asked
        frame.asked = list(asked.items())
    shown = {**USUAL, **asked}
    values, status = _answered(context_of(request), asked, frame)
    values |= {"asked": shown, "example": is_example and not frame.is_part}
    if frame.is_part:
        return frame.page("comparison.html", status=status, **values)
    choices = choices_of(context_of(request), shown, frame.words)
    return frame.page("compare.html", status=status, choices=choices, **values)


def _asked(frame: Frame) -> dict[str, str]:
    """The words; several `instance` are one list."""
    asked = dict(frame.asked)
    instances = [value for name, value in frame.asked if name == "instance"]
    return asked | ({"instance": ",".join(instances)} if instances else {})


def _answered(
    context: Context, asked: Mapping[str, str], frame: Frame
) -> tuple[dict[str, Any], int]:
    try:
        document = compared(context, question_of(Compare, asked)).document()
        return comparison_view(document, target_of(asked), frame), 200
    except (AdvisorError, Problem) as error:
        return trouble_view(error, frame)
