"""Ways to serve a model on what is offered: a format that the GPU computes, a split over its GPUs
that memory holds, replicas on the rest, and a disk; or the reason why nothing serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from advisor.catalog import Catalog, used_gpus
from advisor.catalog.gpus import gpu_link
from advisor.domain import Disk, Gpu, InstanceType, Offer, Rejected
from advisor.domain.generation import KvPrecision, Link, LlmEngine, LlmPrecision
from advisor.domain.language import MOST_SEQUENCES, GpuMemoryUse, ReadyTime, ServingPlacement
from advisor.engine.columns import P
from advisor.engine.offers import judged_offer, offers_in, place_query, rejected_offer
from advisor.engine.tasks.serving.ready import gib_to_read, ready_disk
from advisor.messages import Message
from advisor.models.language.deployments import Deployment
from advisor.models.language.gpus import GpuFacts, gpu_facts
from advisor.models.language.memory import ServingMemory, can_split, card_gib, serving_memory, weight_gib
from advisor.models.language.support import AMPERE, supported
from advisor.questions.language import ServingQuestion, TuningQuestion

if TYPE_CHECKING:
    from advisor.models.language.language_model import LanguageModel

# GPUs that engines split a model over.
SPLITS = (1, 2, 4, 8, 16)
# RAM that loading takes, assumed and not measured: the system and the engine, one process a GPU
# with CUDA's libraries, and a file of weights of the usual 5 GB, which the page cache holds.
_BASE_GIB, _PROCESS_GIB, _FILE_GIB = 3.0, 2.0, 5.0
# Formats of 16 bits: weights that are published in one may be computed in the other.
SIXTEEN_BIT = (LlmPrecision.BF16, LlmPrecision.FP16)


class ServingOption(NamedTuple):
    """One option to serve on one instance of an offer; `memory` is of each of its GPUs."""

    offer: Offer
    disk: Disk
    ready: ReadyTime
    deployment: Deployment
    placement: ServingPlacement
    memory: GpuMemoryUse
    notes: tuple[Message, ...]


class Cards:
    """GPUs of instances as the language models' rooms know them, each made once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[tuple[str, int], GpuFacts] = {}

    def of(self, gpu: Gpu) -> GpuFacts:
        """The facts of a card with the memory that is usable there."""
        key = gpu.name, gpu.memory_mib
        if key not in self._known:
            sheet = self._catalog.gpu_sheets[gpu.name]
            facts = gpu_facts(gpu, sheet.fp8_tflops, sheet.link)
            self._known[key] = facts._replace(memory_gib=card_gib(gpu.name, facts.memory_gib))
        return self._known[key]


def offers_judged(
    request: ServingQuestion | TuningQuestion, catalog: Catalog, most_usd_per_hour: float | None = None
) -> Iterator[tuple[Offer, tuple[Message, ...] | Rejected]]:
    """Every offer with a GPU (of those that cost no more), with what the user must mind, or why it
    is turned down."""
    query = replace(place_query(request, accelerated=True), max_usd_per_hour=most_usd_per_hour)
    for offer in offers_in(request, catalog, query):
        yield offer, judged_offer(request, catalog, offer, needs_gpu=True)


def options_of_types(
    judged: Iterable[tuple[Offer, tuple[Message, ...] | Rejected]],
    found_on: Callable[[Offer, tuple[Message, ...]], Sequence[P] | Rejected],
) -> tuple[list[P], list[Rejected]]:
    """What is found on offers that can be had, and a reason for each type that has nothing."""
    options: list[P] = []
    rejected: dict[tuple[str, str], Rejected] = {}
    for offer, notes in judged:
        found = notes if isinstance(notes, Rejected) else found_on(offer, notes)
        if isinstance(found, Rejected):
            rejected.setdefault((offer.instance.cloud, offer.instance.name), found)
        else:
            options += found
    for option in options:
        rejected.pop((option.offer.instance.cloud, option.offer.instance.name), None)
    return options, list(rejected.values())


def options_on(
    request: ServingQuestion, catalog: Catalog, model: LanguageModel, offer: Offer, notes: tuple[Message, ...]
) -> list[ServingOption] | Rejected:
    """All options to serve on one offer that can be had, or why there is none."""
    return OptionFinder(request, catalog, model).options(offer, notes)


def splits_of(engine: LlmEngine) -> tuple[int, ...]:
    """GPUs that an engine splits a model over. llama.cpp gives each GPU some of the layers, which
    work one after the other; how fast that is was not measured, so that it has one GPU."""
    return SPLITS[:1] if engine is LlmEngine.LLAMA_CPP else SPLITS


