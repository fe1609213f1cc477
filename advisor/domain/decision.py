"""What is asked, and what is answered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from advisor.domain.judged import Judged
from advisor.domain.machines import ANY, InstanceType, Range, require_positive
from advisor.domain.money import HOURS_PER_MONTH, Disk, DiskChoice, Price, Spec
from advisor.domain.results import Latency, Prediction, Rejected
from advisor.domain.runs import RunTime, Span
from advisor.domain.words import (
    MEASURABLE_PRECISIONS,
    CloseCallKind,
    Market,
    MemoryFormat,
    Precision,
    Stack,
    Task,
    Tf32,
)
from advisor.domain.workload import IMAGENET, DatasetProfile, Workload
from advisor.records import dataclass

if TYPE_CHECKING:
    from advisor.domain.live import LiveCheck


# A `Message`, which this room does not know, or a plain text; `str` of it is English.
Text = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question. What is None is left to the advisor; `input` None is the network's own.

    `region` None is every region: each type is then taken where it is cheapest. `disk` without a
    size is sized for the data set; `disk_types` leaves these to choose among. `max_latency_ms` is
    one batch's p99, and goes with inference. `epochs` or `samples` says how long a run is, and
    what `max_hours` and `max_run_usd` limit, by their upper bounds. `max_first_epoch_hours` goes
    with training, whose first epoch reads its data from the disk. `horizon_hours` is how long the
    spec is to be paid for: it decides whether a verifying trial pays, and never what is
    recommended. `vcpu_quota` holds pairs of an AWS quota code (as L-DB2E81BA) and the vCPUs of it
    that may still be used; what it does not name is not limited. `max_gpus` is how many GPUs of an
    instance are used at most (None: all of them), `max_count` how many identical instances may
    share the work, each with a copy of the data on a disk of its own. `pareto` asks for the front
    of price and rate with a target too. `accelerated_only` keeps out instances without an
    accelerator; so does whatever asks for a GPU.
    """

    network: str
    task: Task
    target_throughput: float | None = None
    confidence: float = 0.9
    batch_size: int | None = None
    precision: Precision = Precision.FP32
    dataset: DatasetProfile = IMAGENET
    stack: Stack = Stack.EAGER
    memory_format: MemoryFormat = MemoryFormat.CONTIGUOUS
    tf32: Tf32 = Tf32.CONVOLUTIONS
    input: str | None = None
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
    max_latency_ms: float | None = None
    epochs: float | None = None
    samples: int | None = None
    max_hours: float | None = None
    max_run_usd: float | None = None
    max_first_epoch_hours: float | None = None
    vcpu_quota: tuple[tuple[str, float], ...] = ()
    disk: DiskChoice | None = None
    disk_types: tuple[str, ...] = ()
    max_gpus: int | None = None
    max_count: int = 1
    horizon_hours: float = HOURS_PER_MONTH
    max_results: int = 10
    allow_extrapolation: bool = False
    pareto: bool = False
    accelerated_only: bool = False

    def __post_init__(self) -> None:
        require_positive(
            target_throughput=self.target_throughput,
            batch_size=self.batch_size,
            min_gpu_memory_mib=self.min_gpu_memory_mib,
            max_gpu_memory_mib=self.max_gpu_memory_mib,
            max_usd_per_hour=self.max_usd_per_hour,
            max_latency_ms=self.max_latency_ms,
            run_samples=self.run_samples,
            max_hours=self.max_hours,
            max_run_usd=self.max_run_usd,
            max_first_epoch_hours=self.max_first_epoch_hours,
            max_gpus=self.max_gpus,
            max_count=self.max_count,
            horizon_hours=self.horizon_hours,
            max_results=self.max_results,
        )
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"confidence must lie in 0.5..1, not {self.confidence}")
        if self.max_latency_ms is not None and self.task is not Task.INFERENCE:
            raise ValueError(f"max_latency_ms goes with inference, not with {self.task}")
        if self.max_first_epoch_hours is not None and self.task is not Task.TRAINING:
            raise ValueError(f"max_first_epoch_hours goes with training, not with {self.task}")
        if self.epochs is not None and self.samples is not None:
            raise ValueError("epochs and samples both say how long a run is: give one of them")
        if self.disk is not None and self.disk_types:
            raise ValueError("disk fixes what disk_types leaves open: give one of them")
        if any(not (math.isfinite(vcpus) and vcpus >= 0) for _, vcpus in self.vcpu_quota):
            raise ValueError(f"vcpu_quota must be vCPUs of 0 or more, not {self.vcpu_quota}")
        if self.run_samples is None and (self.max_hours or self.max_run_usd):
            raise ValueError("max_hours and max_run_usd need epochs or samples")

    @property
    def can_be_measured(self) -> bool:
        """Whether a trial runs what is asked: eager PyTorch as it is by itself, on the network's
        own input, in a format that trials know."""
        return (
            self.stack is Stack.EAGER
            and self.memory_format is MemoryFormat.CONTIGUOUS
            and self.tf32 is Tf32.CONVOLUTIONS
            and self.input is None
            and self.precision in MEASURABLE_PRECISIONS
        )

    @property
    def run_samples(self) -> float | None:
        """Samples of the whole run; None where none was asked for."""
        if self.epochs is not None:
            return self.epochs * self.dataset.samples
        return self.samples


