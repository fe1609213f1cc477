"""Trials, measurements, predictions, and the time that a run takes."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain.machines import Accelerator, Resources, require_positive
from advisor.domain.words import CacheState, LimitedBy, MemoryFormat, Provenance, Stack, Stage, Status, Task
from advisor.domain.workload import Workload, without_the_usual
from advisor.records import asdict


class Span(Struct, frozen=True, kw_only=True):
    """A quantity with its interval: lower <= median <= upper. `upper` of a time or a cost holds at the
    confidence of the prediction; infinite without a known bound."""

    lower: float
    median: float
    upper: float

    def __add__(self, other: Span) -> Span:
        """The sum of two times on one machine, bound by bound: what slows one slows the other too."""
        return Span(
            lower=self.lower + other.lower, median=self.median + other.median, upper=self.upper + other.upper
        )

    @property
    def sure_share(self) -> float:
        """The lower bound over the median; 0 where the median is 0."""
        return self.lower / self.median if self.median > 0 else 0.0

    def times(self, factor: float) -> Span:
        """Each bound times a factor above 0."""
        return Span(lower=self.lower * factor, median=self.median * factor, upper=self.upper * factor)


class RunTime(Struct, frozen=True, kw_only=True):
    """Hours for `samples`. `first_epoch` is the part in which training reads from the disk; None where all
    samples are read alike."""

    samples: float
    hours: Span
    first_epoch: Span | None = None

    def shared_by(self, count: float) -> RunTime:
        """The run of each of `count` instances that share it evenly, each reading its part of the data."""
        if count == 1:
            return self
        share = 1 / count
        first = self.first_epoch.times(share) if self.first_epoch else None
        return RunTime(samples=self.samples, hours=self.hours.times(share), first_epoch=first)


# Settings in a trial's plan; a plan leaves them out where they are off.
SETTINGS_OF_STEPS = ("cudnn_benchmark", "synchronise_each_step")


class Withheld(Struct, frozen=True):
    """How well predictions matched measurements that were kept from the fit. Half of the `rows` were within
    `median_percent` of the predicted median, and the bound at 90 % held in `held_percent` of them. `what`
    names the measurements that were withheld."""

    what: str
    median_percent: float
    held_percent: float
    rows: int


class Prediction(Span, frozen=True, kw_only=True):
    """Throughput of one workload on given resources. `lower` is the one-sided (1 - confidence) quantile and
    `upper` its mirror. `extrapolation` says what is outside the measured range. `calibrated` is False where
    no held-out residuals back the interval. `gpus_used` work in parallel, each at `gpu_efficiency` of its
    rate alone, and each node that trains with others at `node_efficiency` of its rate alone. `bare_step` is
    one GPU's rate without a script. `withheld` is the test most like this prediction; None without one."""

    confidence: float
    stage_rates: Mapping[Stage, float]
    bottleneck: Stage
    provenance: Provenance
    extrapolation: tuple[Any, ...] = ()  # messages
    calibrated: bool = True
    gpus_used: int = 1
    gpu_efficiency: float = 1.0
    node_efficiency: float = 1.0
    bare_step: float | None = None
    withheld: Withheld | None = None

    def times(self, factor: float) -> Prediction:
        """The prediction for `factor` equal machines in parallel. Their errors are the same, so their bounds
        add as their medians do, and nothing averages out."""
        if factor == 1:
            return self
        return replace(
            self,
            lower=factor * self.lower,
            median=factor * self.median,
            upper=factor * self.upper,
            stage_rates={stage: factor * rate for stage, rate in self.stage_rates.items()},
        )

    @property
    def utilization(self) -> dict[Stage, float]:
        """Stage -> share of its rate that it runs at when the median is reached."""
        return {stage: min(1.0, self.median / rate) for stage, rate in self.stage_rates.items()}


# `plan["disk_source"]` of a disk that is really mounted.
MOUNTED = "mounted"
# `plan["transform"]`: images are cropped at random and flipped, for training, or resized and cropped at their
# centre, for inference.
AUGMENTED, SERVED = "augmented", "served"
# `plan["order"]` of an epoch; stored reads samples in the order of the data set's files.
SHUFFLED, STORED_ORDER = "shuffled", "stored"
# `Measurement.environment` has this key where a file replaced a real measurement.
REPLAYED_FROM = "replayed_from"


