"""Records of answers about instances that serve a language model, or tune one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Generic, TypeVar

from msgspec import Struct

from advisor.domain.decision import AnyQuestion, Judged, Text
from advisor.domain.machines import InstanceType
from advisor.domain.money import Price, Spec
from advisor.domain.results import Span, Withheld
from advisor.domain.words import KvPrecision, Link, LlmEngine, LlmMethod, LlmPrecision, ServingBind, StepKind

MILLION = 1e6
# Most sequences that one replica works on at once: vLLM's `--max-num-seqs` for large GPUs.
MOST_SEQUENCES = 512
# Most slots of llama.cpp's server (`--parallel`). Measured rows have one request at a time, so predictions
# get less certain with every further slot.
_LLAMA_SLOTS = 32


def most_sequences(engine: LlmEngine) -> int:
    """Most sequences that one replica of an engine works on at once, as an answer starts the engine."""
    return _LLAMA_SLOTS if engine is LlmEngine.LLAMA_CPP else MOST_SEQUENCES


class ServingPlacement(Struct, frozen=True, kw_only=True):
    """The placement of a model on one instance: `replicas` copies, each split over `tensor_parallel` GPUs
    that `link` joins. With `ranks`, a replica has so many such groups, which share only the experts and serve
    different requests (attention data parallel, expert parallel). With `nodes`, a replica spans so many
    instances, some layers on each; at any time each works on different requests."""

    tensor_parallel: int
    replicas: int
    link: Link = Link.NONE
    nodes: int = 1
    ranks: int = 1

    @property
    def width(self) -> int:
        """GPUs of one replica on one instance."""
        return self.tensor_parallel * self.ranks

    @property
    def gpus_used(self) -> int:
        """GPUs in use on one instance."""
        return self.width * self.replicas

    @property
    def batches(self) -> int:
        """Batches of different requests that one instance works on at once."""
        return self.ranks * self.replicas


class GpuMemoryUse(Struct, frozen=True, kw_only=True):
    """The parts of each GPU's memory in GiB, and the load that fits. `kv_gib` is the whole KV cache,
    `free_gib` what the engine leaves unused. `largest_concurrency` counts mean requests that fit one replica
    at once; `longest_context` is for one sequence alone. Both use the lower bound of the cache."""

    weights_gib: float
    kv_gib: float
    overhead_gib: float
    free_gib: float
    largest_concurrency: int
    longest_context: int


class ServingRates(Struct, frozen=True, kw_only=True):
    """The rates of a spec with `concurrency` requests in flight on all its instances. Rates are for all
    instances together, times are means of one request in seconds; `tpot_seconds` excludes the first token.
    `tails` has bounds of TTFT, TPOT and whole requests at each of `PERCENTILES`, for requests whose lengths
    vary."""

    concurrency: float
    output_tokens_per_second: Span
    requests_per_second: Span
    ttft_seconds: Span
    tpot_seconds: Span
    e2e_seconds: Span
    tails: tuple[tuple[Span, ...], ...] = ()

    @property
    def output_tokens_per_second_per_user(self) -> Span:
        """Output tokens per second of one request in flight, after its first token."""
        tpot = self.tpot_seconds
        return Span(lower=1 / tpot.upper, median=1 / tpot.median, upper=1 / tpot.lower)


class ReadyTime(Struct, frozen=True, kw_only=True):
    """Median seconds from the start of the engine to its first answer: for reading the weights, and for the
    rest of the start. `upper_seconds` is the upper bound of the sum."""

    load_seconds: float
    start_seconds: float
    upper_seconds: float

    @property
    def seconds(self) -> float:
        """Median seconds of both parts together."""
        return self.load_seconds + self.start_seconds


class GenerationCandidate(Struct, frozen=True, kw_only=True):
    """A spec that serves a language model, with placement, memory and predicted rates. `rates` are at the
    load of the question, `most` at the largest load that keeps every limit. If requests arrive by themselves,
    `offered_requests_per_second` is the target, and the times in `rates` hold at that rate. `calibrated` is
    False where no held-out rows back the bounds."""

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
        """Tokens a day, in and out together, above which the spec costs less than the API."""
        each = self.api_usd_per_million_tokens
        return None if each is None else 24 * self.spec.total_usd_per_hour / each * MILLION

    @property
    def most_tokens_per_day(self) -> float:
        """Most tokens a day that the spec serves, in and out together, at the median."""
        return self._tokens_per_day(self.most)

    @property
    def asked_tokens_per_day(self) -> float:
        """Tokens a day of the question's load, in and out together: of its target, else what the spec
        serves."""
        target = self.target_output_tokens_per_second
        if target is not None:
            return 86400 * target * (1 + self.input_tokens / self.output_tokens)
        return self._tokens_per_day(self.rates)

    def _tokens_per_day(self, rates: ServingRates) -> float:
        return 86400 * rates.requests_per_second.median * (self.input_tokens + self.output_tokens)

    @property
    def sure_share(self) -> float:
        """Lower bound of the rate over its median. Where requests arrive by themselves the rate is the target
        at any bound, so this is that ratio of a request's time, which in a closed loop is equal."""
        if self.offered_requests_per_second is not None:
            time = self.rates.e2e_seconds
            return time.median / time.upper if math.isfinite(time.upper) else 0.0
        return self.rates.output_tokens_per_second.sure_share

    @property
    def usd_per_million_output_tokens(self) -> Span:
        """The whole price per million output tokens at `rates`; input does not count."""
        return self._usd_per_million(1.0)

    @property
    def usd_per_million_input_tokens(self) -> Span:
        """The whole price per million input tokens at `rates`; output does not count."""
        return self._usd_per_million(self.input_tokens / self.output_tokens)

    @property
    def usd_per_million_tokens(self) -> Span:
        """The price per million tokens at `rates`, input and output together."""
        return self._usd_per_million(1.0 + self.input_tokens / self.output_tokens)

    def _usd_per_million(self, tokens_per_output_token: float) -> Span:
        usd = self.spec.total_usd_per_hour / 3600 * MILLION / tokens_per_output_token
        rate = self.rates.output_tokens_per_second
        lower, median, upper = (
            usd / bound if bound > 0 else math.inf for bound in (rate.upper, rate.median, rate.lower)
        )
        return Span(lower=lower, median=median, upper=upper)


