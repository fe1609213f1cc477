"""Language model + offers + predictor + target -> recommendation. Pure: no clock, no files.

The answer is the cheapest spec whose bounds keep the target and every limit; without a target the
one with the cheapest output tokens. Every type that is passed over keeps its reason.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from advisor.domain.language import GenerationCandidate, GenerationRecommendation, GenerationRequest
from advisor.engine.language.assumptions import serving_assumptions, serving_warnings
from advisor.engine.language.close_calls import close_calls
from advisor.engine.language.front import front_of, with_chosen
from advisor.engine.language.prepared import Prepared, ServingPreparations
from advisor.engine.language.shortfalls import by_price, nearest_row, rejections
from advisor.engine.language.steps import steps_of
from advisor.engine.language.table import ServingTable
from advisor.engine.price_calls import Draft, decided_by_price
from advisor.engine.table import best_of_each
from advisor.errors import NoIntervalError
from advisor.messages import Message

if TYPE_CHECKING:
    from advisor.engine.model import Integers

# Over all clouds, types that cost more are predicted only where these do not fill the answer.
_CHEAP_USD_PER_HOUR = (2.0, 8.0)


def recommend_serving(
    request: GenerationRequest, preparations: ServingPreparations, *, today: date
) -> GenerationRecommendation:
    """Answer one request.

    Raises `UsageError` for what the catalogue or the model does not know, and `NoIntervalError`
    where only predictions without a calibrated interval would answer.
    """
    return decided_by_price(
        request,
        lambda asked: _by_median_price(asked, preparations, today),
        lambda candidate: _cost(request, candidate),
        today,
    )


def _cost(request: GenerationRequest, candidate: GenerationCandidate) -> float:
    """What a candidate ranks by, as `ServingTable.cost`."""
    if request.ranks_by_price:
        return candidate.spec.total_usd_per_hour
    return candidate.usd_per_million_output_tokens.median


def _by_median_price(
    request: GenerationRequest, preparations: ServingPreparations, today: date
) -> Draft[GenerationRecommendation]:
    """The answer where every price were what it is at the median.

    Over all clouds there are thousands of types, and who names a cloud wants to know why each is
    turned down: where cheap ones fill the answer, dearer ones are not predicted.
    """
    if request.cloud == "any" and request.targets and request.max_usd_per_hour is None:
        for most_usd in _CHEAP_USD_PER_HOUR:
            draft = _among(request, preparations, today, most_usd)
            costs = [_cost(request, candidate) for candidate in draft.answer.ranked]
            if len(costs) >= request.max_results and costs[-1] <= most_usd:
                return draft
    return _among(request, preparations, today)


def _among(
    request: GenerationRequest,
    preparations: ServingPreparations,
    today: date,
    most_usd_per_hour: float | None = None,
) -> Draft[GenerationRecommendation]:
    """The answer among instances that cost no more."""
    prepared = preparations.of(request, most_usd_per_hour)
    table = prepared.table(request)
    if table is None:
        return Draft(
            GenerationRecommendation(
                request=request,
                ranked=(),
                nearest=None,
                rejected=by_price(prepared.rejected),
                offers_considered=prepared.considered,
                assumptions=serving_assumptions(request, preparations.model, prepared.version, None),
                warnings=(),
                today=today,
            )
        )
    rows = ranked_rows(table)
    if not len(rows) and most_usd_per_hour is None:
        _require_intervals(request, prepared)
    version = prepared.version
    predictor = prepared.predictor
    shown = tuple(table.candidate(at, predictor) for at in rows[: request.max_results].tolist())
    chosen = shown[0] if shown else None
    at = int(rows[0]) if shown else nearest_row(table)
    nearest = None if shown else table.candidate(at, predictor)
    answer = GenerationRecommendation(
        request=request,
        ranked=shown,
        nearest=nearest,
        beyond_price=None if shown else _beyond_price(table, prepared),
        rejected=by_price([*prepared.rejected, *rejections(table)]),
        offers_considered=prepared.considered,
        assumptions=serving_assumptions(request, preparations.model, version, chosen or nearest),
        warnings=serving_warnings(chosen or nearest, table.ways[at], today),
        today=today,
    )

    def details() -> dict[str, Any]:
        calls = {"close_calls": close_calls(request, prepared, table, rows)}
        if chosen is None:
            return calls
        return calls | {
            "front": with_chosen(front_of(request, prepared, table, int(rows[0])), chosen),
            "steps": steps_of(request, preparations, chosen),
        }

    return Draft(answer, details)


def ranked_rows(table: ServingTable) -> Integers:
    """Of each type the best row that answers, the cheapest first; ties by the most tokens a
    second, then by name."""
    good = np.flatnonzero(table.answering())
    if not len(good):
        return good
    costs, most = table.cost, table.most_output
    best = good[best_of_each(table.kind[good], costs[good], -most[good])]
    names = table.names[table.kind[best]].tolist()
    order = sorted(range(len(best)), key=lambda at: (costs[best[at]], -most[best[at]], names[at]))
    return np.asarray(best[order])


def _beyond_price(table: ServingTable, prepared: Prepared) -> GenerationCandidate | None:
    """The cheapest that would answer if only its price were allowed."""
    rows = np.flatnonzero(table.answering(but_for=("over_max_price",)))
    if table.request.max_usd_per_hour is None or not len(rows):
        return None
    return table.candidate(int(rows[table.usd[rows].argmin()]), prepared.predictor)


def _require_intervals(request: GenerationRequest, prepared: Prepared) -> None:
    """Refuse where the only answers are predictions that nothing held out backs."""
    if request.allow_extrapolation:
        return
    guessed = prepared.table(replace(request, allow_extrapolation=True))
    if guessed is not None and guessed.answering().any():
        raise NoIntervalError(
            Message(
                "no interval of {model} on {engine} is calibrated to {percent:g} % (no calibrated interval)",
                model=request.model,
                engine=request.engine.product,
                percent=100 * request.confidence,
            ),
            hint=Message("ask for less with --confidence, or accept a guess with --allow-extrapolation"),
            field="confidence",
        )
