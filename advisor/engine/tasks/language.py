"""The base of the serving and tuning tasks: offers with a GPU, named instances, and warnings."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.gpus import gpu_link
from advisor.catalog.support import UNLIMITED_NOTE
from advisor.domain import Change, Gpu, Offer, Rejected, Relaxation
from advisor.domain.language import (
    FineTuningCandidate,
    FineTuningRecommendation,
    GenerationCandidate,
    GenerationRecommendation,
    ServingPrediction,
    TuningPrediction,
)
from advisor.domain.money import aged, aged_spec
from advisor.engine.assumptions import market_warnings, price_warnings
from advisor.engine.candidates import judged_offer, offer_named, offers_in, place_query, rejected_offer
from advisor.engine.columns import Columns, P
from advisor.engine.rejected import misses
from advisor.engine.task import EVEN, Task
from advisor.errors import CANNOT_RUN, UsageError
from advisor.messages import FieldName, Message, code_of
from advisor.models.language.deployments import GpuFacts, gpu_facts
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.memory import card_gib
from advisor.questions.language import ServingQuestion, TuningQuestion

_MOST_KEPT = 8
# Reasons of certain misses: the memory for users and the price are known, not predicted.
_CERTAIN = {"users", "over_max_price"}
# Attributes of every question that do not change the options.
_OF_ANSWERS = (
    *("max_usd_per_hour", "horizon_hours", "max_results", "required_confidence", "allow_extrapolation"),
    "preferred",
)
# Reasons for which several instances together may still serve.
_TOO_SMALL = ("weights", "kv")
# An offer with its warnings, or with the reason why it is rejected.
JudgedOffer = tuple[Offer, tuple[Message, ...] | Rejected]


class LanguageOptions(Struct, Generic[P], frozen=True):
    """Options, a rejection for each type that has none, and the number of offers considered."""

    options: list[P]
    rejected: list[Rejected]
    considered: int


R = TypeVar("R", bound=ServingQuestion | TuningQuestion)
O = TypeVar("O", bound=LanguageOptions[Any])  # noqa: E741
T = TypeVar("T", bound=Columns)
C = TypeVar("C", bound=GenerationCandidate | FineTuningCandidate)
A = TypeVar("A", bound=GenerationRecommendation | FineTuningRecommendation)
N = TypeVar("N", bound=ServingPrediction | TuningPrediction)


class LanguageTask(Task[R, O, T, C, A], Generic[R, O, T, C, A, N]):
    """Serving or tuning one language model."""

    # The record of a named instance's prediction, and the error where it cannot run the work.
    prediction: Callable[..., N]
    cannot: ClassVar[Message]
    # The hint where one instance is too small, but several together may not be.
    together: ClassVar[Message | None] = None
    # Attributes that do not change the options, and values of those for a single instance.
    not_of_options: ClassVar[tuple[str, ...]]
    of_one_instance: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, catalog: Catalog, model: LanguageModel) -> None:
        self.catalog, self.model = catalog, model
        self._options = lru_cache(_MOST_KEPT)(self._options_of_place)

    @abstractmethod
    def require_possible(self, request: R) -> None:
        """Raises `UsageError` for a request that the model cannot take."""

    @abstractmethod
    def options_on(self, request: R, judged: Sequence[JudgedOffer]) -> O:
        """The options on these offers, and the rejections of the others."""

    def options(self, request: R, most_usd_per_hour: float | None = None) -> O:
        """The options up to a price, which are kept for requests that differ only in their targets."""
        self.require_possible(request)
        return self._options(request.without((*_OF_ANSWERS, *self.not_of_options)), most_usd_per_hour)

    def _options_of_place(self, request: R, most_usd_per_hour: float | None) -> O:
        options = self.options_on(request, self.judged(request, most_usd_per_hour))
        unpriced = self.catalog.unpriced(place_query(request, accelerated=True))
        return replace(options, rejected=[*options.rejected, *unpriced])

    def judged(self, request: R, most_usd_per_hour: float | None) -> list[JudgedOffer]:
        """All offers in the request's place, with their warnings or the reason why they are rejected."""
        query = replace(place_query(request, accelerated=True), max_usd_per_hour=most_usd_per_hour)
        offers = offers_in(self.catalog, query)
        return [(offer, judged_offer(request, self.catalog, offer, needs_gpu=True)) for offer in offers]

    @abstractmethod
    def candidate(self, request: R, table: T, row: int) -> C:
        """A row as a record, without its chance."""

    def candidates(self, request: R, table: T, rows: Sequence[int]) -> list[C]:
        """Rows as records, with their chances."""
        return self.with_chances(request, table, rows, [self.candidate(request, table, row) for row in rows])

    def prediction_on(self, request: R, name: str, *, today: date) -> N:
        """The prediction for a named type in its cheapest use; raises `UsageError` if it cannot run."""
        self.require_possible(request)
        # A named instance is always predicted; `calibrated` says whether its interval is.
        request = replace(
            request, allow_extrapolation=True, required_confidence=request.confidence, **self.of_one_instance
        )
        offer, price, notes = offer_named(request, self.catalog, name, today, needs_gpu=True)
        options = self.options_on(request, [(offer, notes)])
        table = self.predict(request, options)
        if table is None:
            rejected = options.rejected[0]
            raise UsageError(
                Message(
                    self.cannot.text, code=CANNOT_RUN, name=name, model=self.model.name, why=rejected.detail
                ),
                field="instance",
                code=CANNOT_RUN,
                hint=self.together if rejected.reason in _TOO_SMALL else None,
            )
        rows, missed = self.ranked_rows(request, options, table), list[Message]()
        answers = bool(len(rows))
        if not answers:
            # All splits have the same price: its limit cannot decide between them.
            whatever = replace(request, max_usd_per_hour=None)
            rows = self.ranked_rows(whatever, options, table)[:1]
        if not len(rows):
            rows = np.array([self.nearest_row(whatever, table)])
        chosen = self.candidates(request, table, rows[:1].tolist())[0]
        if not answers:
            missed += self._shortfalls(request, table, int(rows[0]), chosen.probability)
            if _CERTAIN.intersection(code_of(each.parameters["why"]) for each in missed):
                chosen = replace(chosen, probability=0.0)
        chosen = replace(chosen, spec=aged_spec(chosen.spec, today))
        return self.prediction(
            candidate=chosen,
            price=aged(price, today) if price else None,
            assumptions=tuple(self.assumptions(request, chosen)),
            warnings=(*missed, *self.warnings(chosen, today)),
            **self.details(request, options, table, rows, chosen, today),
        )

    def _shortfalls(self, request: R, table: T, row: int, chance: float | None) -> Iterator[Message]:
        """Each limit that a row misses, or may miss by its bounds."""
        for reason in [limit.reason for limit in self.limits(request, table) if not limit.keeps[row]]:
            why = self.shortfall(request, table, row, reason)
            # A limit missed at all loads that keep the earlier ones may be kept at the load shown.
            figures: dict[str, Any] = {"upper": math.inf, "limit": 0.0} | dict(why.parameters)
            holds = figures["upper"] <= figures["limit"]
            if reason != "no_interval" and not holds:
                is_certain = reason in _CERTAIN or (chance or 0.0) < EVEN
                yield misses(why, "misses" if is_certain else "may_miss")


