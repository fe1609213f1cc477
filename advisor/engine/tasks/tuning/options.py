"""Ways to tune a model on what is offered: how many GPUs of an instance, and what fits their memory
and is fastest; or the reason why nothing does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog, used_gpus
from advisor.catalog.gpus import gpu_link
from advisor.domain import HOURS_PER_MONTH, Disk, Offer, Rejected
from advisor.domain.generation import LlmMethod, LlmPrecision
from advisor.engine.offers import place_query, rejected_offer
from advisor.engine.tasks.serving.options import Cards, offers_judged, options_of_types
from advisor.engine.tasks.serving.ready import disks_by_price
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.models.language.finetuning import FineTuning, Settled, least_memory, unsupported
from advisor.models.language.memory import weight_gib
from advisor.questions.language import TuningQuestion

if TYPE_CHECKING:
    from advisor.engine.model import Floats
    from advisor.models.language.finetuning import FineTuningPredictor
    from advisor.models.language.gpus import GpuFacts
    from advisor.models.language.language_model import LanguageModel

# GPUs of one instance that share a run; as many as there are, too.
_COUNTS = (1, 2, 4, 8, 16)
_MOST_KEPT = 8
_LOWER, _MEDIAN, _UPPER = range(3)
# RAM that a run takes, assumed and not measured: the system, a process for each GPU with CUDA's
# libraries, and a file of weights of the usual 5 GB.
_BASE_GIB, _PROCESS_GIB = 8.0, 3.0
# Key of what does not depend on offers: a card, how many of it, and what joins them.
Key = tuple["GpuFacts", int, str]


class TuningOption(NamedTuple):
    """The fastest option to tune on one instance of an offer; `rates` are tokens a second of all its
    GPUs that are used: lower bound, median, upper bound."""

    offer: Offer
    disk: Disk
    settled: Settled
    rates: Sequence[float]
    calibrated: bool
    notes: tuple[Message, ...]


class TuningOptions(Struct, frozen=True):
    """Options, a reason for each type that has none, and how many offers there are."""

    options: list[TuningOption]
    rejected: list[Rejected]
    considered: int


class TuningPreparations:
    """What requests about one language model are answered from, the last few of it kept."""

    def __init__(self, catalog: Catalog, model: LanguageModel, predictor: FineTuningPredictor) -> None:
        self.catalog, self.model, self.predictor = catalog, model, predictor
        self._options = lru_cache(_MOST_KEPT)(self._prepared)

    def of(self, request: TuningQuestion) -> TuningOptions:
        """The fastest option of each offer, whatever is to be reached, found now or before."""
        key = replace(
            request,
            tokens=1.0,
            target_tokens_per_second=None,
            max_hours=None,
            max_run_usd=None,
            max_usd_per_hour=None,
            horizon_hours=HOURS_PER_MONTH,
            max_results=1,
            allow_extrapolation=False,
        )
        return self._options(key)

    def _prepared(self, request: TuningQuestion) -> TuningOptions:
        finder = self.finder(request)
        judged = list(offers_judged(request, self.catalog))
        finder.learn([offer for offer, notes in judged if not isinstance(notes, Rejected)])
        options, rejected = options_of_types(judged, finder.options)
        unpriced = self.catalog.unpriced(place_query(request, accelerated=True))
        return TuningOptions(options, [*rejected, *unpriced], len(judged))

    def finder(self, request: TuningQuestion) -> OptionFinder:
        """Finds options for a request."""
        return OptionFinder(request, self.catalog, self.model, self.predictor)


class OptionFinder:
    """Finds options for one request; what offers share is predicted once, all of it together."""

    def __init__(
        self, request: TuningQuestion, catalog: Catalog, model: LanguageModel, predictor: FineTuningPredictor
    ) -> None:
        require_sequence(request, model)
        self._request, self._catalog, self._model = request, catalog, model
        self._predictor, self._cards = predictor, Cards(catalog)
        self._settled: dict[Key, Settled | None] = {}
        self._rates: dict[Key, Floats] = {}
        self._calibrated = True

    def learn(self, offers: Sequence[Offer]) -> None:
        """Predict everything that these offers need."""
        keys = list(dict.fromkeys(key for offer in offers for key in self._keys(offer)))
        tunings = [self._tuning(*key) for key in keys]
        self._settled.update(zip(keys, self._predictor.settled(tunings), strict=True))
        fitting: Mapping[Key, Settled] = {key: one for key, one in self._settled.items() if one}
        if fitting:
            rates = self._predictor.tokens_per_second(
                [one.tuning for one in fitting.values()], self._request.confidence
            )
            self._calibrated = rates.calibrated
            columns = np.array(rates.tokens_per_second).T
            self._rates.update(zip(fitting, columns, strict=True))

    def options(self, offer: Offer, notes: tuple[Message, ...]) -> list[TuningOption] | Rejected:
        """The fastest option on an offer that was learnt, or why there is none."""
        keys = self._keys(offer)
        if not keys:
            return rejected_offer(
                offer, "unsupported", unsupported_message(self._tuning(self._card(offer), 1))
            )
        fitting = [key for key in keys if self._settled[key] is not None]
        if not fitting:
            return rejected_offer(offer, "gpu_memory", misfit_message(self._tuning(*keys[-1])))
        needed = 1024 * (_BASE_GIB + _PROCESS_GIB * keys[-1][1])
        if needed > offer.instance.memory_mib:
            return rejected_offer(
                offer,
                "memory",
                Message(
                    "needs {needed:mib} of RAM, has {available:mib}",
                    needed=needed,
                    available=offer.instance.memory_mib,
                ),
            )
        disks = disks_by_price(self._request, self._catalog, offer, self._stored_gib())
        if isinstance(disks, Rejected):
            return disks
        # Nobody has to use more GPUs than help; of equal rates the fewest.
        best = max(fitting, key=lambda key: float(self._rates[key][_MEDIAN]))
        settled = self._settled[best]
        assert settled is not None
        rates = tuple(self._rates[best].tolist())
        return [TuningOption(offer, disks[0], settled, rates, self._calibrated, notes)]

    def _keys(self, offer: Offer) -> list[Key]:
        """Numbers of GPUs to try, ascending; none where the card cannot tune."""
        card = self._card(offer)
        if unsupported(self._tuning(card, 1)):
            return []
        gpus, link = used_gpus(offer.instance, self._request.max_gpus), gpu_link(offer.instance)
        counts = sorted({count for count in _COUNTS if count < gpus} | {gpus})
        return [(card, count, link.among(count)) for count in counts]

    def _tuning(self, card: GpuFacts, gpus: int, link: str = "none") -> FineTuning:
        request = self._request
        return FineTuning(
            self._model, request.method, request.sequence, request.micro_batch, card, gpus, link
        )

    def _stored_gib(self) -> float:
        """The published weights, and in full tuning what comes of them."""
        weights = weight_gib(self._model, LlmPrecision.BF16)
        return 2 * weights if self._request.method == LlmMethod.FULL else weights

    def _card(self, offer: Offer) -> GpuFacts:
        gpu = self._catalog.gpu_of(offer.instance)
        assert gpu is not None  # `judged_offer` turns down what has no data sheet
        return self._cards.of(gpu)


def require_sequence(request: TuningQuestion, model: LanguageModel) -> None:
    """Refuse sequences that the model does not take."""
    most = model.max_context
    if most is not None and request.sequence > most:
        raise UsageError(
            "{model} takes {most:,} tokens at most, and a sequence of {asked:,} is asked for",
            model=model.name,
            most=most,
            asked=request.sequence,
            field="sequence",
            hint=Message("ask for {field} {most} or less", field=FieldName("sequence"), most=most),
        )


def unsupported_message(tuning: FineTuning) -> Message:
    """Why a card cannot tune, whatever its memory."""
    code = unsupported(tuning)
    if code == "no_bf16":
        return Message("{gpu} has no bf16, which full tuning computes in", gpu=tuning.gpu.name)
    if code == "capability":
        return Message("{gpu} is older than what libraries tune on", gpu=tuning.gpu.name)
    return Message("only NVIDIA's GPUs were measured tuning language models")


def misfit_message(tuning: FineTuning) -> Message:
    """What the smallest option takes of each GPU."""
    memory = least_memory(tuning)
    if tuning.gpus == 1:
        return Message(
            "tuning takes up to {needed:.1f} of the {available:.1f} GiB of {gpu}",
            needed=memory.upper_gib,
            available=tuning.gpu.memory_gib,
            gpu=tuning.gpu.name,
        )
    return Message(
        "tuning takes up to {needed:.1f} GiB of each of {gpus} GPUs, which have {available:.1f} GiB",
        needed=memory.upper_gib,
        gpus=tuning.gpus,
        available=tuning.gpu.memory_gib,
    )
