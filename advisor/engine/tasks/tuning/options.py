"""Options to tune a model on what is offered: how many GPUs of an instance, and what fits their memory
and is fastest; or the reason why nothing does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from advisor.catalog import Catalog, used_gpus
from advisor.catalog.gpus import gpu_link
from advisor.domain import Disk, Offer, Rejected
from advisor.domain.words import LlmMethod, LlmPrecision
from advisor.engine.disks import disks_by_price
from advisor.engine.offers import rejected_offer
from advisor.engine.tasks.language import (
    Cards,
    JudgedOffer,
    LanguageOptions,
    options_of_types,
    ram_shortage,
    require_tokens,
)
from advisor.messages import Message
from advisor.models.language.config_values import uncovered
from advisor.models.language.finetuning.predictor import Settled, least_memory, unsupported
from advisor.models.language.finetuning.tuning import FineTuning
from advisor.models.language.memory import weight_gib
from advisor.questions.language import TuningQuestion

if TYPE_CHECKING:
    from advisor.models.language.deployments import GpuFacts
    from advisor.models.language.finetuning.predictor import FineTuningPredictor
    from advisor.models.language.language_model import LanguageModel

# GPUs of one instance that share a run; as many as there are, too.
_COUNTS = (1, 2, 4, 8, 16)
# RAM that a run takes, assumed and not measured: the system, a process for each GPU with CUDA's
# libraries, and a file of weights of the usual 5 GB.
_BASE_GIB, _PROCESS_GIB = 8.0, 3.0
# What of a tuning depends on an offer: a card, how many of it, and what joins them.
_Key = tuple["GpuFacts", int, str]


class TuningOption(NamedTuple):
    """The fastest option to tune on one instance of an offer; `rates` are tokens a second of all its
    GPUs that are used: lower bound, median, upper bound."""

    offer: Offer
    disk: Disk
    settled: Settled
    rates: Sequence[float]
    calibrated: bool
    notes: tuple[Message, ...]


TuningOptions = LanguageOptions[TuningOption]


class TunedModel(NamedTuple):
    """A language model with what tells how it is tuned."""

    catalog: Catalog
    model: LanguageModel
    predictor: FineTuningPredictor
    cards: Cards


def tuning_options(
    request: TuningQuestion, tuned: TunedModel, judged: Sequence[JudgedOffer]
) -> TuningOptions:
    """The fastest option of each offer, whatever is to be reached; all are predicted at once."""
    keys = {
        id(offer): _keys(request, tuned, offer) for offer, notes in judged if not isinstance(notes, Rejected)
    }
    distinct = list(dict.fromkeys(key for some in keys.values() for key in some))
    settled = tuned.predictor.settled([tuning_on(request, tuned, *key) for key in distinct])
    fitting = {key: fit for key, fit in zip(distinct, settled, strict=True) if fit}
    rates, calibrated = dict[_Key, list[float]](), True
    if fitting:
        tunings = [fit.tuning for fit in fitting.values()]
        predicted = tuned.predictor.tokens_per_second(tunings, request.confidence)
        columns, calibrated = np.array(predicted.tokens_per_second).T, predicted.calibrated
        rates = dict(zip(fitting, columns.tolist(), strict=True))
    # The published weights, and in full tuning what comes of them.
    weights = weight_gib(tuned.model, LlmPrecision.BF16)
    stored = 2 * weights if request.method == LlmMethod.FULL else weights

    def options_of(offer: Offer, notes: tuple[Message, ...]) -> list[TuningOption] | Rejected:
        tried = keys[id(offer)]
        if not tried:
            why = unsupported_message(tuning_on(request, tuned, tuned.cards.of_offer(offer)))
            return rejected_offer(offer, "unsupported", why)
        fits = [key for key in tried if key in fitting]
        if not fits:
            return rejected_offer(offer, "gpu_memory", misfit_message(tuning_on(request, tuned, *tried[-1])))
        small = ram_shortage(offer, _BASE_GIB + _PROCESS_GIB * tried[-1][1])
        disks = small or disks_by_price(request, tuned.catalog, offer, stored)
        if isinstance(disks, Rejected):
            return disks
        # Nobody has to use more GPUs than help; of equal rates the fewest.
        best = max(fits, key=lambda key: rates[key][1])
        return [TuningOption(offer, disks[0], fitting[best], rates[best], calibrated, notes)]

    options, rejected = options_of_types(judged, options_of)
    return TuningOptions(options, rejected, len(judged))


def require_possible(request: TuningQuestion, model: LanguageModel) -> None:
    """Refuse layers that no formula of tuning covers, and sequences that the model does not take."""
    if model.mixed:
        raise uncovered(model.name, "tuned")
    require_tokens(
        model,
        request.sequence,
        "sequence",
        Message(
            "{model} takes {most:,} tokens at most, and a sequence of {asked:,} is asked for",
            asked=request.sequence,
        ),
        Message("ask for {field} {most} or less"),
    )


def tuning_on(
    request: TuningQuestion, tuned: TunedModel, card: GpuFacts, gpus: int = 1, link: str = "none"
) -> FineTuning:
    """The request on so many GPUs."""
    return FineTuning(tuned.model, request.method, request.sequence, request.micro_batch, card, gpus, link)


def _keys(request: TuningQuestion, tuned: TunedModel, offer: Offer) -> list[_Key]:
    """Numbers of GPUs to try, ascending; none where the card cannot tune."""
    card = tuned.cards.of_offer(offer)
    if unsupported(tuning_on(request, tuned, card)):
        return []
    gpus, link = used_gpus(offer.instance, request.max_gpus), gpu_link(offer.instance)
    counts = sorted({count for count in _COUNTS if count < gpus} | {gpus})
    return [(card, count, link.among(count)) for count in counts]


def unsupported_message(tuning: FineTuning) -> Message:
    """Why a card cannot tune, whatever its memory."""
    code = unsupported(tuning)
    if code == "no_bf16":
        return Message("{gpu} has no bf16, which full tuning computes in", gpu=tuning.gpu.name)
    if code == "capability":
        return Message("{gpu} is older than what libraries tune on", gpu=tuning.gpu.name)
    return Message("only NVIDIA's GPUs were measured tuning language models")


def misfit_message(tuning: FineTuning) -> Message:
    """The memory that the smallest option takes of each GPU."""
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