class Cards:
    """Facts of GPUs for the language model predictors, each built once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[tuple[str, int], GpuFacts] = {}

    def of(self, gpu: Gpu) -> GpuFacts:
        """The facts of a card, with its usable memory."""
        key = gpu.name, gpu.memory_mib
        if key not in self._known:
            sheet = self._catalog.gpu_sheets[gpu.name]
            facts = gpu_facts(gpu, sheet.fp8_tflops, sheet.link)
            self._known[key] = facts._replace(memory_gib=card_gib(gpu.name, facts.memory_gib))
        return self._known[key]

    def of_offer(self, offer: Offer) -> GpuFacts:
        """The facts of the card of an offer that `judged_offer` accepts."""
        gpu = self._catalog.gpu_of(offer.instance)
        assert gpu is not None  # `judged_offer` rejects cards without a data sheet
        return self.of(gpu)


def options_of_types(
    judged: Iterable[JudgedOffer], options_of: Callable[[Offer, tuple[Message, ...]], Sequence[P] | Rejected]
) -> tuple[list[P], list[Rejected]]:
    """The options of accepted offers, and a rejection for each type that has none."""
    options: list[P] = []
    rejected: dict[tuple[str, str], Rejected] = {}
    for offer, notes in judged:
        some = notes if isinstance(notes, Rejected) else options_of(offer, notes)
        if isinstance(some, Rejected):
            rejected.setdefault((offer.instance.cloud, offer.instance.name), some)
        else:
            options += some
    for option in options:
        rejected.pop((option.offer.instance.cloud, option.offer.instance.name), None)
    return options, list(rejected.values())


def other_choices(
    chosen: Callable[[R], C | None], request: R, name: str, before: str, choices: Iterable[str]
) -> Iterator[Relaxation]:
    """A relaxation for each of the `choices` of an option with which some spec answers."""
    for choice in choices:
        if gives := chosen(replace(request, **{name: choice})):
            change = Change(constraint=name, option=f"--{name}", before=before, after=choice)
            yield Relaxation(changes=(change,), gives=gives)


def require_tokens(model: LanguageModel, needed: int, field: str, hint: Message) -> None:
    """Raises `UsageError` for sequences that are longer than the model takes."""
    most = model.max_context
    if most is not None and needed > most:
        refused = Message(
            "{model} takes at most {most:,} tokens, and {needed:,} are asked for",
            model=model.name,
            most=most,
            needed=needed,
        )
        ways: dict[str, Any] = {"field": FieldName(field), "most": most, **hint.parameters}
        raise UsageError(refused, field=field, hint=Message(hint.text, **ways))


def ram_shortage(offer: Offer, needed_gib: float) -> Rejected | None:
    """The rejection of an offer whose RAM is too small; None where it is enough."""
    available = offer.instance.memory_mib
    if needed_gib * 1024 <= available:
        return None
    why = Message(
        "needs {needed:mib} of RAM, has {available:mib}", needed=needed_gib * 1024, available=available
    )
    return rejected_offer(offer, "memory", why)


def language_warnings(
    chosen: GenerationCandidate | FineTuningCandidate,
    today: date,
    *,
    joined_gpus: int,
    used_gpus: int,
    further: Iterable[Message] = (),
) -> tuple[Message | str, ...]:
    """The warnings of an answer: weaknesses that a reader can check."""
    offer = chosen.spec.offer
    warnings = [*market_warnings(chosen.spec), *chosen.extrapolation]
    warnings += [*price_warnings(offer.price, chosen.spec.disk, today)]
    if joined_gpus > 1 and not gpu_link(offer.instance).source:
        name = offer.instance.name
        warnings.append(
            Message("how the GPUs of {name} are joined is not published: PCIe is assumed", name=name)
        )
    warnings += [note for note in chosen.notes if note != UNLIMITED_NOTE]
    warnings += further
    gpus = offer.instance.gpu_count
    if gpus > used_gpus:
        warnings.append(Message("{idle} of its {gpus} GPUs stay idle", idle=gpus - used_gpus, gpus=gpus))
    return tuple(warnings)
