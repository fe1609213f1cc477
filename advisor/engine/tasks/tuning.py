"""The task of tuning a language model: the instance whose run costs least."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from math import inf
from typing import NamedTuple

import numpy as np

from advisor.catalog import Catalog, used_gpus
from advisor.catalog.gpus import gpu_link
from advisor.domain import Change, Disk, Gpu, Offer, Rejected, Relaxation, Spec
from advisor.domain.language import (
    FineTuningCandidate,
    FineTuningRecommendation,
    TunedMemory,
    TuningMemoryAnswer,
    TuningMemoryUse,
    TuningPrediction,
)
from advisor.domain.results import ALONE, DECIDES, START, Span
from advisor.domain.words import Link, LlmMethod, LlmPrecision, Protocol
from advisor.engine.assumptions import assumed_facts, ranking_assumptions, start_assumption
from advisor.engine.candidates import rejected_offer
from advisor.engine.columns import Floats, Level, OptionTable
from advisor.engine.constraints import Amount, Choice, Constraint, constraints_of
from advisor.engine.disks import disks_by_price
from advisor.engine.limits import Aim, Limit, level_of, term_factor, terms_of
from advisor.engine.rejected import plain_shortfall, run_shortfall
from advisor.engine.tasks.language import (
    Cards,
    JudgedOffer,
    LanguageOptions,
    LanguageTask,
    language_warnings,
    options_of_types,
    other_choices,
    ram_shortage,
    require_tokens,
)
from advisor.messages import FieldName, Message, floor_rate
from advisor.models.language.config_values import uncovered
from advisor.models.language.deployments import GpuFacts
from advisor.models.language.finetuning.predictor import (
    FineTuningPredictor,
    Settled,
    least_memory,
    unsupported,
)
from advisor.models.language.finetuning.tuning import ADAPTER_RANK, STEP_SEQUENCES, Checkpointing, FineTuning
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.memory import card_gib, weight_gib
from advisor.models.language.support import load_seconds
from advisor.questions.fields import error_in
from advisor.questions.language import TuningQuestion
from advisor.questions.spec import start_hours

# Counts of GPUs that share a run, besides all of an instance; `memory` shows up to the eight of a host.
_COUNTS, _COUNTS_OF_A_HOST = (1, 2, 4, 8, 16), (1, 2, 4, 8)
# Each method takes less memory than the one before.
_METHODS = (LlmMethod.FULL, LlmMethod.LORA, LlmMethod.QLORA)
# RAM that a run takes, assumed and not measured: the system, a process for each GPU with CUDA's
# libraries, and a file of weights of the usual 5 GB.
_BASE_GIB, _PROCESS_GIB = 8.0, 3.0
# The limits of a question by the reason for which they reject.
_REASONS = {"too_long": "max_hours", "over_max_cost": "max_run_usd", "over_max_price": "max_usd_per_hour"}
# The part of a tuning that depends on the offer: card, number of GPUs, and the link between them.
_Key = tuple[GpuFacts, int, str]


class TuningOption(NamedTuple):
    """The fastest way to tune on one instance of an offer with a disk. `rates` are tokens per second of all
    GPUs used: lower bound, median, upper bound. In `load_hours` the weights are stored on the disk and read
    from it."""

    offer: Offer
    disk: Disk
    settled: Settled
    rates: Sequence[float]
    calibrated: bool
    notes: tuple[Message, ...]
    load_hours: float


TuningOptions = LanguageOptions[TuningOption]


class TuningTable(OptionTable[TuningOption], frozen=True, kw_only=True):
    """Options as columns (n,); rates, hours and dollars are (3, n) by `Level`."""

    @property
    def rates(self) -> Floats:
        """Tokens per second (3, n)."""
        return np.array([option.rates for option in self.options]).T

    def hours(self, request: TuningQuestion) -> Floats:
        """Hours (3, n) of the run and its start, with loading unless the request gives the start's length."""
        load = np.array([option.load_hours * (request.start_minutes is None) for option in self.options])
        return np.asarray(start_hours(request) + load + request.tokens / self.rates / 3600)

    def run_usd(self, request: TuningQuestion) -> Floats:
        """Dollars (3, n) of the run."""
        return np.asarray(self.hours(request) * self.usd)


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
    not_of_options = ("target_tokens_per_second", "max_hours", "max_run_usd", "start_minutes")

    def __init__(self, catalog: Catalog, model: LanguageModel, predictor: FineTuningPredictor) -> None:
        super().__init__(catalog, model)
        self.predictor, self.cards = predictor, Cards(catalog)

    def require_possible(self, request: TuningQuestion) -> None:
        """Raises `UsageError` for layers that the tuning formulas do not cover, runs of less than a sequence,
        and sequences that are longer than the model takes."""
        if self.model.mixed:
            raise uncovered(self.model.name, "tuned")
        if request.tokens < request.sequence:
            raise error_in(
                "tokens",
                "{tokens:,g} tokens are less than one sequence of {sequence:,}",
                tokens=request.tokens,
                sequence=request.sequence,
                hint=Message("did you mean {tokens:g}M?", tokens=request.tokens),
            )
        require_tokens(self.model, request.sequence, "sequence", Message("ask for {field} {most} or less"))

    def options_on(self, request: TuningQuestion, judged: Sequence[JudgedOffer]) -> TuningOptions:
        """The fastest option of each offer, whatever the target; all are predicted in one call."""
        offers = [offer for offer, notes in judged if not isinstance(notes, Rejected)]
        keys = {id(offer): self._keys(request, offer) for offer in offers}
        distinct = list(dict.fromkeys(key for some in keys.values() for key in some))
        settled = self.predictor.settled([self._tuning(request, *key) for key in distinct])
        fitting = {key: fit for key, fit in zip(distinct, settled, strict=True) if fit}
        rates, calibrated = dict[_Key, list[float]](), True
        if fitting:
            tunings = [fit.tuning for fit in fitting.values()]
            predicted = self.predictor.tokens_per_second(tunings, request.confidence)
            columns, calibrated = np.array(predicted.tokens_per_second).T, predicted.calibrated
            rates = dict(zip(fitting, columns.tolist(), strict=True))
        # The published weights, and in full tuning what comes of them.
        weights = weight_gib(self.model, LlmPrecision.BF16)
        stored = 2 * weights if request.method == LlmMethod.FULL else weights

        def options_of(offer: Offer, notes: tuple[Message, ...]) -> list[TuningOption] | Rejected:
            tried = keys[id(offer)]
            if not tried:
                why = unsupported_message(self._tuning(request, self.cards.of_offer(offer)))
                return rejected_offer(offer, "unsupported", why)
            fits = [key for key in tried if key in fitting]
            if not fits:
                return rejected_offer(offer, "gpu_memory", misfit_message(self._tuning(request, *tried[-1])))
            small = ram_shortage(offer, _BASE_GIB + _PROCESS_GIB * tried[-1][1])
            disks = small or disks_by_price(request, self.catalog, offer, stored)
            if isinstance(disks, Rejected):
                return disks
            # GPUs that do not help stay unused: of equal rates the fewest GPUs.
            best = max(fits, key=lambda key: rates[key][Level.MEDIAN])
            return [
                TuningOption(
                    *(offer, disk, fitting[best], rates[best], calibrated, notes),
                    load_seconds(2 * 1024 * weights, disk.rate.read_mib_per_second or inf, best[1]).median
                    / 3600,
                )
                for disk in disks
            ]

        options, rejected = options_of_types(judged, options_of)
        return TuningOptions(options, rejected, len(judged))

    def _tuning(
        self, request: TuningQuestion, card: GpuFacts, gpus: int = 1, link: str = "none"
    ) -> FineTuning:
        """The tuning of the request on a number of cards."""
        settings = (self.model, request.method, request.sequence, request.micro_batch)
        return FineTuning(*settings, card, gpus, link, protocol=request.protocol)

    def _keys(self, request: TuningQuestion, offer: Offer) -> list[_Key]:
        """Numbers of GPUs to try, ascending; none where the card cannot tune."""
        card = self.cards.of_offer(offer)
        if unsupported(self._tuning(request, card)):
            return []
        gpus, link = used_gpus(offer.instance, request.max_gpus), gpu_link(offer.instance)
        counts = sorted({count for count in _COUNTS if count < gpus} | {gpus})
        return [(card, count, link.among(count)) for count in counts]

    def predict(self, request: TuningQuestion, options: TuningOptions) -> TuningTable | None:
        return TuningTable.of(options.options) if options.options else None

    def limits(self, request: TuningQuestion, table: TuningTable) -> list[Limit]:
        limits, rates = list[Limit](), table.rates[level_of(request)]
        if not request.allow_extrapolation:
            calibrated = np.array([option.calibrated for option in table.options])
            limits.append(Limit("uncalibrated", calibrated, rates))
        if request.target_tokens_per_second is not None:
            limits.append(Limit.least("too_slow", rates, request.target_tokens_per_second))
        for reason, name in _REASONS.items():
            if (most := getattr(request, name)) is not None:
                limits.append(Limit.most(reason, self.needs(name, request, table), most))
        return limits

    def cost(self, request: TuningQuestion, table: TuningTable, level: Level = Level.MEDIAN) -> Floats:
        """The hourly price where there is a target, else the cost of the run."""
        if request.ranks_by_price:
            return np.asarray(table.usd * terms_of(request, table, request.horizon_hours))
        factor = terms_of(request, table, table.hours(request)[level])
        return np.asarray(table.run_usd(request)[level] * factor)

    def aims(self, request: TuningQuestion, table: TuningTable) -> list[Aim]:
        pace = 1 / table.hours(request)
        aims = (
            (table.rates, request.target_tokens_per_second),
            (pace, request.max_hours and 1 / request.max_hours),
            (pace / table.usd, request.max_run_usd and 1 / request.max_run_usd),
        )
        return [(rates, least) for rates, least in aims if least is not None]

    def candidate_cost(self, request: TuningQuestion, candidate: FineTuningCandidate) -> float:
        cost, hours = candidate.usd_per_run.median, candidate.hours.median
        if request.ranks_by_price:
            cost, hours = candidate.spec.total_usd_per_hour, request.horizon_hours
        return cost * term_factor(request, candidate.spec, hours)

    def rate(self, request: TuningQuestion, table: TuningTable) -> Floats:
        """Tokens per second at the median."""
        return np.asarray(table.rates[Level.MEDIAN])

    def candidate(self, request: TuningQuestion, table: TuningTable, row: int) -> FineTuningCandidate:
        option = table.options[row]
        tuning = option.settled.tuning
        lower, median, upper = table.rates[:, row].tolist()
        longest, usual, shortest = table.hours(request)[:, row].tolist()
        return FineTuningCandidate(
            spec=Spec(offer=option.offer, disk=option.disk, count=1),
            model=request.model,
            method=request.method,
            gpus_used=tuning.gpus,
            link=Link(tuning.link),
            link_bound=self.predictor.is_link_bound(tuning),
            micro_batch=int(tuning.micro_batch or 1),
            checkpointing=tuning.checkpointing != Checkpointing.NONE,
            memory=_memory_use(option.settled),
            tokens_per_second=Span(lower=lower, median=median, upper=upper),
            precision=LlmPrecision.BF16 if tuning.gpu.has_bf16 else LlmPrecision.FP16,
            hours=Span(lower=shortest, median=usual, upper=longest),
            calibrated=option.calibrated,
            extrapolation=self.predictor.unmeasured(tuning),
            notes=option.notes,
            withheld=self.predictor.withheld(tuning),
        )

    def shortfall(self, request: TuningQuestion, table: TuningTable, row: int, reason: str) -> Message:
        if reason == "too_slow":
            lower, median, _ = table.rates[:, row].tolist()
            return Message(
                _TOO_SLOW[level_of(request)].text,
                code=reason,
                p=100 * (1 - request.confidence),
                lower=floor_rate(lower),
                median=floor_rate(median),
                target=request.target_tokens_per_second,
            )
        if reason == "too_long":
            upper, median, _ = table.hours(request)[:, row].tolist()
            return run_shortfall(request, reason, request.max_hours, upper, median)
        if reason == "over_max_cost":
            upper, median, _ = table.run_usd(request)[:, row].tolist()
            return run_shortfall(request, reason, request.max_run_usd, upper, median)
        return plain_shortfall(reason, request.max_usd_per_hour, float(table.usd[row]))

    def assumptions(self, request: TuningQuestion, chosen: FineTuningCandidate | None) -> list[Message]:
        return list(_assumptions(request, chosen))

    def warnings(self, chosen: FineTuningCandidate, today: date) -> tuple[Message | str, ...]:
        gpus = chosen.gpus_used
        return language_warnings(chosen, today, joined_gpus=gpus, used_gpus=gpus)

    def no_trial(self, request: TuningQuestion) -> Message:
        """The reason why no trial can run this request: the sweeps that measure take networks and servers."""
        return Message("none: `advisor verify` does not tune language models")

    def further_relaxations(
        self,
        answer: FineTuningRecommendation,
        answers: Callable[[TuningQuestion], TuningTable | None],
        chosen: Callable[[TuningQuestion], FineTuningCandidate | None],
    ) -> Iterator[Relaxation]:
        """Relaxations to methods that take less memory; with a higher cost limit where none keeps it."""
        request: TuningQuestion = answer.request
        lighter = _METHODS[_METHODS.index(request.method) + 1 :]
        within = list(other_choices(chosen, request, "method", request.method, lighter))
        yield from within
        if within or not request.max_run_usd:
            return
        cost = Amount("max_run_usd", "--max-cost")
        for way in other_choices(chosen, cost.loosened(request), "method", request.method, lighter):
            enough = cost.put(request, cost.rounded(way.gives.usd_per_run.upper))
            before, after = map(cost.text, (request, enough))
            dearer = Change(constraint=cost.name, option=cost.option, before=before, after=after)
            if gives := chosen(enough.replace(method=LlmMethod(str(way.changes[0].after)))):
                yield Relaxation(changes=(*way.changes, dearer), gives=gives)

    def constraints(self, request: TuningQuestion) -> Iterator[Constraint]:
        amounts = (
            Amount("target_tokens_per_second", "--target-throughput", most=False),
            Amount("max_hours", "--max-hours"),
            Amount("max_run_usd", "--max-cost"),
            Amount("max_usd_per_hour", "--max-price"),
        )
        return constraints_of(request, amounts, Choice("micro_batch", "--micro-batch", None))

    def needs(self, name: str, request: TuningQuestion, table: TuningTable) -> Floats:
        level = level_of(request)
        values = {
            "target_tokens_per_second": table.rates[level],
            "max_hours": table.hours(request)[level],
            "max_run_usd": table.run_usd(request)[level],
            "max_usd_per_hour": table.usd,
            "micro_batch": [option.settled.tuning.micro_batch or 1 for option in table.options],
        }
        return np.asarray(values[name], dtype=float)

    def memory(self, request: TuningQuestion, cards: Sequence[Gpu]) -> TuningMemoryAnswer:
        """The memory of a run on each kind of card, over the fewest of them that hold it."""
        self.require_possible(request)
        return TuningMemoryAnswer(
            model=self.model.name,
            method=request.method,
            sequence=request.sequence,
            gpus=tuple(self._memory_on(request, self.cards.of(card)) for card in cards),
        )

    def _memory_on(self, request: TuningQuestion, card: GpuFacts) -> TunedMemory:
        link = "nvlink" if card.nvlink_gb_s else "pcie"
        tunings = [
            self._tuning(request, card, count, link if count > 1 else "none") for count in _COUNTS_OF_A_HOST
        ]
        why = unsupported_message(tunings[0]) if unsupported(tunings[0]) else None
        settled = next(filter(None, [] if why else self.predictor.settled(tunings)), None)
        tuning = settled.tuning if settled else tunings[-1]
        return TunedMemory(
            gpu=card.name,
            gpu_memory_gib=card.memory_gib,
            gpus=tuning.gpus,
            micro_batch=int(tuning.micro_batch or 1),
            checkpointing=tuning.checkpointing != Checkpointing.NONE,
            use=_memory_use(settled) if settled else None,
            why_not="" if settled else why or misfit_message(tuning),
        )