class FrontPoint(Struct, frozen=True, kw_only=True):
    """One way to run the chosen instances, which no other beats in both a request's times and the total rate;
    the chosen way at its load is always a point. `misses` says of "target", "ttft", "tpot" and "e2e" which it
    misses: by its "median", or by its "bound" alone."""

    placement: ServingPlacement
    rates: ServingRates
    usd_per_million_output_tokens: Span
    misses: Mapping[str, str]


class ServingStep(Struct, frozen=True, kw_only=True):
    """The gain of one changed setting. `option` asks for it (empty: there is none). `gives` is the chosen
    candidate with it, None where it does not run, for the reason `why_not`; `instead` is the spec that would
    be chosen with it, where that is another one and costs clearly less."""

    kind: StepKind
    option: str
    gives: GenerationCandidate | None
    why_not: Text = ""
    instead: GenerationCandidate | None = None


class GenerationRecommendation(Judged[AnyQuestion, GenerationCandidate], frozen=True, kw_only=True):
    """The answer about serving; without a target it is ranked by the cost of output tokens. `front` is for
    the chosen instances, fastest answers first; `steps` are for the chosen candidate."""

    front: tuple[FrontPoint, ...] = ()
    steps: tuple[ServingStep, ...] = ()


P = TypeVar("P", "GenerationCandidate", "FineTuningCandidate")


class NamedInstance(Struct, Generic[P], frozen=True, kw_only=True):
    """One named instance with a language model on it. `price` is None where none is known; then the spec's
    price is 0 and no costs are shown."""

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
    """A named instance that serves, with `front` and `steps` as in a recommendation; `candidate` is at the
    load of the question."""

    front: tuple[FrontPoint, ...] = ()
    steps: tuple[ServingStep, ...] = ()


class SplitMemory(Struct, frozen=True, kw_only=True):
    """The memory of a model on each of `tensor_parallel` GPUs of one kind; `use` None: it does not fit, for
    the reason `why_not`. `precision` is the format in which this GPU computes."""

    gpu: str
    gpu_memory_gib: float
    precision: LlmPrecision
    tensor_parallel: int
    use: GpuMemoryUse | None
    why_not: Text = ""


class ServingMemoryAnswer(Struct, frozen=True, kw_only=True):
    """Memory of a served model on GPUs, smallest first; `weights_gib` is the whole model's. Each GPU has the
    narrowest split that fits, or the split of the question."""

    model: str
    precision: LlmPrecision
    kv_precision: KvPrecision
    engine: LlmEngine
    context_tokens: int
    weights_gib: float
    kv_bytes_per_token: float
    gpus: tuple[SplitMemory, ...]


class TuningMemoryUse(Struct, frozen=True, kw_only=True):
    """The parts of each GPU's memory during tuning, in GiB."""

    weights_gib: float
    gradients_gib: float
    optimizer_gib: float
    activations_gib: float
    overhead_gib: float
    free_gib: float


class FineTuningCandidate(Struct, frozen=True, kw_only=True):
    """A spec that tunes on `gpus_used` of its instance's GPUs; `precision` is what they compute in, and where
    `link_bound`, they exchange for longer than they compute."""

    spec: Spec
    model: str
    method: LlmMethod
    gpus_used: int
    link: Link
    link_bound: bool = False
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
    """A named instance that tunes."""


class TunedMemory(Struct, frozen=True, kw_only=True):
    """GPU memory of tuning on `gpus` equal GPUs; `use` None: it does not fit, for the reason `why_not`."""

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
    """The answer about tuning, ranked by hourly price for a target, else by the run's cost."""