# Codes of remarks: a GPU was not measured, or not in a format, a network not in a task, a method of tuning
# never; assumed facts change the price; no instances share the work; a run's start; prices in a currency
# without a rate; clouds without prices; a bare step's rate.
UNMEASURED_GPU, UNMEASURED_FORMAT = "unmeasured_gpu", "unmeasured_format"
UNMEASURED_NETWORK, UNMEASURED_METHOD = "unmeasured_network", "unmeasured_method"
UNMEASURED = (UNMEASURED_METHOD, UNMEASURED_GPU, UNMEASURED_FORMAT, UNMEASURED_NETWORK)
DECIDES, ALONE = "decides", "alone"
START = "start"
CURRENCY = "currency"
UNPRICED = "unpriced"
BARE_STEP = "bare_step"


def is_measured(candidate: object) -> bool:
    """True if the GPU of a candidate was measured."""
    remarks = getattr(getattr(candidate, "prediction", candidate), "extrapolation", ())
    return unmeasured_gpu(remarks) is None


def unmeasured_gpu(remarks: Iterable[Any]) -> Any | None:
    """The remark that a GPU was not measured; None where there is none."""
    return next((remark for remark in remarks if getattr(remark, "code", "") == UNMEASURED_GPU), None)


# p99 over p50 of a step's time: 9 in 10 of 60 raw series of 50 PyTorch inference steps stay below it (five
# GPUs, two precisions, six networks; internals/model.md). MLPerf single streams on NVIDIA GPUs have p99 over
# p90 below 1.31 in 9 of 10.
P99_OVER_P50 = 1.35


class Latency(Struct, frozen=True, kw_only=True):
    """Seconds of one batch alone on the machine: the median, and the upper bound of the p99 at the
    prediction's confidence, infinite without a bound."""

    p50_seconds: float
    p99_seconds: float

    @property
    def p99_median_seconds(self) -> float:
        """The p99 at the median rate."""
        return P99_OVER_P50 * self.p50_seconds


class Trial(Struct, frozen=True, kw_only=True, dict=True):
    """A workload under given resources, planned. `accelerator` is the requested one; an emulated one takes
    `emulated_step_seconds` for each batch. `trial_id` is the hash of the content."""

    workload: Workload
    resources: Resources
    accelerator: Accelerator
    emulated_step_seconds: float | None = None
    cache: CacheState = CacheState.WARM
    dataset_path: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_positive(emulated_step_seconds=self.emulated_step_seconds)
        if self.accelerator.is_emulated != (self.emulated_step_seconds is not None):
            raise ValueError("emulated_step_seconds goes with an emulated accelerator, and only with it")

    @property
    def network_on_cpu(self) -> bool:
        """True if the CPU also computes the network; preprocessing has none."""
        return self.accelerator.is_cpu and self.workload.task is not Task.PREPROCESSING

    @property
    def processes(self) -> int:
        """Number of processes that each compute batches: one per GPU."""
        return 1 if self.workload.task is Task.PREPROCESSING else self.resources.gpu_count

    @property
    def samples_per_row(self) -> int:
        """Samples in a row: tokens of a row of text, 1 for other data."""
        return int(self.plan.get("samples_per_row", 1))

    @property
    def samples_per_step(self) -> int:
        """Samples of a step, in which each process computes a batch."""
        return self.processes * self.workload.batch_size * self.samples_per_row

    @property
    def loader_period(self) -> int:
        """Steps in which every loader process delivers once; 1 without loader processes."""
        return max(1, int(self.plan.get("loader_workers", 1)))

    @property
    def unknown_settings(self) -> tuple[str, ...]:
        """Settings of its steps that the predictor does not model: its rate counts for itself alone."""
        named = [name for name in SETTINGS_OF_STEPS if name in self.plan]
        workload = self.workload
        if self.network_on_cpu and workload.stack is not Stack.EAGER:
            named.append("stack")
        if self.network_on_cpu and workload.memory_format is not MemoryFormat.CONTIGUOUS:
            named.append("memory_format")
        return tuple(named)

    @property
    def overflows_memory(self) -> bool:
        """True if the stored data set alone is larger than the memory."""
        return self.workload.dataset.total_mib > self.resources.memory_mib

    @property
    def on_mounted_disk(self) -> bool:
        """True if the data are on a mounted disk of the type, which needs no throttling."""
        return self.plan.get("disk_source") == MOUNTED

    @cached_property
    def trial_id(self) -> str:
        """16 hex digits of the content's hash; `dataset_path` is a place, not content."""
        content = asdict(self) | {"accelerator": str(self.accelerator)}
        del content["dataset_path"]
        # Trials from before latencies, several GPUs and stacks existed keep their ids.
        if content["resources"]["disk"]["read_latency_seconds"] is None:
            del content["resources"]["disk"]["read_latency_seconds"]
        # How uncertain a seller's rate is does not make another trial.
        for rate in ("low", "high"):
            del content["resources"]["disk"][rate]
        if content["resources"]["gpu_count"] == 1:
            del content["resources"]["gpu_count"]
        # Further facts of a data sheet do not make another trial.
        for fact in ("sms", "l2_mib", "boost_mhz", "watts") if content["resources"]["gpu"] else ():
            del content["resources"]["gpu"][fact]
        content["workload"] = without_the_usual(content["workload"])
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


