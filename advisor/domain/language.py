"""Records of answers about instances that serve a language model, or tune one."""

from __future__ import annotations

import math
from typing import Generic, TypeVar

from msgspec import Struct

from advisor.domain.decision import AnyQuestion, Judged, Text
from advisor.domain.machines import InstanceType
from advisor.domain.money import Price, Spec
from advisor.domain.results import Span, Withheld
from advisor.domain.words import KvPrecision, Link, LlmEngine, LlmMethod, LlmPrecision, ServingBind, StepKind

MILLION = 1e6
# Sequences that one replica takes in at once at most: vLLM's `--max-num-seqs` of large GPUs.
MOST_SEQUENCES = 512
# Slots that llama.cpp's server is asked for at most (`--parallel`): rows are of one request at a time, and
# what is told of more is the less sure the more there are.
_LLAMA_SLOTS = 32


def most_sequences(engine: LlmEngine) -> int:
    """Sequences that one replica of an engine takes in at once, as an answer starts it."""
    return _LLAMA_SLOTS if engine is LlmEngine.LLAMA_CPP else MOST_SEQUENCES


class ServingPlacement(Struct, frozen=True, kw_only=True):
    """The placement of a model on one instance: `replicas` of it, each split over `tensor_parallel` GPUs,
    which are joined by `link`; or in `ranks` of so many, which share the experts alone and have requests of
    their own (attention data parallel, expert parallel). With several `nodes` as many instances have one
    replica together, some layers each: at any time every instance works on requests of its own."""

    tensor_parallel: int
    replicas: int
    link: Link = Link.NONE
    nodes: int = 1
    ranks: int = 1

    @property
    def width(self) -> int:
        """GPUs of one replica on an instance."""
        return self.tensor_parallel * self.ranks

    @property
    def gpus_used(self) -> int:
        """GPUs of one instance that work."""
        return self.width * self.replicas

    @property
    def batches(self) -> int:
        """Batches that an instance works on at once, each of other requests."""
        return self.ranks * self.replicas


class GpuMemoryUse(Struct, frozen=True, kw_only=True):
    """The parts of each GPU's memory, in GiB, and the room that they leave.

    `kv_gib` is the whole KV cache, `free_gib` what the engine leaves alone. `largest_concurrency` counts
    whole mean requests of one replica, `longest_context` is one sequence's alone: both by the lower bound of
    the cache."""

    weights_gib: float
    kv_gib: float
    overhead_gib: float
    free_gib: float
    largest_concurrency: int
    longest_context: int


class ServingRates(Struct, frozen=True, kw_only=True):
    """The rates of a spec with `concurrency` requests in flight on all of it.

    Rates are of all instances together, times are means of one request in seconds; `tpot_seconds` is without
    the first token. `tails` has TTFT, TPOT and whole requests at each of `PERCENTILES`, as bounds of requests
    that differ by chance and length."""

    concurrency: float
    output_tokens_per_second: Span
    requests_per_second: Span
    ttft_seconds: Span
    tpot_seconds: Span
    e2e_seconds: Span
    tails: tuple[tuple[Span, ...], ...] = ()

    @property
    def output_tokens_per_second_per_user(self) -> Span:
        """Rate of one request in flight, once its first token is there."""
        tpot = self.tpot_seconds
        return Span(lower=1 / tpot.upper, median=1 / tpot.median, upper=1 / tpot.lower)


class ReadyTime(Struct, frozen=True, kw_only=True):
    """Median seconds from the start of the engine to its first answer: reading the weights, and
    what the engine does beside that. `upper_seconds` is the upper bound of both together."""

    load_seconds: float
    start_seconds: float
    upper_seconds: float

    @property
    def seconds(self) -> float:
        """Seconds of both, one after the other."""
        return self.load_seconds + self.start_seconds