def computes_on_cpu(instance: InstanceType, workload: Workload) -> bool:
    """Whether the network runs on the instance's CPU, which then is the accelerator."""
    return instance.gpu_name is None and workload.task is not Task.PREPROCESSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A spec with the batch size that suits it and the throughput predicted for it.

    `prediction` and `run` are those of all its instances together, `latency` is one batch's, on
    one GPU of one of them. The batch size is that of one GPU. `first_epoch` is its hours where it
    trains: RAM caches nothing yet, so that the disk is read.
    """

    spec: Spec
    workload: Workload
    prediction: Prediction
    latency: Latency | None = None
    run: RunTime | None = None
    first_epoch: Span | None = None
    note: str = ""

    @property
    def usd_per_run(self) -> Span | None:
        """Cost of the whole run, instance and disk together; None where no run was asked for."""
        return self.run.hours.times(self.spec.total_usd_per_hour) if self.run else None

    @property
    def usd_per_million_samples(self) -> float:
        """Cost of a million samples at the median throughput, instance and disk together."""
        return self.spec.total_usd_per_hour / (self.prediction.median * 3600) * 1e6


# A `Candidate`, or that of a language model (`advisor.domain.language`).
AnyCandidate = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseCall:
    """Where the prediction decides narrowly, and one trial of `candidate` would settle it.

    `probability` is the chance that the trial reaches the target. If it does, that saves
    `saves_usd_per_hour` against `instead` (the chosen one; for a chosen one that may miss, the
    cheapest that is much safer); both None where nothing else answers. The trial takes
    `trial_minutes` and costs `trial_usd`; it is expected to save `worth_usd` over the horizon.
    `saves_usd_per_run` is None unless a run is asked for: then that counts, and `worth_usd` is the
    run's.
    """

    kind: CloseCallKind
    candidate: AnyCandidate
    instead: AnyCandidate | None
    probability: float
    saves_usd_per_hour: float | None
    saves_usd_per_run: float | None = None
    trial_minutes: float
    trial_usd: float
    worth_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSetting:
    """What the same spec would reach under another stack, layout or number format.

    `option` asks for it, `gpu_gain` is the factor by which the GPU alone is faster, `measured`
    whether rows of this very network tell it. `prediction` is of the whole with it, `gain` the
    factor by which its median is higher: 1 where something else binds.
    """

    name: str
    option: str
    gpu_gain: Span
    measured: bool
    prediction: Prediction
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One constraint of a request, changed as little as it takes.

    `constraint` is its name in a request; `before` and `after` are what `option` takes, None
    where it is left out.
    """

    constraint: str
    option: str
    before: str
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """Changes that together make something answer, and what is recommended then."""

    changes: tuple[Change, ...]
    gives: AnyCandidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation(Judged):
    """The answer. `chosen` is None where no offer meets the target: then `nearest` comes closest
    within the price, and `beyond_price` would answer if its price were allowed.

    `ranked` begins with the chosen one; `rejected_counts` says how many types each reason took out;
    `offers_considered` counts the priced offers looked at.
    `close_calls` begins with the one whose trial is worth most. `live` tells what was asked of the
    cloud for this answer; None where nothing was to be asked. `relaxations` say what would make
    something answer where nothing does: one change each, cheapest first, or two where one is not
    enough. `pareto`, where it is asked for or there is no target, are the specs that
    answer and that none other beats in price and rate. `other_settings` are of the chosen one.
    """

    request: Request
    ranked: tuple[Candidate, ...]
    nearest: Candidate | None
    beyond_price: Candidate | None = None
    rejected: Sequence[Rejected]
    rejected_counts: Mapping[str, int] | None = None
    offers_considered: int
    assumptions: tuple[Text, ...]
    warnings: tuple[Text, ...]
    today: date
    close_calls: tuple[CloseCall, ...] = ()
    live: LiveCheck | None = None
    relaxations: tuple[Relaxation, ...] = ()
    pareto: tuple[Candidate, ...] = ()
    other_settings: tuple[OtherSetting, ...] = ()

    @property
    def chosen(self) -> Candidate | None:
        """The cheapest spec that meets the target; without one, the cheapest by sample."""
        return self.ranked[0] if self.ranked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPoint:
    """What an instance reaches at one batch size; `latency` is None but for inference."""

    batch_size: int
    prediction: Prediction
    latency: Latency | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePrediction:
    """One named instance with a disk, what it will reach, and its price where that is known.

    `by_batch` holds every batch size that fits, rising; `good_batch_size` is the smallest of them
    within 5 % of the best lower bound: beyond it the throughput is saturated. `assumptions` and
    `warnings` say what it takes for granted, and what weakens it.
    """

    instance: InstanceType
    disk: Disk
    workload: Workload
    prediction: Prediction
    price: Price | None
    note: str
    by_batch: tuple[BatchPoint, ...]
    good_batch_size: int
    run: RunTime | None = None
    first_epoch: Span | None = None
    assumptions: tuple[Text, ...] = ()
    warnings: tuple[Text, ...] = ()
    region: str | None = None  # whose price it is
    other_settings: tuple[OtherSetting, ...] = ()

    @property
    def total_usd_per_hour(self) -> float | None:
        """Instance and disk; None where the instance's price is not known."""
        return self.price.usd_per_hour + self.disk.usd_per_hour if self.price else None

    @property
    def usd_per_million_samples(self) -> float | None:
        """Cost of a million samples at the median throughput; None without a price."""
        total = self.total_usd_per_hour
        return None if total is None else total / (self.prediction.median * 3600) * 1e6

    @property
    def usd_per_run(self) -> Span | None:
        """Cost of the whole run; None where no run was asked for, or no price is known."""
        if self.run is None or self.price is None:
            return None
        return self.run.hours.times(self.price.usd_per_hour + self.disk.usd_per_hour)
