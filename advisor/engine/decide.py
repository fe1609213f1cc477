"""Request + task -> answer: options -> predictions -> limits -> ranking -> explanation.

Pure: no clock, no files. The answer is the spec of the least expected cost: its price, and what it
would cost to mend a miss of the target or a limit, times the chance of one; never one that keeps them
with less than an even chance. With a required confidence it is the cheapest whose bounds keep them.
Without a target it is the one that does its work for the least money, and of those that cannot be
told apart the one with the lowest price by the hour. Every type that is passed over keeps its reason.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
from msgspec.structs import replace

from advisor.domain import LazyRejected
from advisor.engine.borderline import close_calls
from advisor.engine.prices import PriceDoubt, RankedAnswer, fresh_answer
from advisor.engine.task import A, C, O, R, T, Task
from advisor.errors import NoIntervalError


def recommend(
    task: Task[R, O, T, C, A], request: R, *, today: date, strict: bool = False, whole: bool = True
) -> A:
    """Answer one request, `strict` among instances whose price is not old; without `whole` the
    ranking alone, and nothing that is told beside it.

    Raises `UsageError` for what the catalogue or the predictor does not know, `NoIntervalError`
    where only predictions without a calibrated interval would answer, and if `strict`
    `StalePriceError`.
    """

    def drafted(changed: R) -> RankedAnswer[A]:
        return _by_median_price(task, changed, today, whole=whole)

    def rank(candidate: C) -> float:
        return task.candidate_rank(request, candidate)

    if strict:
        return fresh_answer(request, lambda fresh: PriceDoubt(fresh, drafted, rank, today).answer(), today)
    return PriceDoubt(request, drafted, rank, today).answer()


def _by_median_price(task: Task[R, O, T, C, A], request: R, today: date, *, whole: bool) -> RankedAnswer[A]:
    """The answer where every price were what it is at the median.

    Over all clouds there are thousands of types, and who names a cloud wants to know why each is
    turned down: where cheap ones fill the answer, dearer ones are not predicted.
    """
    for most_usd in task.cheap_usd_per_hour(request):
        draft = _among(task, request, today, most_usd, whole=whole)
        ranked = draft.answer.ranked
        if len(ranked) >= request.max_results and task.candidate_rank(request, ranked[-1]) <= most_usd:
            return draft
    return _among(task, request, today, whole=whole)


def _among(
    task: Task[R, O, T, C, A], request: R, today: date, most_usd_per_hour: float | None = None, *, whole: bool
) -> RankedAnswer[A]:
    """The answer among instances that cost no more."""
    options = task.options(request, most_usd_per_hour)
    table = task.predict(request, options)
    rows = np.empty(0, dtype=np.intp) if table is None else task.ranked_rows(request, options, table)
    shown: tuple[C, ...] = ()
    nearest = beyond_price = None
    if table is not None and len(rows):
        shown = tuple(task.shown(request, options, table, rows[: request.max_results].tolist()))
    elif table is not None:
        if most_usd_per_hour is None:
            task.require_intervals(request, options, table)
        nearest, beyond_price = task.nearest(request, options, table), _beyond_price(task, request, table)
    chosen = shown[0] if shown else None
    about = chosen or nearest
    rejected = task.rejected(request, options, table)
    answer = task.answer(
        request=request,
        ranked=shown,
        nearest=nearest,
        beyond_price=beyond_price,
        rejected=rejected,
        rejected_counts=rejected.counts if isinstance(rejected, LazyRejected) else None,
        offers_considered=options.considered,
        assumptions=tuple(task.assumptions(request, options, about)),
        warnings=tuple(task.warnings(about, today)) if about else (),
        today=today,
    )

    def details() -> dict[str, Any]:
        if table is None:
            return {}
        known = dict(zip(rows.tolist(), shown, strict=False))
        needs_no_other = chosen is None or request.is_sure or answer.is_safe
        safe = None if needs_no_other else _safe(task, request, today)
        calls = close_calls(task, request, options, table, int(rows[0]) if len(rows) else None, known, safe)
        level, _ = task.level(request, table.take(rows))
        return {
            "close_calls": calls,
            "safe": safe,
            "level": int(level.sum()) if level[:1].all() else 0,
            **task.details(request, options, table, rows, chosen),
        }

    def price_limit() -> float:
        return np.inf if table is None else task.most_usd_per_hour(request, table.take(rows))

    return RankedAnswer(answer, details if whole else dict, price_limit)


def _safe(task: Task[R, O, T, C, A], request: R, today: date) -> C | None:
    """The cheapest spec that keeps target and limits at the confidence of its bounds; None where none
    does."""
    sure = replace(request, required_confidence=request.confidence, max_results=1)
    try:
        return recommend(task, sure, today=today, whole=False).chosen
    except NoIntervalError:
        return None


def _beyond_price(task: Task[R, O, T, C, A], request: R, table: T) -> C | None:
    """The cheapest that would answer if only its price were allowed."""
    if request.max_usd_per_hour is None:
        return None
    rows = np.flatnonzero(task.answering(request, table, but_for=("over_max_price",)))
    if not len(rows):
        return None
    return task.candidates(request, table, [int(rows[table.usd[rows].argmin()])])[0]