class GenerationCandidate(Struct, frozen=True, kw_only=True):
    """A spec with the way the model lies on it, and what is predicted of it.

    `rates` are at the load that is asked for, `most` at the largest one that keeps every limit.
    `offered_requests_per_second` is the target where requests arrive by themselves: then the times of `rates`
    hold at that rate. `calibrated` is False where no held-out rows back the bounds."""

    spec: Spec
    placement: ServingPlacement
    model: str
    precision: LlmPrecision
    kv_precision: KvPrecision
    engine: LlmEngine
    engine_version: str
    input_tokens: float
    output_tokens: float
    memory: GpuMemoryUse
    rates: ServingRates
    most: ServingRates
    ready: ReadyTime
    binds: ServingBind
    offered_requests_per_second: float | None = None
    calibrated: bool = True
    extrapolation: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()
    probability: float | None = None
    withheld: Withheld | None = None
    api_usd_per_million_tokens: float | None = None
    target_output_tokens_per_second: float | None = None

    @property
    def tokens_per_day_of_api(self) -> float | None:
        """Tokens a day, in and out together, from which on the spec costs less than the API."""
        each = self.api_usd_per_million_tokens
        return None if each is None else 24 * self.spec.total_usd_per_hour / each * MILLION

    @property
    def most_tokens_per_day(self) -> float:
        """What the spec serves a day at the most, in and out together, at the median."""
        return self._tokens_per_day(self.most)

    @property
    def asked_tokens_per_day(self) -> float:
        """What the question asks of it, in and out together, if that goes on all day: its target, else what
        is served at its load."""
        target = self.target_output_tokens_per_second
        if target is not None:
            return 86400 * target * (1 + self.input_tokens / self.output_tokens)
        return self._tokens_per_day(self.rates)

    def _tokens_per_day(self, rates: ServingRates) -> float:
        return 86400 * rates.requests_per_second.median * (self.input_tokens + self.output_tokens)

    @property
    def sure_share(self) -> float:
        """Lower bound of the rate over its median. What arrives by itself is the rate at any bound;
        then it is the share of a request's time, which in a closed loop is the same."""
        if self.offered_requests_per_second is not None:
            time = self.rates.e2e_seconds
            return time.median / time.upper if math.isfinite(time.upper) else 0.0
        return self.rates.output_tokens_per_second.sure_share

    @property
    def usd_per_million_output_tokens(self) -> Span:
        """The whole price over the output alone, at `rates`."""
        return self._usd_per_million(1.0)

    @property
    def usd_per_million_input_tokens(self) -> Span:
        """The whole price over the input alone, at `rates`."""
        return self._usd_per_million(self.input_tokens / self.output_tokens)

    @property
    def usd_per_million_tokens(self) -> Span:
        """The price over input and output together, at `rates`."""
        return self._usd_per_million(1.0 + self.input_tokens / self.output_tokens)

    def _usd_per_million(self, tokens_per_output_token: float) -> Span:
        usd = self.spec.total_usd_per_hour / 3600 * MILLION / tokens_per_output_token
        rate = self.rates.output_tokens_per_second
        lower, median, upper = (
            usd / bound if bound > 0 else math.inf for bound in (rate.upper, rate.median, rate.lower)
        )
        return Span(lower=lower, median=median, upper=upper)


class FrontPoint(Struct, frozen=True, kw_only=True):
    """One way to run the chosen instances: the times of a request and the rate of all, none of which another
    way beats in both, with the chosen way at its load. `misses` is "limit", "target" or nothing."""

    placement: ServingPlacement
    rates: ServingRates
    usd_per_million_output_tokens: Span
    misses: str


class ServingStep(Struct, frozen=True, kw_only=True):
    """The gain of one step more. `option` asks for it (empty: nothing to ask with); `gives` is the chosen
    candidate with it, None where it does not run, for the reason `why_not`; `instead` is what would be chosen
    with it, where that is another spec and costs clearly less."""

    kind: StepKind
    option: str
    gives: GenerationCandidate | None
    why_not: Text = ""
    instead: GenerationCandidate | None = None


class GenerationRecommendation(Judged[AnyQuestion, GenerationCandidate], frozen=True, kw_only=True):
    """The answer about serving; without a target ranked by the cost of output tokens.

    `front` is of the chosen instances, the fastest answers first; `steps` are of the chosen one."""

    front: tuple[FrontPoint, ...] = ()
    steps: tuple[ServingStep, ...] = ()


