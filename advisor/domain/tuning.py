"""Records of answers about instances that tune a language model."""

from __future__ import annotations

from msgspec import Struct

from advisor.domain.decision import AnyQuestion, Judged, Text
from advisor.domain.generation import Link, LlmMethod
from advisor.domain.money import Price, Spec
from advisor.domain.results import Withheld
from advisor.domain.runs import Span


class TuningMemoryUse(Struct, frozen=True, kw_only=True):
    """The parts of each GPU's memory while it tunes, in GiB."""

    weights_gib: float
    gradients_gib: float
    optimizer_gib: float
    activations_gib: float
    overhead_gib: float
    free_gib: float


class FineTuningCandidate(Struct, frozen=True, kw_only=True):
    """A spec that tunes, with all GPUs of its instance that are used."""

    spec: Spec
    model: str
    method: LlmMethod
    gpus_used: int
    link: Link
    micro_batch: int
    checkpointing: bool
    memory: TuningMemoryUse
    tokens_per_second: Span
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


class TuningPrediction(Struct, frozen=True, kw_only=True):
    """One named instance that tunes; `price` None where none is known: its spec then has a price of
    0 and no costs are told."""

    candidate: FineTuningCandidate
    price: Price | None
    assumptions: tuple[Text, ...] = ()
    warnings: tuple[Text, ...] = ()


class TunedMemory(Struct, frozen=True, kw_only=True):
    """The memory of tuning on each of `gpus` GPUs of one kind; `use` None: it does not fit, for the
    reason `why_not`."""

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
