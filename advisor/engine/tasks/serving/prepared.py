"""What targets and limits do not change: the options, and what their replicas do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.domain.money import HOURS_PER_MONTH
from advisor.engine.offers import place_query
from advisor.engine.tasks.serving.loads import LoadSolver
from advisor.engine.tasks.serving.options import (
    OptionFinder,
    ServingOption,
    offers_judged,
    options_of_types,
    splits_of,
)
from advisor.engine.tasks.serving.rates import Level, Predicted, Replicas
from advisor.engine.tasks.serving.table import ServingTable
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.models.language.memory import can_split
from advisor.questions.language import ServingQuestion

if TYPE_CHECKING:
    from advisor.engine.tasks.serving.model import ServingModel
    from advisor.models.language.language_model import LanguageModel

_MOST_KEPT = 8


class ServingOptions:
    """Everything about requests that differ only in what `key_of` leaves out, of instances that
    cost no more than `most_usd_per_hour`."""

    def __init__(
        self,
        request: ServingQuestion,
        finder: OptionFinder,
        predictor: ServingModel,
        predicted: Predicted,
        most_usd_per_hour: float | None = None,
    ) -> None:
        self._request, self._predicted = request, predicted
        self.predictor = predictor
        self.version = predictor.engine_version(request.engine)
        judged = list(offers_judged(request, finder.catalog, most_usd_per_hour))
        self.options, rejected = options_of_types(judged, finder.options)
        self.considered = len(judged)
        query = place_query(request, accelerated=True)
        self.rejected = [*rejected, *finder.catalog.unpriced(query)]

    @cached_property
    def replicas(self) -> Replicas:
        """Predictions of the options' replicas; there is an option."""
        return Replicas(self._request, self.options, self.predictor, self._predicted)

    def table(
        self,
        request: ServingQuestion,
        level: Level = Level.SURE,
        options: Sequence[ServingOption] | None = None,
    ) -> ServingTable | None:
        """Some of the options (None: all) solved for a request by the bound that counts; None where
        there are none."""
        some = self.options if options is None else options
        return solved_table(request, some, self.replicas, level) if some else None


def solved_table(
    request: ServingQuestion, options: Sequence[ServingOption], replicas: Replicas, level: Level = Level.SURE
) -> ServingTable:
    """Options, one at least, solved for a request by the bound that counts."""
    return ServingTable.of(options, LoadSolver(request, options, replicas).solved(level))


class ServingPreparations:
    """What was prepared of a catalogue, a language model and a predictor, the last few of it."""

    def __init__(self, catalog: Catalog, model: LanguageModel, predictor: ServingModel) -> None:
        self.catalog, self.model, self.predictor = catalog, model, predictor
        self._predicted = Predicted()
        self._finders: dict[ServingQuestion, OptionFinder] = {}
        self._options = lru_cache(_MOST_KEPT)(self._prepared)

    def of(self, request: ServingQuestion, most_usd_per_hour: float | None = None) -> ServingOptions:
        """What the request needs, prepared now or before. `UsageError` for what the model does
        not take."""
        require_possible(request, self.model)
        return self._options(key_of(request), most_usd_per_hour)

    def _prepared(self, request: ServingQuestion, most_usd_per_hour: float | None) -> ServingOptions:
        finder = self._finder(request)
        return ServingOptions(request, finder, self.predictor, self._predicted, most_usd_per_hour)

    def _finder(self, request: ServingQuestion) -> OptionFinder:
        """The one of the last request about whatever prices, or a new one."""
        at_any_price = replace(request, price_kinds=(), listed_on=None, price_spread=None)
        if at_any_price not in self._finders:
            self._finders = {at_any_price: OptionFinder(at_any_price, self.catalog, self.model)}
        return self._finders[at_any_price].with_prices_of(request)


def key_of(request: ServingQuestion) -> ServingQuestion:
    """The request without its target and what else is only held against the options."""
    return replace(
        request,
        target_output_tokens_per_second=None,
        target_requests_per_second=None,
        users=None,
        max_ttft_ms=None,
        max_tpot_ms=None,
        max_e2e_seconds=None,
        max_usd_per_hour=None,
        max_count=1,
        horizon_hours=HOURS_PER_MONTH,
        max_results=1,
        allow_extrapolation=False,
    )


def require_possible(request: ServingQuestion, model: LanguageModel) -> None:
    """Refuse sequences that the model does not take, and splits that engines do not make."""
    most = model.max_context
    if most is not None and request.longest_tokens > most:
        raise UsageError(
            "{model} takes {most:,} tokens at most, and a sequence may have {needed:,}",
            model=model.name,
            most=most,
            needed=request.longest_tokens,
            field="max_context",
            hint=Message(
                "ask for {field} {most} or less, input and output together",
                field=FieldName("max_context"),
                most=most,
            ),
        )
    split = request.tensor_parallel
    if split is not None and split > max(splits_of(request.engine)):
        raise UsageError(
            "{engine} is answered on up to {most} GPUs a replica, not on {split}",
            engine=request.engine.product,
            most=max(splits_of(request.engine)),
            split=split,
            field="tensor_parallel",
            hint=Message("ask for {field} auto", field=FieldName("tensor_parallel")),
        )
    if split is not None and not can_split(model, split):
        raise UsageError(
            "{model} cannot be split over {split} GPUs: its {heads} attention heads do not divide evenly",
            model=model.name,
            split=split,
            heads=model.heads,
            field="tensor_parallel",
            hint=Message("ask for {field} auto", field=FieldName("tensor_parallel")),
        )