P = TypeVar("P", "GenerationCandidate", "FineTuningCandidate")


class NamedInstance(Struct, Generic[P], frozen=True, kw_only=True):
    """One named instance with a language model on it; with `price` None, where none is known, its spec has a
    price of 0 and no costs are told."""

    candidate: P
    price: Price | None
    assumptions: tuple[Text, ...] = ()
    warnings: tuple[Text, ...] = ()

    @property
    def instance(self) -> InstanceType:
        """The type of the offer."""
        return self.candidate.spec.offer.instance

    @property
    def region(self) -> str:
        """The region of the offer."""
        return self.candidate.spec.offer.region


class ServingPrediction(NamedInstance[GenerationCandidate], frozen=True, kw_only=True):
    """One that serves, at each load that fits: `candidate` is at the load that is asked for; `front` is as
    in a recommendation."""

    front: tuple[FrontPoint, ...] = ()
    steps: tuple[ServingStep, ...] = ()


class SplitMemory(Struct, frozen=True, kw_only=True):
    """The memory of a model on each GPU of one kind, split over `tensor_parallel` of them; `use` None: it
    does not fit, for the reason `why_not`. `precision` is the format that this GPU computes."""

    gpu: str
    gpu_memory_gib: float
    precision: LlmPrecision
    tensor_parallel: int
    use: GpuMemoryUse | None
    why_not: Text = ""


class ServingMemoryAnswer(Struct, frozen=True, kw_only=True):
    """Memory of a served model on GPUs, smallest first; `weights_gib` is the whole model's.

    A GPU has the narrowest split that fits, or the split that was asked for."""

    model: str
    precision: LlmPrecision
    kv_precision: KvPrecision
    engine: LlmEngine
    context_tokens: int
    weights_gib: float
    kv_bytes_per_token: float
    gpus: tuple[SplitMemory, ...]


class TuningMemoryUse(Struct, frozen=True, kw_only=True):
    """The parts of each GPU's memory while it tunes, in GiB."""

    weights_gib: float
    gradients_gib: float
    optimizer_gib: float
    activations_gib: float
    overhead_gib: float
    free_gib: float


class FineTuningCandidate(Struct, frozen=True, kw_only=True):
    """A spec that tunes, with all GPUs of its instance that are used; `precision` is what they compute."""

    spec: Spec
    model: str
    method: LlmMethod
    gpus_used: int
    link: Link
    micro_batch: int
    checkpointing: bool
    memory: TuningMemoryUse
    tokens_per_second: Span
    precision: LlmPrecision = LlmPrecision.BF16
    hours: Span
    calibrated: bool = True
    extrapolation: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()
    probability: float | None = None
    withheld: Withheld | None = None

    @property
    def sure_share(self) -> float:
        """Lower bound of the rate over its median."""
        return self.tokens_per_second.sure_share

    @property
    def usd_per_run(self) -> Span:
        """Cost of the whole run, instance and disk together."""
        return self.hours.times(self.spec.total_usd_per_hour)


class TuningPrediction(NamedInstance["FineTuningCandidate"], frozen=True, kw_only=True):
    """One that tunes."""


class TunedMemory(Struct, frozen=True, kw_only=True):
    """GPU memory of tuning on `gpus` equal GPUs; `use` None: it does not fit, `why_not` says why."""

    gpu: str
    gpu_memory_gib: float
    gpus: int
    micro_batch: int
    checkpointing: bool
    use: TuningMemoryUse | None
    why_not: Text = ""


class TuningMemoryAnswer(Struct, frozen=True, kw_only=True):
    """Memory of a tuned model on GPUs, smallest first."""

    model: str
    method: LlmMethod
    sequence: int
    gpus: tuple[TunedMemory, ...]


class FineTuningRecommendation(Judged[AnyQuestion, FineTuningCandidate], frozen=True, kw_only=True):
    """The answer about tuning; ranked by the price by the hour for a target, else by the run's."""