def _memory_use(settled: Settled) -> TuningMemoryUse:
    """The parts of each GPU's memory, as a record for documents."""
    memory = settled.memory
    return TuningMemoryUse(
        weights_gib=memory.weights_gib,
        gradients_gib=memory.gradients_gib,
        optimizer_gib=memory.optimiser_gib,
        activations_gib=memory.activations_gib,
        overhead_gib=memory.overhead_gib,
        free_gib=settled.tuning.gpu.memory_gib - memory.total_gib,
    )


def unsupported_message(tuning: FineTuning) -> Message:
    """The reason why a card cannot tune, whatever its memory."""
    code = unsupported(tuning)
    if code == "no_bf16":
        return Message("no bf16, which full tuning computes in")
    if code == "capability":
        return Message("too old for the libraries that tune")
    return Message("only NVIDIA's GPUs were measured tuning language models")


def misfit_message(tuning: FineTuning) -> Message:
    """The text that the GPU's memory is smaller than what the smallest option needs, and the micro-batch that
    fits where the one of the question does not."""
    needed, available = least_memory(tuning).upper_gib, tuning.gpu.memory_gib
    misfit = Message(_MISFIT[tuning.gpus > 1].text, needed=needed, available=available, gpus=tuning.gpus)
    for size in range((tuning.micro_batch or 1) - 1, 0, -1):
        if least_memory(tuning._replace(micro_batch=size)).fits(card_gib(tuning.gpu.name, available)):
            option = FieldName("micro_batch")
            return Message("{misfit}; it fits with {option} {size}", misfit=misfit, option=option, size=size)
    return misfit