# A stall is far outside the spread, and at least this much longer than the usual step.
_STALL_FACTOR = 1.2
_STALL_DEVIATIONS = 5.0
_SIGMA_OF_MAD = 1.4826
# Above this share, long steps are how the pipeline works, not accidents.
_MOST_STALLS = 0.10
_FEWEST_STEPS = 5
_FEWEST_IN_RHYTHM = 3


def mean_step_seconds(step_seconds: Sequence[float]) -> float:
    """Elapsed seconds per step; samples of a step over this are samples over elapsed time. Stalls are
    included: they are paid for."""
    return statistics.fmean(step_seconds)


def stall_indices(step_seconds: Sequence[float], period: int) -> tuple[int, ...]:
    """Indices of isolated stalls: rare steps, far longer than the others, in no rhythm. Long steps are no
    stalls when they are more than a tenth of all, or come in the rhythm of `period` loader processes: then
    they are how the pipeline works."""
    if len(step_seconds) < _FEWEST_STEPS:
        return ()
    middle = statistics.median(step_seconds)
    spread = statistics.median(abs(seconds - middle) for seconds in step_seconds)
    limit = max(_STALL_FACTOR * middle, middle + _STALL_DEVIATIONS * _SIGMA_OF_MAD * spread)
    long = tuple(index for index, seconds in enumerate(step_seconds) if seconds > limit)
    too_many = len(long) > max(1, _MOST_STALLS * len(step_seconds))
    return () if too_many or _in_rhythm(long, period) else long


def stall_share(step_seconds: Sequence[float], period: int = 1) -> float:
    """Share of the elapsed time that isolated stalls took beyond the usual (median) step."""
    stalls = stall_indices(step_seconds, period)
    if not stalls:
        return 0.0
    usual = statistics.median(step_seconds)
    return sum(step_seconds[index] - usual for index in stalls) / sum(step_seconds)


def _in_rhythm(indices: Sequence[int], period: int) -> bool:
    """True if most of these steps have the same position in the loaders' round."""
    if period < 2 or len(indices) < _FEWEST_IN_RHYTHM:
        return False
    return max(Counter(index % period for index in indices).values()) >= 0.75 * len(indices)


