"""Tuning a language model: the instance whose run costs least at the median, or that costs least by
the hour where a target is to be reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from advisor.catalog import Catalog
from advisor.domain.language import FineTuningCandidate, FineTuningRecommendation, TuningPrediction
from advisor.engine.columns import term_factor, terms_of
from advisor.engine.constraints import Amount, Constraint
from advisor.engine.limits import Limit
from advisor.engine.place_constraints import Choice, of_place
from advisor.engine.probability import Aim
from advisor.engine.tasks.language import Cards, JudgedOffer, LanguageTask, language_warnings
from advisor.engine.tasks.tuning.options import TunedModel, TuningOptions, require_possible, tuning_options
from advisor.engine.tasks.tuning.table import TuningTable
from advisor.engine.tasks.tuning.words import shortfall, tuning_assumptions
from advisor.messages import Message
from advisor.questions.language import TuningQuestion

if TYPE_CHECKING:
    from advisor.engine.model import Floats
    from advisor.models.language.finetuning.predictor import FineTuningPredictor
    from advisor.models.language.language_model import LanguageModel


class TuningTask(
    LanguageTask[
        TuningQuestion,
        TuningOptions,
        TuningTable,
        FineTuningCandidate,
        FineTuningRecommendation,
        TuningPrediction,
    ]
):
    """Tuning one language model."""

    answer, prediction = FineTuningRecommendation, TuningPrediction
    cannot = Message("{name} cannot tune {model}: {why}")
    not_of_options: ClassVar = {
        **dict.fromkeys(("target_tokens_per_second", "max_hours", "max_run_usd", "start_minutes")),
        "tokens": 1.0,
    }

    def __init__(self, catalog: Catalog, model: LanguageModel, predictor: FineTuningPredictor) -> None:
        super().__init__(catalog, model)
        self.tuned = TunedModel(catalog, model, predictor, Cards(catalog))

    def require_possible(self, request: TuningQuestion) -> None:
        require_possible(request, self.model)

    def options_on(self, request: TuningQuestion, judged: Sequence[JudgedOffer]) -> TuningOptions:
        return tuning_options(request, self.tuned, judged)

    def predict(self, request: TuningQuestion, options: TuningOptions) -> TuningTable | None:
        """All of them."""
        return TuningTable.of(options.options) if options.options else None

    def limits(self, request: TuningQuestion, table: TuningTable) -> list[Limit]:
        limits, target = list[Limit](), request.target_tokens_per_second
        level = _level(request)
        rates = table.rates[level]
        if not request.allow_extrapolation:
            calibrated = np.array([option.calibrated for option in table.options])
            limits.append(Limit("uncalibrated", calibrated, rates))
        if target is not None:
            limits.append(Limit("too_slow", rates >= target, rates))
        for reason, most, values in (
            ("too_long", request.max_hours, table.hours(request)[level]),
            ("over_max_cost", request.max_run_usd, table.run_usd(request)[level]),
            ("over_max_price", request.max_usd_per_hour, table.usd),
        ):
            if most is not None:
                limits.append(Limit(reason, values <= most, -values))
        return limits

    def cost(self, request: TuningQuestion, table: TuningTable) -> Floats:
        """The price by the hour for a target, else that of the run at the median."""
        return _cost(request, table, 1)

    def worst_cost(self, request: TuningQuestion, table: TuningTable) -> Floats:
        return _cost(request, table, 0)

    def aims(self, request: TuningQuestion, table: TuningTable) -> list[Aim]:
        goals, pace = list[Aim](), 1 / table.hours(request)
        if request.target_tokens_per_second is not None:
            goals.append((table.rates, request.target_tokens_per_second))
        if request.max_hours is not None:
            goals.append((pace, 1 / request.max_hours))
        if request.max_run_usd is not None:
            goals.append((pace / table.usd, 1 / request.max_run_usd))
        return goals

    def candidate_cost(self, request: TuningQuestion, candidate: FineTuningCandidate) -> float:
        cost, hours = candidate.usd_per_run.median, candidate.hours.median
        if request.ranks_by_price:
            cost, hours = candidate.spec.total_usd_per_hour, request.horizon_hours
        return cost * term_factor(request, candidate.spec, hours)

    def rate(self, request: TuningQuestion, table: TuningTable) -> Floats:
        """Tokens a second at the median."""
        return np.asarray(table.rates[1])

    def candidates(
        self, request: TuningQuestion, table: TuningTable, rows: Sequence[int]
    ) -> list[FineTuningCandidate]:
        records = [table.candidate(request, row, self.tuned.predictor) for row in rows]
        return self.with_chances(request, table, rows, records)

    def shortfall(self, request: TuningQuestion, table: TuningTable, row: int, reason: str) -> Message:
        return shortfall(request, table, row, reason)

    def assumptions(
        self, request: TuningQuestion, options: TuningOptions, chosen: FineTuningCandidate | None
    ) -> tuple[Message, ...]:
        return tuple(tuning_assumptions(request, chosen))

    def warnings(self, chosen: FineTuningCandidate, today: date) -> tuple[Message | str, ...]:
        gpus = chosen.gpus_used
        return language_warnings(chosen, today, joined_gpus=gpus, used_gpus=gpus)

    def constraints(self, request: TuningQuestion) -> Iterator[Constraint]:
        amounts = (
            Amount("target_tokens_per_second", "--target-throughput", most=False),
            Amount("max_hours", "--max-hours"),
            Amount("max_run_usd", "--max-cost"),
            Amount("max_usd_per_hour", "--max-price"),
        )
        yield from (amount for amount in amounts if getattr(request, amount.name) is not None)
        yield from of_place(request, Choice("micro_batch", "--micro-batch", None))

    def needs(self, name: str, request: TuningQuestion, table: TuningTable) -> Floats:
        values = {
            "target_tokens_per_second": table.rates[_level(request)],
            "max_hours": table.hours(request)[_level(request)],
            "max_run_usd": table.run_usd(request)[_level(request)],
            "max_usd_per_hour": table.usd,
            "micro_batch": [option.settled.tuning.micro_batch or 1 for option in table.options],
        }
        return np.asarray(values[name], dtype=float)


def _cost(request: TuningQuestion, table: TuningTable, level: int) -> Floats:
    if request.ranks_by_price:
        return np.asarray(table.usd * terms_of(request, table, request.horizon_hours))
    factor = terms_of(request, table, table.hours(request)[level])
    return np.asarray(table.run_usd(request)[level] * factor)


def _level(request: TuningQuestion) -> int:
    """The rates that decide: lower bounds, or medians where a miss counts by its cost."""
    return 0 if request.is_sure else 1
