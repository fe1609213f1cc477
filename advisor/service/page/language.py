"""`/language`: a question about a language model by its fields, and its answer as in reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers.context import Context
from advisor.answers.of_tasks import recommended_in
from advisor.domain.generation import (
    KvPrecision,
    LanguageTask,
    LlmEngine,
    LlmMethod,
    LlmPrecision,
)
from advisor.questions.commands import RECOMMEND
from advisor.questions.traffic import KNOWN_TRAFFIC
from advisor.render.i18n.catalogue import Texts
from advisor.render.language.page import language_parts
from advisor.service.page.export import export_links
from advisor.service.page.frame import Frame
from advisor.service.page.question import QuestionPage, choices_of, question_of
from models.language.configs import bundled_language_models

EXAMPLE = {"task": "generation", "model": "meta-llama/Llama-3.1-8B", "users": "8"}
USUAL = {"cloud": "aws", "market": "on-demand", "task": "generation"}

router = APIRouter(include_in_schema=False)


def _choices(context: Context, asked: Mapping[str, str], t: Texts) -> dict[str, Any]:
    """Values and labels of the fields; what is left open has an empty value."""
    lists = {"precision": LlmPrecision, "kv_precision": KvPrecision, "engine": LlmEngine,
             "traffic": KNOWN_TRAFFIC, "method": LlmMethod}  # fmt: skip
    return choices_of(context, asked, t) | {
        "task": [(str(task), t(f"task.{task}")) for task in LanguageTask],
        "model": list(bundled_language_models().names()),
        **{
            name: [("", t("language.usual")), *((str(one), str(one)) for one in values)]
            for name, values in lists.items()
        },
    }


def _answer(context: Context, asked: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    task = asked.get("task", USUAL["task"])
    question = question_of(RECOMMEND, {**asked, "task": task})
    found = recommended_in(context, question)
    document = found.message_document()
    return {
        "problem": None,
        "said": document["request"]["model"],
        "blocks": language_parts(document, frame.texts),
        "exports": export_links(frame) if found.answer.chosen else [],
    }


PAGE = QuestionPage(
    "language.html", "language_answer.html", _answer, EXAMPLE, frozenset(("task", "model")),
    usual=USUAL, choices=_choices,
)  # fmt: skip


@router.get("/language")
async def language(request: Request) -> Response:
    """The question and its answer."""
    return await PAGE.answer(request)
