"""What went wrong, shown where the answer would be: in words that name the way out."""

from __future__ import annotations

from typing import Any

from advisor.errors import AdvisorError, NoIntervalError, NoOfferError, UsageError
from advisor.service.page.frame import Frame
from advisor.service.problems import Problem


def trouble_view(error: AdvisorError | Problem, frame: Frame) -> tuple[dict[str, Any], int]:
    """Values of `answer.html` for an error, and the status that the page has."""
    t, field = frame.words, error.field
    detail = error.detail if isinstance(error, Problem) else error.message
    known = field is not None and f"field.{field}" in t.texts
    title = t("error.field", field=t(f"field.{field}")) if known else t("error.question")
    problem = {"title": title, "detail": detail, "ways": _ways(error, field, frame)}
    wrong = {field: [text for text in (detail, error.hint) if text]} if field else {}
    return {"problem": problem, "wrong": wrong, "said": "", "pick": None}, _status(error)


def _status(error: AdvisorError | Problem) -> int:
    if isinstance(error, Problem):
        return error.status
    return 422 if isinstance(error, (UsageError, NoIntervalError, NoOfferError)) else 500


def _ways(error: AdvisorError | Problem, field: str | None, frame: Frame) -> list[dict[str, Any]]:
    """The near names as links that ask with them; or the extrapolation that was not allowed."""
    t, path = frame.words, frame.request.url.path
    if isinstance(error, NoIntervalError):
        href = frame.same(path, allow_extrapolation="true")
        return [{"href": href, "text": t("error.extrapolate")}]
    suggestions = () if isinstance(error, Problem) else error.suggestions
    if field is None or not suggestions:
        return [{"href": "", "text": error.hint}] if error.hint else []
    return [{"href": frame.same(path, **{field: name}), "text": name} for name in suggestions]
