"""The task of serving a language model: the cheapest spec that keeps its target and limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.domain import Relaxation
from advisor.domain.decision import TRIAL_MINUTES
from advisor.domain.language import GenerationCandidate, GenerationRecommendation, ServingPrediction
from advisor.domain.money import aged_spec
from advisor.domain.words import SIXTEEN_BIT, LlmEngine, LlmPrecision
from advisor.engine.columns import Floats, Integers, Level
from advisor.engine.constraints import Amount, Choice, Constraint, R, Whole, constraints_of
from advisor.engine.limits import CLEARLY_LESS, GOOD_ENOUGH, Aim, Limit, closest, term_factor, terms_of
from advisor.engine.task import EVEN, MOST_RIVALS, Contender
from advisor.engine.tasks.language import (
    JudgedOffer,
    LanguageOptions,
    LanguageTask,
    options_of_types,
    other_choices,
)
from advisor.engine.tasks.serving.details import SMALLER_FORMATS, format_fields, front_of, steps_of
from advisor.engine.tasks.serving.loads import solved_table, weighed_table
from advisor.engine.tasks.serving.options import (
    NODES,
    OptionFinder,
    ServedModel,
    ServingOption,
    require_possible,
)
from advisor.engine.tasks.serving.table import Predicted, Replicas, ServingTable, deciding_level
from advisor.engine.tasks.serving.words import serving_assumptions, serving_warnings, shortfall
from advisor.errors import NoIntervalError
from advisor.messages import FieldName, Message
from advisor.models.language.deployments import Draft
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.serving import ServingPredictor
from advisor.naming import spec_name
from advisor.questions.fields import TimeLimit
from advisor.questions.language import RecommendGeneration, ServingQuestion
from advisor.questions.spec import SpecQuestion

# A latency limit is noted as dear above a price, if one looser by a factor cuts the price below a share.
_DEAR_USD_PER_HOUR, _LOOSER, _FAR_LESS = 10.0, 1.5, 1 / 3
_MUCH_LESS = 0.85
# Users who cost more by the hour are told their load, and the cost where they pause so long.
_DEAR_USERS, _PAUSE_SECONDS = 50.0, 30.0
# Rows that miss limits by a factor m in all are as near as those by m to this power.
_FURTHER = 1.25
# Over all clouds, dearer types are predicted only where types up to these prices do not fill the answer.
_CHEAP_USD_PER_HOUR = (2.0, 8.0)


class ServingOptions(LanguageOptions[ServingOption], frozen=True):
    """Serving options with the predictions of their replicas."""

    replicas: Replicas


class ServingTask(
    LanguageTask[
        ServingQuestion,
        ServingOptions,
        ServingTable,
        GenerationCandidate,
        GenerationRecommendation,
        ServingPrediction,
    ]
):
    """Serving one language model."""

    answer, prediction = GenerationRecommendation, ServingPrediction
    shortfall, warnings = staticmethod(shortfall), staticmethod(serving_warnings)
    cannot = Message("{name} cannot serve {model}: {why}")
    together = Message(
        "this answers for one instance; `advisor recommend` also lets several hold the model together, and "
        "{gpu} says which",
        gpu=FieldName("gpu"),
    )
    of_one_instance: ClassVar = {"max_count": 1}
    not_of_options = (
        *("target_output_tokens_per_second", "target_requests_per_second", "users", "max_count"),
        *("max_ttft_ms", "max_tpot_ms", "max_e2e_seconds"),
    )

    def __init__(
        self, catalog: Catalog, model: LanguageModel, predictor: ServingPredictor, draft: Draft | None = None
    ) -> None:
        super().__init__(catalog, model)
        self.predictor, self.served = predictor, ServedModel(catalog, model, draft)
        self._predicted: Predicted = {}

    def require_possible(self, request: ServingQuestion) -> None:
        require_possible(request, self.model)

    def options_on(self, request: ServingQuestion, judged: Sequence[JudgedOffer]) -> ServingOptions:
        options, rejected = options_of_types(judged, OptionFinder(request, self.served).options)
        return ServingOptions(options, rejected, len(judged), self._replicas(request, options))

    def options(self, request: ServingQuestion, most_usd_per_hour: float | None = None) -> ServingOptions:
        """The options on one instance; where no single one holds the model, those on two together."""
        alone = super().options(request, most_usd_per_hour)
        has_more = request.engine is not LlmEngine.LLAMA_CPP and request.max_count >= NODES
        if alone.options or most_usd_per_hour is not None or not has_more:
            return alone
        options, rejected = options_of_types(
            self.judged(request, None), OptionFinder(request, self.served, NODES).options
        )
        if not options:
            return alone
        return replace(alone, options=options, rejected=rejected, replicas=self._replicas(request, options))

    def _replicas(self, request: ServingQuestion, options: Sequence[ServingOption]) -> Replicas:
        return Replicas(request, options, self.predictor, self._predicted)

    def cheap_usd_per_hour(self, request: ServingQuestion) -> Sequence[float]:
        """Price limits over all clouds; none within one cloud, where every type needs its reason."""
        everywhere = request.cloud == "any" and request.targets and request.max_usd_per_hour is None
        return _CHEAP_USD_PER_HOUR if everywhere else ()

    def predict(self, request: ServingQuestion, options: ServingOptions) -> ServingTable | None:
        """The table of options, each on as many instances as it needs."""
        if not options.options:
            return None
        if deciding_level(request) is Level.SURE:
            return solved_table(request, options.options, options.replicas, Level.SURE)
        return weighed_table(request, options.options, options.replicas)

    def limits(self, request: ServingQuestion, table: ServingTable) -> list[Limit]:
        limits, most = list(table.limits), request.max_usd_per_hour
        if most is not None:
            limits.append(Limit.most("over_max_price", table.usd, most))
        return limits

    def cost(self, request: ServingQuestion, table: ServingTable, level: Level = Level.MEDIAN) -> Floats:
        """The hourly price where there is a target, else the cost of a million output tokens."""
        usd = np.asarray(table.usd * terms_of(request, table, request.horizon_hours))
        if request.ranks_by_price:
            return usd
        return np.asarray(usd / (table.at_once * table.rates.output[level] * 3600) * 1e6)

    def aims(self, request: ServingQuestion, table: ServingTable) -> list[Aim]:
        """The target and the latency limits, as rates with the value that they must reach."""
        rates, at_once, output = table.rates, table.at_once, table.most.output
        reached = (
            (at_once * rates.output, request.target_output_tokens_per_second),
            (at_once * output / request.output_tokens, request.target_requests_per_second),
        )
        aims = list[Aim]()
        # A load that is nan is beyond what the replica can answer: its rate counts as 0.
        aims += [(np.nan_to_num(values), target) for values, target in reached if target is not None]
        for limit in request.time_limits:
            aims.append((np.nan_to_num(1 / rates.limited(limit, request.output_tokens)), 1 / limit.most))
        return aims

    def candidate_cost(self, request: ServingQuestion, candidate: GenerationCandidate) -> float:
        cost = candidate.usd_per_million_output_tokens.median
        if request.ranks_by_price:
            cost = candidate.spec.total_usd_per_hour
        return cost * term_factor(request, candidate.spec, request.horizon_hours)

    def rate(self, request: ServingQuestion, table: ServingTable) -> Floats:
        """Output tokens per second at the median, as answers show them, so that among the splits of one
        instance the one with the cheapest tokens comes first. With a target in requests all splits serve as
        many, and the most that they could serve within the limits decides."""
        if request.target_requests_per_second is not None:
            return table.most_output(deciding_level(request))
        return np.asarray(table.busy(request) * table.rates.output[Level.MEDIAN])

    def ranked_rows(self, request: ServingQuestion, options: ServingOptions, table: ServingTable) -> Integers:
        """The best answering row of each type, best first; where the first may miss, also the cheapest row
        with more instances of its type that is sure to answer."""
        rows = super().ranked_rows(request, options, table)
        if request.is_sure or not request.targets or not len(rows):
            return rows
        more = (table.kind == table.kind[rows[0]]) & (table.count > table.count[rows[0]])
        kin = np.r_[rows[0], np.flatnonzero(more & self.answering(request, table))]
        first, *sure = self.chance(request, table.take(kin)) >= request.confidence
        if first or not any(sure):
            return rows
        surer = kin[1:][sure]
        best = surer[np.lexsort((-self.rate(request, table)[surer], table.usd[surer]))[:1]]
        ranks, rank = (self.rank(request, table.take(some)) for some in (rows[1:], best))
        return np.insert(rows, 1 + np.searchsorted(ranks, rank), best)

    def nearest(
        self, request: ServingQuestion, options: ServingOptions, table: ServingTable
    ) -> tuple[GenerationCandidate | None, tuple[Message, ...]]:
        """The option that comes closest, on any number of instances, and what it misses."""
        for most in range(1, request.max_count):
            fewer = replace(request, max_count=most)
            table = table.beside(
                solved_table(fewer, options.options, options.replicas, deciding_level(request))
            )
        return super().nearest(request, options, table)

    def nearest_row(self, request: ServingQuestion, table: ServingTable) -> int:
        """The row that misses its limits, that on the price among them, by about the least factor together:
        the cheapest of such rows, and the further off all are, the more count as such."""
        times = np.ones(len(table))
        for limit in self.limits(request, table):
            factor = np.inf if limit.factor is None else np.maximum(1.0, limit.factor)
            times *= np.where(limit.keeps, 1.0, factor)
        near = np.flatnonzero(times <= times.min() ** _FURTHER / GOOD_ENOUGH)
        return int(self.in_order(request, table, near)[0])

    def candidate(self, request: ServingQuestion, table: ServingTable, row: int) -> GenerationCandidate:
        return table.candidate(request, row, self.predictor)

    def require_intervals(
        self, request: ServingQuestion, options: ServingOptions, table: ServingTable
    ) -> None:
        if request.allow_extrapolation:
            return
        guessing = replace(request, allow_extrapolation=True)
        guessed = self.predict(guessing, options)
        if guessed is not None and self.answering(guessing, guessed).any():
            raise NoIntervalError(
                Message(
                    "no interval of {model} on {engine} is calibrated to {percent:g} % "
                    "(no calibrated interval)",
                    model=request.model,
                    engine=request.engine.product,
                    percent=100 * request.confidence,
                ),
                hint=Message("ask for less with --confidence, or accept a guess with --allow-extrapolation"),
                field="confidence",
            )

    def assumptions(
        self, request: ServingQuestion, chosen: GenerationCandidate | None
    ) -> tuple[Message, ...]:
        return serving_assumptions(request, self.model, self.predictor.engine_version(request.engine), chosen)

    def details(
        self,
        request: ServingQuestion,
        options: ServingOptions,
        table: ServingTable,
        rows: Integers,
        chosen: GenerationCandidate | None,
        today: date,
    ) -> dict[str, Any]:
        """Latency against throughput on the chosen instances, and the gain of single changes. A
        recommendation also has the spec that a smaller weight format would choose."""
        if chosen is None:
            return {}
        offer = table.offer(int(rows[0]))
        ways = [option for option in options.options if option.offer is offer]
        steps = steps_of(request, self.served, offer, chosen, partial(self._outcomes, request, chosen))
        if isinstance(request, RecommendGeneration):
            steps = tuple(
                replace(step, instead=self._in_format(request, fields, chosen, today))
                if (fields := format_fields(step.kind))
                else step
                for step in steps
            )
        return {
            "front": front_of(request, ways, options.replicas, chosen, table.take(rows[:1])),
            "steps": steps,
        }

    def _in_format(
        self,
        request: ServingQuestion,
        fields: Mapping[str, StrEnum],
        chosen: GenerationCandidate,
        today: date,
    ) -> GenerationCandidate | None:
        """The cheapest spec that serves weights, or keeps the KV cache, in a format, among types of the same
        kind of price that cost no more by the hour; None where it costs no clearly less than the chosen one,
        or is as many of the same."""
        offer = chosen.spec.offer
        smaller = request.replace(**fields, price_kinds=(offer.price.kind,))
        other = self._cheapest(smaller, offer.price.usd_per_hour, today)
        if other is None or (other.spec.offer.instance, other.spec.count) == (
            offer.instance,
            chosen.spec.count,
        ):
            return None
        # A cache in 8 bits is told only where it brings much: few know what it does to their answers.
        most = _MUCH_LESS if "kv_precision" in fields else CLEARLY_LESS
        is_cheaper = self.candidate_rank(request, other) < most * self.candidate_rank(request, chosen)
        return other if is_cheaper else None

    def _cheapest(
        self, request: ServingQuestion, most_usd_per_hour: float | None = None, today: date | None = None
    ) -> GenerationCandidate | None:
        """The best candidate for a changed request; with `today`, as an answer has it, the one that costs
        least at the upper bound of its price. None where nothing answers."""
        options = self.options(request, most_usd_per_hour)
        table = self.predict(request, options)
        rows = [] if table is None else self.ranked_rows(request, options, table).tolist()
        if table is None or not rows:
            return None
        if today is None:
            return self.candidates(request, table, rows[:1])[0]

        def most_cost(candidate: GenerationCandidate) -> tuple[bool, float]:
            spec, chance = aged_spec(candidate.spec, today), candidate.probability
            cost = self.candidate_rank(request, candidate)
            return (chance or 1.0) < EVEN, cost * spec.high_usd_per_hour / spec.total_usd_per_hour

        return min(self.candidates(request, table, rows[:MOST_RIVALS]), key=most_cost)

    def notes(self, request: ServingQuestion, chosen: GenerationCandidate) -> Iterator[Message]:
        """Notes on what makes an answer dear: users without a pause, and limits that are hard to keep."""
        usd = chosen.spec.total_usd_per_hour
        if usd > _DEAR_USERS and request.users is not None and not request.think_seconds:
            other = self._cheapest(request.replace(think_seconds=_PAUSE_SECONDS))
            text = Message("{users:,} users without a pause are {rate:.3g} requests/s")
            if other is not None and other.spec.total_usd_per_hour < usd * _FAR_LESS:
                text = Message(
                    "{users:,} users without a pause are {rate:.3g} requests/s; with {think} {pause:g} they "
                    "cost {usd:usd}/h"
                )
            yield Message(
                text.text,
                users=request.users,
                rate=chosen.rates.requests_per_second.median,
                think=FieldName("think_seconds"),
                pause=_PAUSE_SECONDS,
                usd=other.spec.total_usd_per_hour if other else None,
            )
        for limit in request.time_limits if usd > _DEAR_USD_PER_HOUR else ():
            other = self._cheapest(request.replace(**{limit.field: limit.written(_LOOSER * limit.most)}))
            if other is not None and other.spec.total_usd_per_hour < usd * _FAR_LESS:
                yield Message(
                    "{field} {limit} rules cheaper ones out: at {looser}, {name} for {usd:usd}/h may do "
                    "({percent:.0f} % sure)",
                    field=FieldName(request.declared[limit.field].name),
                    limit=limit.text(limit.most),
                    looser=limit.text(_LOOSER * limit.most),
                    name=spec_name(other.spec, request),
                    usd=other.spec.total_usd_per_hour,
                    percent=math.floor(100 * min(0.99, other.probability or 0.0)),
                )

    def further_relaxations(
        self,
        answer: GenerationRecommendation,
        answers: Callable[[ServingQuestion], ServingTable | None],
        chosen: Callable[[ServingQuestion], GenerationCandidate | None],
    ) -> Iterator[Relaxation]:
        """Relaxations to smaller formats of the weights."""
        request: ServingQuestion = answer.request
        precision = request.precision or self.model.own_precision
        smaller = [LlmPrecision(kind) for kind in SMALLER_FORMATS if precision in SIXTEEN_BIT]
        return other_choices(chosen, request, "precision", precision, smaller)

    def _outcomes(
        self, request: ServingQuestion, chosen: GenerationCandidate, options: Sequence[ServingOption]
    ) -> Iterator[tuple[GenerationCandidate | None, Message | str]]:
        """For each option its candidate, or why it does not answer, as surely as the chosen one does."""
        if not options:
            return
        is_sure = chosen.probability is None or chosen.probability >= request.confidence
        level = Level.SURE if is_sure else deciding_level(request)
        table = solved_table(request, options, self._replicas(request, options), level)
        answers = np.flatnonzero(self.answering(request, table)).tolist()
        known = dict(zip(answers, self.candidates(request, table, answers), strict=True))
        for row in range(len(options)):
            if row in known:
                yield known[row], ""
            else:
                _, reason = closest(self.limits(request, table), table.usd, np.array([row]))
                yield None, shortfall(request, table, row, reason)

    def no_trial(self, request: ServingQuestion) -> Message | None:
        return None

    def contenders(
        self, request: ServingQuestion, options: ServingOptions, table: ServingTable, limit: float
    ) -> Iterator[Contender[ServingTable]]:
        """Options that would answer by their medians, or by their optimistic bounds."""
        if not request.targets:
            return
        every = len(options.options)  # further rows repeat options with more instances
        answers, cheap = self.answering(request, table), np.flatnonzero(table.usd_each[:every] < limit)
        for level in (Level.MEDIAN, Level.HOPED):
            if not len(cheap):
                return
            cheap_options = [table.options[row] for row in cheap.tolist()]
            hoped = solved_table(request, cheap_options, options.replicas, level)
            # More instances are never slower: where the most allowed miss, fewer are no close call.
            fewer = (hoped.count < table.count[cheap]) == answers[cheap]
            if level is Level.MEDIAN and not request.is_sure:
                fewer[:] = True  # what answers is cheaper than the chosen one, and less sure
            rows = np.flatnonzero(self.answering(request, hoped) & fewer & (hoped.usd < limit))
            found = self.looked_at(request, [(hoped, row) for row in rows.tolist()])
            yield from (each for each in found if each.chance < request.confidence)

    def looked_at(
        self, request: ServingQuestion, rows: Sequence[tuple[ServingTable, int]]
    ) -> list[Contender[ServingTable]]:
        """The rows as contenders; their trials also take the time until the engine serves."""
        return [
            each._replace(trial_minutes=TRIAL_MINUTES + each.table.options[each.row].ready.seconds / 60)
            for each in super().looked_at(request, rows)
        ]

    def constraints(self, request: ServingQuestion) -> Iterator[Constraint]:
        amounts = (
            Amount("target_output_tokens_per_second", "--target-throughput", most=False),
            Amount("target_requests_per_second", "--target-requests-per-s", most=False),
            Whole("users", "--users", most=False),
            Amount("max_usd_per_hour", "--max-price"),
            *(TimeAmount(limit.field, request.declared[limit.field].option) for limit in request.time_limits),
            Whole("context_tokens", "--max-context", most=False),
            Amount("max_ready_seconds", "--max-ready-s"),
            *([Whole("max_count", "--max-count")] if request.targets else []),
        )
        return constraints_of(request, amounts, Choice("tensor_parallel", "--tensor-parallel", None))

    def needs(self, name: str, request: ServingQuestion, table: ServingTable) -> Floats:
        rates, options, level = table.rates, table.options, deciding_level(request)
        values = {
            "target_output_tokens_per_second": table.most_output(level),
            "target_requests_per_second": table.most_output(level) / request.output_tokens,
            # The users that the most allowed instances serve.
            **{limit.reason: limit.nearness for limit in table.limits if limit.reason == "users"},
            "max_usd_per_hour": table.usd,
            **{
                limit.field: rates.limited(limit, request.output_tokens)[level]
                for limit in request.time_limits
            },
            "max_ready_seconds": [option.ready.upper_seconds for option in options],
            "context_tokens": [option.memory.longest_context for option in options],
            "max_count": table.count,
            "tensor_parallel": [option.placement.tensor_parallel for option in options],
        }
        return np.asarray(values[name], dtype=float)


class TimeAmount(Amount):
    """A limit on a mean time, or on a percentile of it, which relaxing does not change."""

    def get(self, request: SpecQuestion) -> float:
        return TimeLimit.parse(self.name, getattr(request, self.name)).most

    def put(self, request: R, value: Any) -> R:
        return super().put(request, TimeLimit.parse(self.name, getattr(request, self.name)).written(value))

    def text(self, request: SpecQuestion) -> str:
        return TimeLimit.parse(self.name, getattr(request, self.name)).text(self.get(request))