# Texts where the bound decides, and where the median does.
_TOO_SLOW = (
    Message("p{p:.3g} is {lower:,g} tokens/s, below {target:target}"),
    Message("its median is {median:,g} tokens/s, below {target:target}"),
)
# Texts for one GPU, and for several.
_MISFIT = (
    Message("needs up to {needed:,.1f} GiB of GPU memory, has {available:.1f} GiB"),
    Message("needs up to {needed:,.1f} GiB on each of {gpus} GPUs, which have {available:.1f} GiB"),
)


def _assumptions(request: TuningQuestion, chosen: FineTuningCandidate | None) -> Iterator[Message]:
    yield Message("one instance tunes: several that share a run are not modelled", code=ALONE)
    if chosen is not None:
        yield from assumed_facts(request, chosen.spec.offer.instance, chosen.spec.disk)
    if request.protocol is Protocol.SCRIPT:
        yield Message(
            "a typical training script: PyTorch with FSDP or data parallel, not compiled, in 16 bits"
        )
    else:
        yield Message("PyTorch with FSDP or data parallel, compiled, fused attention, in 16 bits")
    if request.method == LlmMethod.FULL:
        yield Message("AdamW with 32-bit weights, gradients and moments")
    else:
        yield Message(
            "{method}: adapters of rank {rank} on every linear layer, AdamW in 32 bits (no option)",
            code=DECIDES,
            method=request.method,
            rank=ADAPTER_RANK,
        )
    yield Message(
        "packed sequences of {sequence:,} tokens ({option}), at least {count} of them in an optimizer step",
        code=DECIDES,
        sequence=request.sequence,
        count=STEP_SEQUENCES,
        option=FieldName("sequence"),
    )
    if request.micro_batch is None and chosen is not None:
        yield Message("micro-batch and checkpointing as fit and are fastest")
    yield _start_assumption(request, chosen)
    yield from ranking_assumptions(request, chosen, Message("cost per run"))


def _start_assumption(request: TuningQuestion, chosen: FineTuningCandidate | None) -> Message:
    """The minutes before any work is done: booting and, unless the question says how long, the weights."""
    boot = 60 * start_hours(request)
    hours = chosen.hours.median - request.tokens / chosen.tokens_per_second.median / 3600 if chosen else 0.0
    load = round(60 * (hours - start_hours(request)))
    if request.start_minutes is not None or load <= 0:
        return start_assumption(request)
    return Message(
        "a start of {minutes:g} min counted ({option}): {boot:g} to boot, {load} to store and read the "
        "weights at the disk's rate (a download may be slower); validation and checkpoints not",
        code=START,
        minutes=boot + load,
        boot=boot,
        load=load,
        option=FieldName("start_minutes"),
    )
