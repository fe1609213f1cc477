"""Options to serve a model: format, split over GPUs, replicas and disk, or the reason why none works."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

from advisor.catalog import Catalog, used_gpus
from advisor.catalog.gpus import gpu_link
from advisor.domain import Disk, Gpu, Offer, Rejected
from advisor.domain.language import (
    MOST_SEQUENCES,
    GpuMemoryUse,
    ReadyTime,
    ServingMemoryAnswer,
    ServingPlacement,
    SplitMemory,
    most_sequences,
)
from advisor.domain.words import SIXTEEN_BIT, KvPrecision, Link, LlmEngine, LlmPrecision
from advisor.engine.candidates import rejected_offer
from advisor.engine.disks import disks_by_price, least_disks
from advisor.engine.tasks.language import Cards, ram_shortage, require_tokens
from advisor.errors import UsageError
from advisor.messages import FieldName, Message, ceil_significant
from advisor.models.language.deployments import Deployment, Draft, GpuFacts
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.memory import (
    ServingMemory,
    can_split,
    kv_bytes_per_token,
    serving_memory,
    weight_gib,
)
from advisor.models.language.support import AMPERE, START, load_seconds, supported, weight_only
from advisor.questions.language import ServingQuestion

# GPUs that engines split a model over.
SPLITS = (1, 2, 4, 8, 16)
# RAM that loading takes, assumed and not measured: the system and the engine, a process per GPU with
# CUDA's libraries, and a file of weights of the usual 5 GB in the page cache.
_BASE_GIB, _PROCESS_GIB, _FILE_GIB = 3.0, 2.0, 5.0
# Without a limit, the cheapest disk with which the model serves within this time; else the fastest.
USUAL_READY_SECONDS = 600.0
# Share of RAM that can cache the weights which one replica has read for the next one.
_CACHED_SHARE = 0.8

_NO_ROOM = Message(
    "weights and engine take {needed:.1f} of the {available:.1f} GiB of {gpu}, and leave no room for a "
    "KV cache"
)
_NO_ROOM_ON_EACH = Message(
    "weights and engine take {needed:.1f} of the {available:.1f} GiB of each of {gpus} {gpu}, and "
    "leave no room for a KV cache"
)


_UNPACKED = Message("{gpu} has no {format} cores: it reads such weights faster, and computes in 16 bits")
_NO_NETWORK = Message("its network is not published, and one instance does not hold the model")
# Instances that hold a model together where none holds it alone.
NODES = 2


# GPUs over which the model is split, and ranks (each of so many GPUs) that share the experts.
_Split = tuple[int, int]


class ServingOption(NamedTuple):
    """One way to serve on an instance of an offer; `memory` is that of each GPU."""

    offer: Offer
    disk: Disk
    ready: ReadyTime
    deployment: Deployment
    placement: ServingPlacement
    memory: GpuMemoryUse
    notes: tuple[Message, ...]


class ServedModel:
    """A language model, with its memory and deployments on cards, computed once for all questions."""

    def __init__(self, catalog: Catalog, model: LanguageModel, draft: Draft | None = None) -> None:
        self.catalog, self.model, self.cards, self.draft = catalog, model, Cards(catalog), draft
        self.memory = cache(partial(serving_memory, model, drafts=draft and draft.model))
        self.deployment = cache(partial(Deployment, model, max_sequences=MOST_SEQUENCES, draft=draft))


def splits_of(engine: LlmEngine) -> tuple[int, ...]:
    """The numbers of GPUs that an engine can split a model over. For llama.cpp only one: it gives each GPU
    some of the layers, which work one after the other, and that rate was not measured."""
    return SPLITS[:1] if engine is LlmEngine.LLAMA_CPP else SPLITS


def kv_precision_of(
    request: ServingQuestion, precision: LlmPrecision, card: GpuFacts | None = None
) -> KvPrecision:
    """The request's format of the KV cache, or the 16 bits in which the engine computes weights of
    `precision` (on the card, if given); llama.cpp keeps fp16 (its `--cache-type-k`)."""
    if request.kv_precision is not None:
        return request.kv_precision
    half = request.engine is LlmEngine.LLAMA_CPP or precision is LlmPrecision.FP16
    no_bf16 = card is not None and card.compute_capability < AMPERE
    return KvPrecision.FP16 if half or no_bf16 else KvPrecision.BF16


def require_possible(request: ServingQuestion, model: LanguageModel) -> None:
    """Raises `UsageError` for sequences that the model cannot take, and for impossible splits."""
    mean, needed = math.ceil(request.request_tokens), request.longest_tokens
    is_mean = model.max_context is not None and mean > model.max_context
    room = (model.max_context or 0) - mean + math.floor(request.input_tokens)
    require_tokens(
        model,
        needed,
        "input_tokens" if is_mean and room > 0 else "max_context",
        Message("give {field} {room} or less", room=room)
        if is_mean and room > 0
        else Message("ask for {field} {most} or less, input and output together"),
    )
    split, most = request.tensor_parallel, max(splits_of(request.engine))
    if split is None or (split <= most and can_split(model, split)):
        return
    refused = Message(
        "{model} cannot be split over {split} GPUs: its {heads} attention heads do not divide evenly",
        model=model.name,
        split=split,
        heads=model.heads,
    )
    if split > most:
        refused = Message(
            "{engine} is answered on up to {most} GPUs a replica, not on {split}",
            engine=request.engine.product,
            most=most,
            split=split,
        )
    hint = Message("ask for {field} auto", field=FieldName("tensor_parallel"))
    raise UsageError(refused, field="tensor_parallel", hint=hint)


class OptionFinder:
    """Finds the options for one request; `nodes` instances hold each copy of the model together."""

    def __init__(self, request: ServingQuestion, served: ServedModel, nodes: int = 1) -> None:
        self._request, self._served, self._model, self._nodes = request, served, served.model, nodes
        # Only an engine whose slots are fixed limits sequences here; vLLM's option is applied elsewhere.
        slots = most_sequences(request.engine)
        self._most_sequences = slots if slots < MOST_SEQUENCES else 10**9
        self.usual_precision = request.precision or served.model.own_precision
        self.fits = cache(self._fits)

    def options(self, offer: Offer, notes: tuple[Message, ...]) -> list[ServingOption] | Rejected:
        """All options to serve on the offer, or why there is none."""
        card = self._served.cards.of_offer(offer)
        precision = self.precision_on(card)
        if isinstance(precision, Message):
            return rejected_offer(offer, "unsupported", precision)
        gpus = used_gpus(offer.instance, self._request.max_gpus)
        fits = {way: fit for way, fit in self.fits(card, precision).items() if way[0] * way[1] <= gpus}
        if self._nodes > 1:
            if offer.instance.network is None:
                return rejected_offer(offer, "unsupported", _NO_NETWORK)
            fits = {way: fit for way, fit in fits.items() if way == (gpus, 1)}
        if not fits:
            needed = self._request.tensor_parallel or 1
            why = Message(
                "has {gpus} GPUs to split the model over, not {needed}", code="gpus", gpus=gpus, needed=needed
            )
            return rejected_offer(offer, "gpus", why)
        uses = {way: use for way, (_, use) in fits.items() if use}
        if not uses:
            return rejected_offer(offer, *self.misfit_reason(card, precision, max(fits)))
        small = ram_shortage(offer, _BASE_GIB + _FILE_GIB + _PROCESS_GIB * gpus)
        return small or self._options_with_disks(offer, notes, card, precision, uses)

    def _options_with_disks(
        self,
        offer: Offer,
        notes: tuple[Message, ...],
        card: GpuFacts,
        precision: LlmPrecision,
        uses: dict[_Split, GpuMemoryUse],
    ) -> list[ServingOption] | Rejected:
        request, served, link = self._request, self._served, gpu_link(offer.instance)
        gpus = used_gpus(offer.instance, request.max_gpus)
        weights, nodes = weight_gib(self._model, precision, request.engine), self._nodes
        if served.draft and (drafting := served.draft.model):
            weights += weight_gib(drafting, drafting.own_precision, request.engine)
        network = offer.instance.network if nodes > 1 else None
        between = network.gbit_per_second / 8 if network else 0.0
        # Integers of 4 bits are unpacked on every GPU.
        has_none = weight_only(precision, card) and precision is not LlmPrecision.INT4_AWQ
        unpacked = [Message(_UNPACKED.text, gpu=card.name, format=precision)] if has_none else []
        disks: dict[float, tuple[Disk, ReadyTime] | Rejected] = {}
        options: list[ServingOption] = []
        for (split, ranks), memory in uses.items():
            replicas = gpus // (split * ranks)
            gib = gib_to_read(weights / nodes, offer.instance.memory_mib, replicas)
            if gib not in disks:
                disks[gib] = ready_disk(request, served.catalog, offer, weights, gib=gib, gpus=gpus)
            disk = disks[gib]
            if isinstance(disk, Rejected):
                continue
            kind = link.among(split * ranks)
            kv_precision = kv_precision_of(request, precision, card)
            apart = {"nodes": nodes, "node_gb_s": between, "ranks": ranks}
            deployment = served.deployment(
                precision, kv_precision, request.engine, card, split, kind, **apart
            )
            placement = ServingPlacement(
                tensor_parallel=split, replicas=replicas, link=Link(kind), nodes=nodes, ranks=ranks
            )
            options.append(ServingOption(offer, *disk, deployment, placement, memory, (*notes, *unpacked)))
        return options or next(disk for disk in disks.values() if isinstance(disk, Rejected))

    def precision_on(self, card: GpuFacts) -> LlmPrecision | Message:
        """The requested or published weight format, else another of 16 bits; or why the card has none."""
        usual, request = self.usual_precision, self._request
        alike = usual in SIXTEEN_BIT and request.precision is None
        choices = tuple(dict.fromkeys((usual, *SIXTEEN_BIT))) if alike else (usual,)
        reasons = []
        for precision in choices:
            kv_precision = kv_precision_of(request, precision, card)
            why = supported(precision, kv_precision, request.engine, card, self._model)
            if why is None:
                return precision
            reasons.append(why)
        return reasons[0]

    def _fits(
        self, card: GpuFacts, precision: LlmPrecision
    ) -> dict[_Split, tuple[ServingMemory, GpuMemoryUse | None]]:
        """Memory and its use by split and ranks; the use is None where the longest sequence does not fit."""
        request = self._request
        splits = (request.tensor_parallel,) if request.tensor_parallel else splits_of(request.engine)
        kv_precision = kv_precision_of(request, precision, card)
        ways = [(split, 1) for split in splits if can_split(self._model, split)]
        if self._model.moe and request.tensor_parallel is None and self._nodes == 1:
            ways += [(1, ranks) for ranks in splits_of(request.engine)[1:]]
        memories = {
            (split, ranks): self._served.memory(
                *(precision, kv_precision, card.memory_gib, split, request.engine),
                **{"nodes": self._nodes, "ranks": ranks},
            )
            for split, ranks in ways
        }
        return {way: (memory, self._memory_use(memory)) for way, memory in memories.items()}

    def _memory_use(self, memory: ServingMemory) -> GpuMemoryUse | None:
        """The parts of the memory by the lower bound of the KV cache; None where a sequence may not fit."""
        request = self._request
        longest = int(memory.longest_context.lower[0])
        if longest < request.longest_tokens:
            return None
        # Each slot of llama.cpp has room for the longest request.
        has_slots = request.engine is LlmEngine.LLAMA_CPP
        most = memory.most_sequences(request.longest_tokens if has_slots else request.request_tokens)
        return GpuMemoryUse(
            weights_gib=float(memory.weights_gib[0]),
            kv_gib=float(memory.kv_gib.lower[0]),
            overhead_gib=float(memory.overhead_gib[0]),
            free_gib=float(memory.free_gib[0]),
            largest_concurrency=min(int(most.lower[0]), self._most_sequences),
            longest_context=longest,
        )

    def misfit_reason(self, card: GpuFacts, precision: LlmPrecision, way: _Split) -> tuple[str, Message]:
        """The reason ("kv" or "weights") and the text why a split does not fit."""
        split, (memory, _) = way[0] * way[1], self.fits(card, precision)[way]
        if memory.kv_gib.lower[0] > 0:
            return "kv", Message(
                "beside the weights its memory holds a sequence of {longest:,.0f} tokens, not {needed:,}",
                code="kv",
                longest=float(memory.longest_context.lower[0]),
                needed=self._request.longest_tokens,
            )
        return "weights", Message(
            (_NO_ROOM_ON_EACH if split > 1 else _NO_ROOM).text,
            code="weights",
            needed=float(memory.weights_gib[0] + memory.overhead_gib[0]),
            available=card.memory_gib,
            gpu=card.name,
            gpus=split,
        )


def gib_to_read(weights_gib: float, memory_mib: float, replicas: int) -> float:
    """GiB of weights to read: once where RAM caches them for the other replicas, else once per replica."""
    kept = weights_gib * 1024 <= _CACHED_SHARE * memory_mib
    return weights_gib if kept else replicas * weights_gib


def ready_time(mib_per_second: float | None, gib: float, gpus: int) -> ReadyTime:
    """Seconds to read the weights from a disk for `gpus` GPUs and to start the engine."""
    load = load_seconds(1024 * gib, mib_per_second or math.inf, gpus)
    return ReadyTime(
        load_seconds=load.median, start_seconds=START.median, upper_seconds=load.plus(START).upper
    )


def ready_disk(
    request: ServingQuestion, catalog: Catalog, offer: Offer, weights_gib: float, *, gib: float, gpus: int
) -> tuple[Disk, ReadyTime] | Rejected:
    """The cheapest disk with which the model serves in time by the upper bound, and these times, or a
    rejection. `gib` are read by `gpus` GPUs; the disk has no more rate than the limit takes."""
    disks = disks_by_price(request, catalog, offer, weights_gib)
    if isinstance(disks, Rejected):
        return disks

    def ready(disk: Disk) -> ReadyTime:
        return ready_time(disk.rate.read_mib_per_second, gib, gpus)

    limit = request.max_ready_seconds or USUAL_READY_SECONDS
    start = ready_time(None, 0.0, gpus).upper_seconds
    if request.disk is None and start < limit < ready(disks[0]).upper_seconds:
        # The disk binds: half the rate takes twice as long.
        at_one = ready_time(1.0, gib, gpus).upper_seconds - start
        disks += least_disks(catalog, offer, disks, weights_gib, at_one / (limit - start))
    in_time = [disk for disk in disks if ready(disk).upper_seconds <= limit]
    if in_time:
        best = min(in_time, key=lambda disk: disk.usd_per_hour)
    else:
        best = min(disks, key=lambda disk: (ready(disk).upper_seconds, disk.usd_per_hour))
    if in_time or request.max_ready_seconds is None:
        return best, ready(best)
    return rejected_offer(
        offer,
        "ready",
        Message(
            "it serves after up to {seconds:,g} s with its fastest disk, above {limit:,g} s",
            code="ready",
            seconds=ceil_significant(ready(best).upper_seconds),
            limit=limit,
        ),
    )


def serving_memory_of(
    request: ServingQuestion, catalog: Catalog, model: LanguageModel, cards: Sequence[Gpu]
) -> ServingMemoryAnswer:
    """The memory of the longest sequence on each card, split as requested or over the fewest cards."""
    require_possible(request, model)
    served = ServedModel(catalog, model)
    finder = OptionFinder(request, served)
    precision = finder.usual_precision
    kv_precision = kv_precision_of(request, precision)
    return ServingMemoryAnswer(
        model=model.name,
        precision=precision,
        kv_precision=kv_precision,
        engine=request.engine,
        context_tokens=request.longest_tokens,
        weights_gib=weight_gib(model, precision, request.engine),
        kv_bytes_per_token=kv_bytes_per_token(model, kv_precision),
        gpus=tuple(_memory_on_card(finder, served.cards.of(card)) for card in cards),
    )


def _memory_on_card(finder: OptionFinder, card: GpuFacts) -> SplitMemory:
    """The memory on one kind of card, over the fewest that hold it, even if no instance has so many."""
    precision = finder.precision_on(card)
    why: Message | str = precision
    split, use = 1, None
    if not isinstance(precision, Message):
        fits = finder.fits(card, precision)
        splits = {split: use for (split, ranks), (_, use) in fits.items() if ranks == 1}
        split, use = next(((split, use) for split, use in splits.items() if use), (max(splits), None))
        why = "" if use else finder.misfit_reason(card, precision, (split, 1))[1]
    return SplitMemory(
        gpu=card.name,
        gpu_memory_gib=card.memory_gib,
        precision=finder.usual_precision if isinstance(precision, Message) else precision,
        tensor_parallel=split,
        use=use,
        why_not=why,
    )
