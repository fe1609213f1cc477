"""`/predict`: one instance, and what it would reach with other vCPUs, RAM or disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers.context import Context
from advisor.errors import AdvisorError
from advisor.service.answers import context_of
from advisor.service.page.choices import choices_of
from advisor.service.page.frame import Frame
from advisor.service.page.trouble import trouble_view
from advisor.service.page.what_if import what_if_values
from advisor.service.problems import Problem

EXAMPLE = {"task": "training", "model": "resnet50", "instance": "g5.xlarge"}
USUAL = {"precision": "fp32", "cloud": "aws", "market": "on-demand"}

router = APIRouter(include_in_schema=False)


@router.get("/predict")
def predict(request: Request) -> Response:
    """The whole page, or the prediction alone where the script asks for it."""
    frame = Frame(request)
    asked = dict(frame.asked)
    is_example = "instance" not in asked
    if is_example:
        asked = EXAMPLE | asked
        frame.asked = list(asked.items())
    shown = {**USUAL, **asked}
    values, status = _answered(context_of(request), asked, frame)
    values |= {"asked": shown, "example": is_example and not frame.is_part}
    if frame.is_part:
        return frame.page("what_if_answer.html", status=status, **values)
    choices = choices_of(context_of(request), shown, frame.words)
    return frame.page("predict.html", status=status, choices=choices, **values)


def _answered(
    context: Context, asked: Mapping[str, str], frame: Frame
) -> tuple[dict[str, Any], int]:
    try:
        return what_if_values(context, asked, frame), 200
    except (AdvisorError, Problem) as error:
        values, status = trouble_view(error, frame)
        return values | {"sliders": []}, status
