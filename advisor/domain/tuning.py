"""What is asked of instances that tune a language model, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from advisor.domain.decision import Relaxation, Text
from advisor.domain.generation import Link, LlmMethod
from advisor.domain.judged import Judged
from advisor.domain.machines import ANY, Range, require_positive
from advisor.domain.money import HOURS_PER_MONTH, DiskChoice, Price, Spec
from advisor.domain.results import Rejected
from advisor.domain.runs import Span
from advisor.domain.words import Market
from advisor.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuningRequest:
    """One question about tuning a language model on `tokens` tokens, in sequences of `sequence`.

    `micro_batch` counts sequences on each GPU in one pass. `max_hours` and `max_run_usd` limit the
    run by its upper bounds. The rest is as in `GenerationRequest`.
    """

    model: str
    tokens: float
    sequence: int
    method: LlmMethod = LlmMethod.LORA
    micro_batch: int | None = None
    target_tokens_per_second: float | None = None
    max_hours: float | None = None
    max_run_usd: float | None = None
    confidence: float = 0.9
    cloud: str = "aws"
    region: str | None = "us-east-1"
    market: Market = Market.ON_DEMAND
    gpus: tuple[str, ...] = ()
    min_gpu_memory_mib: float | None = None
    max_gpu_memory_mib: float | None = None
    compute_capability: Range = ANY
    vcpus: Range = ANY
    memory_mib: Range = ANY
    max_usd_per_hour: float | None = None
    vcpu_quota: tuple[tuple[str, float], ...] = ()
    disk: DiskChoice | None = None
    disk_types: tuple[str, ...] = ()
    max_gpus: int | None = None
    horizon_hours: float = HOURS_PER_MONTH
    max_results: int = 10
    allow_extrapolation: bool = False

    def __post_init__(self) -> None:
        require_positive(
            tokens=self.tokens,
            sequence=self.sequence,
            micro_batch=self.micro_batch,
            target_tokens_per_second=self.target_tokens_per_second,
            max_hours=self.max_hours,
            max_run_usd=self.max_run_usd,
            min_gpu_memory_mib=self.min_gpu_memory_mib,
            max_gpu_memory_mib=self.max_gpu_memory_mib,
            max_usd_per_hour=self.max_usd_per_hour,
            max_gpus=self.max_gpus,
            horizon_hours=self.horizon_hours,
            max_results=self.max_results,
        )
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"confidence must lie in 0.5..1, not {self.confidence}")
        if self.disk is not None and self.disk_types:
            raise ValueError("disk fixes what disk_types leaves open: give one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningMemoryUse:
    """What lies in the memory of each GPU while it tunes, in GiB."""

    weights_gib: float
    gradients_gib: float
    optimizer_gib: float
    activations_gib: float
    overhead_gib: float
    free_gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuningCandidate:
    """A spec that tunes, with all GPUs of its instance that are used."""

    spec: Spec
    model: str
    method: LlmMethod
    gpus_used: int
    link: Link
    micro_batch: int
    checkpointing: bool
    sharded: bool = False
    memory: TuningMemoryUse
    tokens_per_second: Span
    hours: Span
    calibrated: bool = True
    extrapolation: tuple[Text, ...] = ()
    note: str = ""

    @property
    def usd_per_run(self) -> Span:
        """Cost of the whole run, instance and disk together."""
        return self.hours.times(self.spec.total_usd_per_hour)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningPrediction:
    """One named instance that tunes; `price` None where none is known: its spec then has a price of
    0 and no costs are told."""

    candidate: FineTuningCandidate
    price: Price | None
    assumptions: tuple[Text, ...] = ()
    warnings: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedMemory:
    """What tuning takes of each of `gpus` GPUs of one kind; `use` None: it does not fit, for the
    reason `why_not`."""

    gpu: str
    gpu_memory_gib: float
    gpus: int
    micro_batch: int
    checkpointing: bool
    use: TuningMemoryUse | None
    why_not: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningMemoryAnswer:
    """Memory of a tuned model on GPUs, smallest first."""

    model: str
    method: LlmMethod
    sequence: int
    gpus: tuple[TunedMemory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuningRecommendation(Judged):
    """The answer about tuning; ranked by the price by the hour for a target, else by the run's."""

    request: FineTuningRequest
    ranked: tuple[FineTuningCandidate, ...]
    nearest: FineTuningCandidate | None
    beyond_price: FineTuningCandidate | None = None
    rejected: Sequence[Rejected]
    rejected_counts: Mapping[str, int] | None = None
    offers_considered: int
    assumptions: tuple[Text, ...]
    warnings: tuple[Text, ...]
    today: date
    relaxations: tuple[Relaxation, ...] = ()

    @property
    def chosen(self) -> FineTuningCandidate | None:
        """The cheapest spec that keeps every limit."""
        return self.ranked[0] if self.ranked else None