class Measurement(Struct, frozen=True, kw_only=True):
    """The result of a trial: raw values, never statistics. `step_seconds` are the counted steps,
    `warmup_step_seconds` those before steady state. `stage_rates` are samples per second of the runs of
    single stages; `environment` describes machine, versions and neighbours; `reason` says why a trial did not
    end well. `attempts` are runs that were disturbed and do not count; `repeats` are further good runs."""

    trial: Trial
    status: Status
    limited_by: LimitedBy
    step_seconds: tuple[float, ...] = ()
    warmup_step_seconds: tuple[float, ...] = ()
    stage_rates: Mapping[str, float] = field(default_factory=dict)
    cpu_seconds: float | None = None
    wall_seconds: float | None = None
    peak_memory_mib: float | None = None
    read_bytes: int | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    started_at: str = ""
    reason: str = ""
    attempts: tuple[Mapping[str, Any], ...] = ()
    repeats: tuple[Mapping[str, Any], ...] = ()

    @property
    def throughput_samples_per_second(self) -> float | None:
        """Samples over elapsed time of the counted steps, as the mean over runs of their mean steps. None
        without steps, or with invalid times."""
        if not all(run and all(0 < s < math.inf for s in run) for run in self.run_steps):
            return None
        seconds = mean_step_seconds([mean_step_seconds(run) for run in self.run_steps])
        return self.trial.samples_per_step / seconds

    @property
    def median_samples_per_second(self) -> float | None:
        """Samples over the median step of all runs, which stalls do not affect; None without a rate."""
        if self.throughput_samples_per_second is None:
            return None
        steps = [seconds for run in self.run_steps for seconds in run]
        return self.trial.samples_per_step / statistics.median(steps)

    @property
    def stall_share(self) -> float | None:
        """Share of the counted time lost to stalls, over all runs; None without a rate."""
        if self.throughput_samples_per_second is None:
            return None
        times = [sum(run) for run in self.run_steps]
        lost = [stall_share(run, self.trial.loader_period) for run in self.run_steps]
        return sum(map(float.__mul__, lost, times)) / sum(times)

    @property
    def run_steps(self) -> tuple[Sequence[float], ...]:
        """Seconds of the counted steps of every good run: the first one, and the repeats."""
        return (self.step_seconds, *(repeat["step_seconds"] for repeat in self.repeats))


# Reasons for rejecting types that can run the workload.
_CAN_RUN = frozenset(
    {
        *("too_slow", "latency", "too_long", "over_max_cost", "over_max_price", "no_interval"),
        *("gpu_memory", "memory", "no_disk", "quota", "weights", "kv", "users", "load", "ttft"),
        *("tpot", "e2e", "ready"),
    }
)


class Rejected(Struct, frozen=True):
    """An instance type that is not recommended, and why, with the number that decided. `detail` is a
    `Message`. `usd_per_hour` is the known total of `count` instances, each with the order `disk`. `factor` is
    by how much a limit is missed; infinite where it is not known."""

    cloud: str
    instance_type: str
    reason: str
    detail: Any
    usd_per_hour: float | None = None
    disk: str | None = None
    count: int = 1
    factor: float = inf


class LazyRejected(Sequence[Rejected]):
    """Rejected types whose records are built when they are read."""

    @property
    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """The number of types that each reason rejected, the most frequent first."""

    @abstractmethod
    def nearest(self, price: float | None, most: int) -> list[Rejected]:
        """The first `most` types of `nearest_first`; builds no other record."""


class _Priced(Protocol):
    @property
    def reason(self) -> str: ...
    @property
    def usd_per_hour(self) -> float | None: ...
    @property
    def factor(self) -> float: ...


P = TypeVar("P", bound=_Priced)


def nearest_first(rejected: Iterable[P], price: float | None) -> list[P]:
    """Rejected types, nearest to the answer first, which costs `price` USD per hour: cheaper ones before
    dearer ones, those that can run the workload before others, then those that miss a limit by the least
    factor, then by price difference. Without an answer, the nearest of each reason leads: hundreds that are
    too slow would hide the few that lack a disk."""

    def order(each: P) -> tuple[bool, bool, float, float]:
        usd = inf if each.usd_per_hour is None else each.usd_per_hour  # unknown: it is not cheaper
        dear = price is not None and usd >= price
        return dear, each.reason not in _CAN_RUN, each.factor, usd if price is None else abs(usd - price)

    nearest = sorted(rejected, key=order)
    if price is not None:
        return nearest
    first = {each.reason: each for each in reversed(nearest)}
    return sorted(nearest, key=lambda each: first[each.reason] is not each)