def kv_precision_of(
    request: ServingQuestion, precision: LlmPrecision, card: GpuFacts | None = None
) -> KvPrecision:
    """The format that is asked for, or the 16 bits in which the engine computes weights of
    `precision`, on the card where one is known; llama.cpp keeps fp16 (its `--cache-type-k`)."""
    if request.kv_precision is not None:
        return request.kv_precision
    half = request.engine is LlmEngine.LLAMA_CPP or precision is LlmPrecision.FP16
    no_bf16 = card is not None and card.compute_capability < AMPERE
    return KvPrecision.FP16 if half or no_bf16 else KvPrecision.BF16


class OptionFinder:
    """Finds options for one request; what offers share is found once."""

    def __init__(self, request: ServingQuestion, catalog: Catalog, model: LanguageModel) -> None:
        self._request, self.catalog, self._model = request, catalog, model
        self._cards = Cards(catalog)
        self._memory: dict[tuple[GpuFacts, LlmPrecision], dict[int, ServingMemory]] = {}
        self._uses: dict[tuple[GpuFacts, LlmPrecision], dict[int, GpuMemoryUse | None]] = {}
        self._deployments: dict[tuple[GpuFacts, LlmPrecision, int, str], Deployment] = {}

    def with_prices_of(self, request: ServingQuestion) -> OptionFinder:
        """For the same request about other prices: what memory holds is known already."""
        other = copy(self)
        other._request = request
        return other

    def options(self, offer: Offer, notes: tuple[Message, ...]) -> list[ServingOption] | Rejected:
        """Every option to serve on the offer, or why there is none."""
        gpu = self.catalog.gpu_of(offer.instance)
        assert gpu is not None  # `judged_offer` turns down what has no data sheet
        card = self._cards.of(gpu)
        precision = self.precision_on(card)
        if isinstance(precision, Message):
            return rejected_offer(offer, "unsupported", precision)
        gpus = used_gpus(offer.instance, self._request.max_gpus)
        memories = {split: one for split, one in self.memories(card, precision).items() if split <= gpus}
        if not memories:
            return rejected_offer(
                offer,
                "gpus",
                Message(
                    "has {gpus} GPUs to split the model over, not {needed}",
                    code="gpus",
                    gpus=gpus,
                    needed=self._request.tensor_parallel or 1,
                ),
            )
        uses = self._uses_of(card, precision)
        fitting = {split: use for split in memories if (use := uses[split])}
        if not fitting:
            return rejected_offer(offer, *self.misfit(memories, card))
        needed = _BASE_GIB + _FILE_GIB + _PROCESS_GIB * gpus
        if needed * 1024 > offer.instance.memory_mib:
            return rejected_offer(
                offer,
                "memory",
                Message(
                    "needs {needed:mib} of RAM, has {available:mib}",
                    needed=needed * 1024,
                    available=offer.instance.memory_mib,
                ),
            )
        return self._placed(offer, notes, card, precision, fitting)

    def _placed(
        self,
        offer: Offer,
        notes: tuple[Message, ...],
        card: GpuFacts,
        precision: LlmPrecision,
        fitting: dict[int, GpuMemoryUse],
    ) -> list[ServingOption] | Rejected:
        gpus, link = used_gpus(offer.instance, self._request.max_gpus), gpu_link(offer.instance)
        weights = weight_gib(self._model, precision, self._request.engine)
        disks: dict[float, tuple[Disk, ReadyTime] | Rejected] = {}
        found: list[ServingOption] = []
        for split, memory in fitting.items():
            replicas = gpus // split
            gib = gib_to_read(weights, offer.instance.memory_mib, replicas)
            if gib not in disks:
                disks[gib] = ready_disk(self._request, self.catalog, offer, weights, gib=gib, gpus=gpus)
            disk = disks[gib]
            if isinstance(disk, Rejected):
                continue
            kind = link.among(split)
            deployment = self._deployment(card, precision, split, kind)
            placement = ServingPlacement(tensor_parallel=split, replicas=replicas, link=Link(kind))
            found.append(ServingOption(offer, *disk, deployment, placement, memory, notes))
        refused = [one for one in disks.values() if isinstance(one, Rejected)]
        return found or refused[0]

    @property
    def usual_precision(self) -> LlmPrecision:
        """The format asked for, else the published one."""
        return self._request.precision or self._model.own_precision

    def precision_on(self, card: GpuFacts) -> LlmPrecision | Message:
        """The format asked for, else the published one, or another of 16 bits for one of 16."""
        usual = self.usual_precision
        alike = usual in SIXTEEN_BIT and self._request.precision is None
        choices = tuple(dict.fromkeys((usual, *SIXTEEN_BIT))) if alike else (usual,)
        request = self._request
        reasons = [
            supported(one, kv_precision_of(request, one, card), request.engine, card, self._model)
            for one in choices
        ]
        for one, why in zip(choices, reasons, strict=True):
            if why is None:
                return one
        assert reasons[0] is not None
        return reasons[0]

    def _deployment(self, card: GpuFacts, precision: LlmPrecision, split: int, link: str) -> Deployment:
        """Made once for all offers that have the same."""
        key = card, precision, split, link
        if key not in self._deployments:
            kv_precision = kv_precision_of(self._request, precision, card)
            self._deployments[key] = Deployment(
                model=self._model,
                precision=precision,
                kv_precision=kv_precision,
                gpu=card,
                engine=self._request.engine,
                tensor_parallel=split,
                link=link,
                max_sequences=MOST_SEQUENCES,
            )
        return self._deployments[key]

    def memories(self, card: GpuFacts, precision: LlmPrecision) -> dict[int, ServingMemory]:
        """Memory by split, of the splits that the model allows."""
        key = card, precision
        if key not in self._memory:
            asked = self._request.tensor_parallel
            splits = (asked,) if asked else splits_of(self._request.engine)
            kv_precision = kv_precision_of(self._request, precision, card)
            self._memory[key] = {
                split: serving_memory(
                    self._model, precision, kv_precision, card.memory_gib, split, self._request.engine
                )
                for split in splits
                if can_split(self._model, split)
            }
        return self._memory[key]

    def _uses_of(self, card: GpuFacts, precision: LlmPrecision) -> dict[int, GpuMemoryUse | None]:
        key = card, precision
        if key not in self._uses:
            memories = self.memories(card, precision).items()
            self._uses[key] = {split: self.use_of(one) for split, one in memories}
        return self._uses[key]

    def use_of(self, memory: ServingMemory) -> GpuMemoryUse | None:
        """What lies in memory, by the lower bound of the KV cache; None where the longest sequence
        does not fit."""
        request = self._request
        longest = int(memory.longest_context.lower[0])
        if longest < request.longest_tokens:
            return None
        most = memory.most_sequences(request.input_tokens + request.output_tokens)
        return GpuMemoryUse(
            weights_gib=float(memory.weights_gib[0]),
            kv_gib=float(memory.kv_gib.lower[0]),
            overhead_gib=float(memory.overhead_gib[0]),
            # What the engine may also fill counts as free beside the bound that is sure.
            free_gib=float(memory.free_gib[0] + memory.kv_gib.median[0] - memory.kv_gib.lower[0]),
            largest_concurrency=int(most.lower[0]),
            longest_context=longest,
        )

    def misfit(self, memories: dict[int, ServingMemory], card: GpuFacts) -> tuple[str, Message]:
        """Whether weights or KV are too large for the widest split."""
        split, memory = max(memories.items())
        needed = float(memory.weights_gib[0] + memory.overhead_gib[0])
        if not memory.kv_gib.lower[0] > 0:
            if split == 1:
                text = (
                    "weights and engine take {needed:.1f} of the {available:.1f} GiB of {gpu}, and "
                    "leave no room for a KV cache"
                )
                return "weights", Message(
                    text, code="weights", needed=needed, available=card.memory_gib, gpu=card.name
                )
            return "weights", Message(
                "weights and engine take {needed:.1f} of the {available:.1f} GiB of each of {gpus} "
                "{gpu}, and leave no room for a KV cache",
                code="weights",
                needed=needed,
                available=card.memory_gib,
                gpus=split,
                gpu=card.name,
            )
        longest = float(memory.longest_context.lower[0])
        return "kv", Message(
            "beside the weights its memory holds a sequence of {longest:,.0f} tokens, not {needed:,}",
            code="kv",
            longest=longest,
            needed=self._request.longest_tokens,
        )


def link_notes(instance: InstanceType, gpus: int) -> Sequence[Message]:
    """A note where it is not published how the GPUs of an instance are joined, and some work
    together."""
    if gpus == 1 or gpu_link(instance).source:
        return ()
    return (
        Message("how the GPUs of {name} are joined is not published: PCIe is assumed", name=instance.name),
    )
