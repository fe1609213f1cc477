"""Plans, measurements and predictions, and the time that a run takes."""

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
    """A quantity with its interval: lower <= median <= upper.

    `upper` of a time or a cost holds at the confidence of the prediction; infinite where no bound is known.
    """

    lower: float
    median: float
    upper: float

    def __add__(self, other: Span) -> Span:
        """Two spans one after the other, on one machine: what slows one slows the other too."""
        return Span(
            lower=self.lower + other.lower, median=self.median + other.median, upper=self.upper + other.upper
        )

    @property
    def sure_share(self) -> float:
        """The lower bound over the median; 0 where the median is."""
        return self.lower / self.median if self.median > 0 else 0.0

    def times(self, factor: float) -> Span:
        """Each bound times a factor above 0."""
        return Span(lower=self.lower * factor, median=self.median * factor, upper=self.upper * factor)


class RunTime(Struct, frozen=True, kw_only=True):
    """Hours for `samples`. `first_epoch` is the part of them in which training reads its data from the disk;
    None where all samples are read alike."""

    samples: float
    hours: Span
    first_epoch: Span | None = None

    def shared_by(self, count: float) -> RunTime:
        """The run split evenly over so many instances, each of which reads its part."""
        if count == 1:
            return self
        share = 1 / count
        first = self.first_epoch.times(share) if self.first_epoch else None
        return RunTime(samples=self.samples, hours=self.hours.times(share), first_epoch=first)


# Of a trial's plan; left out of it where they are off.
SETTINGS_OF_STEPS = ("cudnn_benchmark", "synchronise_each_step")


class Withheld(Struct, frozen=True):
    """How predictions did where the truth was measured and kept from the fit.

    Half of the `rows` were within `median_percent` of the predicted median, and the bound at 90 % held in
    `held_percent` of them. `what` was withheld."""

    what: str
    median_percent: float
    held_percent: float
    rows: int


class Prediction(Struct, frozen=True, kw_only=True):
    """Throughput of one workload on given resources.

    `lower` is the one-sided (1 - confidence) quantile and `upper` its mirror. `extrapolation` says in words
    what lies outside the measured range; empty inside. `calibrated` is False where no held-out residuals back
    the interval. `gpus_used` work side by side, each at `gpu_efficiency` of the rate that it has alone, and
    each node that trains together with others at `node_efficiency` of its own. `bare_step`: one GPU's rate
    without a script. `withheld` is the test that is most like this prediction; None where none is."""

    lower: float
    median: float
    upper: float
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

    @property
    def sure_share(self) -> float:
        """The lower bound over the median; 0 where the median is."""
        return self.lower / self.median if self.median > 0 else 0.0

    def times(self, factor: float) -> Prediction:
        """The prediction for so many of the same side by side. They are wrong together, since they are alike:
        their bounds add as their medians do, and nothing averages out."""
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
        """Share of its own rate at which each stage runs when the median is reached."""
        return {stage: min(1.0, self.median / rate) for stage, rate in self.stage_rates.items()}


# What a plan calls the source of a disk that is really mounted.
MOUNTED = "mounted"
# `plan["transform"]`: images are cropped at random and flipped, as for training, or resized and cropped at
# their centre, as they are served.
AUGMENTED, SERVED = "augmented", "served"
# `plan["order"]`: of an epoch; stored reads as the data set lies.
SHUFFLED, STORED_ORDER = "shuffled", "stored"
# In `Measurement.environment`: the file that answered in place of a measurement.
REPLAYED_FROM = "replayed_from"


# The codes of remarks: that a GPU was not measured, or not in a format, or a network not in a task; that what
# is assumed moves the price; a run's start; prices in a currency without a rate; a bare step's rate.
UNMEASURED_GPU, UNMEASURED_FORMAT = "unmeasured_gpu", "unmeasured_format"
UNMEASURED_NETWORK = "unmeasured_network"
UNMEASURED = (UNMEASURED_GPU, UNMEASURED_FORMAT, UNMEASURED_NETWORK)
DECIDES = "decides"
START = "start"
CURRENCY = "currency"
BARE_STEP = "bare_step"


def is_measured(candidate: object) -> bool:
    """Whether the GPU of a candidate was measured."""
    remarks = getattr(getattr(candidate, "prediction", candidate), "extrapolation", ())
    return unmeasured_gpu(remarks) is None


def unmeasured_gpu(remarks: Iterable[Any]) -> Any | None:
    """The remark that a GPU was not measured; None where no such remark is among them."""
    return next((remark for remark in remarks if getattr(remark, "code", "") == UNMEASURED_GPU), None)


# p99 over p50 of a step's time, which nine in ten of 60 raw series of 50 PyTorch inference steps
# stay below (five GPUs, two precisions, six networks; internals/model.md). MLPerf single streams
# on NVIDIA GPUs have p99 over p90 below 1.31 in nine of ten.
P99_OVER_P50 = 1.35


class Latency(Struct, frozen=True, kw_only=True):
    """Seconds that one batch takes, alone on the machine: the likely one, and what 99 in 100 batches surely
    (at the prediction's confidence) stay within; infinite where nothing is sure."""

    p50_seconds: float
    p99_seconds: float

    @property
    def p99_median_seconds(self) -> float:
        """What 99 in 100 batches stay within at the median rate."""
        return P99_OVER_P50 * self.p50_seconds


class Trial(Struct, frozen=True, kw_only=True, dict=True):
    """A workload under given resources, planned.

    `accelerator` is what is asked for; an emulated one takes `emulated_step_seconds` for each batch.
    `trial_id` is the hash of the content."""

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
        """Whether the CPU computes the network, too; preprocessing has none."""
        return self.accelerator.is_cpu and self.workload.task is not Task.PREPROCESSING

    @property
    def processes(self) -> int:
        """Processes that each compute batches of their own: one a GPU."""
        return 1 if self.workload.task is Task.PREPROCESSING else self.resources.gpu_count

    @property
    def samples_per_row(self) -> int:
        """A row of words holds several samples (tokens); of other networks it is one."""
        return int(self.plan.get("samples_per_row", 1))

    @property
    def samples_per_step(self) -> int:
        """Samples of a step, in which each process has a batch."""
        return self.processes * self.workload.batch_size * self.samples_per_row

    @property
    def is_augmented(self) -> bool:
        """Whether its images are cropped at random, as for training, and not at their centre."""
        return bool(self.plan.get("transform", AUGMENTED) == AUGMENTED)

    @property
    def reads_in_order(self) -> bool:
        """Whether its data set is read as it lies, not shuffled."""
        return bool(self.plan.get("order") == STORED_ORDER)

    @property
    def loader_period(self) -> int:
        """Steps in which every loader process delivers once; 1 where batches are made in place."""
        return max(1, int(self.plan.get("loader_workers", 1)))

    @property
    def unknown_settings(self) -> tuple[str, ...]:
        """Settings of its steps that no predictor knows: its rate stands for itself alone."""
        named = [name for name in SETTINGS_OF_STEPS if name in self.plan]
        workload = self.workload
        if self.network_on_cpu and workload.stack is not Stack.EAGER:
            named.append("stack")
        if self.network_on_cpu and workload.memory_format is not MemoryFormat.CONTIGUOUS:
            named.append("memory_format")
        return tuple(named)

    @property
    def overflows_memory(self) -> bool:
        """Whether the stored data set alone is larger than the memory."""
        return self.workload.dataset.total_mib > self.resources.memory_mib

    @property
    def on_mounted_disk(self) -> bool:
        """Whether the data lie on a disk of the type, which is therefore not throttled."""
        return self.plan.get("disk_source") == MOUNTED

    @cached_property
    def trial_id(self) -> str:
        """16 hex digits that stand for the content; `dataset_path` is a place, not content."""
        content = asdict(self) | {"accelerator": str(self.accelerator)}
        del content["dataset_path"]
        # Trials of before latencies, several GPUs and stacks were known are the same trials.
        if content["resources"]["disk"]["read_latency_seconds"] is None:
            del content["resources"]["disk"]["read_latency_seconds"]
        # A trial is held to a rate; how well a seller's was known makes no other trial.
        for rate in ("low", "high"):
            del content["resources"]["disk"][rate]
        if content["resources"]["gpu_count"] == 1:
            del content["resources"]["gpu_count"]
        # What a sheet tells beside the rates makes no other trial.
        for fact in ("sms", "l2_mib", "boost_mhz", "watts") if content["resources"]["gpu"] else ():
            del content["resources"]["gpu"][fact]
        content["workload"] = without_the_usual(content["workload"])
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


# A stall is far outside the spread, and at least this much longer than the usual step.
_STALL_FACTOR = 1.2
_STALL_DEVIATIONS = 5.0
_SIGMA_OF_MAD = 1.4826
# More than these, and they are how the pipeline works, not accidents.
_MOST_STALLS = 0.10
_FEWEST_STEPS = 5
_FEWEST_IN_RHYTHM = 3


def mean_step_seconds(step_seconds: Sequence[float]) -> float:
    """Elapsed seconds over steps: samples of a step over this is samples over elapsed time.

    Nothing is left out: a stall is time that is paid for."""
    return statistics.fmean(step_seconds)


def stall_indices(step_seconds: Sequence[float], period: int = 1) -> tuple[int, ...]:
    """Indices of isolated stalls: rare, far longer than the other steps, in no rhythm.

    Long steps are no stalls when they are more than a tenth of all, or come in the rhythm of `period` loader
    processes: then they are how the pipeline works."""
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
    """Whether most of them stand at the same place of a loader's round."""
    if period < 2 or len(indices) < _FEWEST_IN_RHYTHM:
        return False
    return max(Counter(index % period for index in indices).values()) >= 0.75 * len(indices)


class Measurement(Struct, frozen=True, kw_only=True):
    """The result of a trial: raw values, never statistics.

    `step_seconds` are the counted steps, `warmup_step_seconds` those before steady state. `stage_rates` holds
    what the stage runs gave, samples per second; `environment` says what machine, versions and neighbours
    this was; `reason` says why a trial did not end well. `attempts` were spoiled and count for nothing;
    `repeats` are further good measurements."""

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
        """Samples over elapsed time of the counted steps: of the mean step of each run, and of their mean.
        None where no step was measured, or not rightly."""
        if not all(run and all(0 < s < math.inf for s in run) for run in self.run_steps):
            return None
        seconds = mean_step_seconds([mean_step_seconds(run) for run in self.run_steps])
        return self.trial.samples_per_step / seconds

    @property
    def median_samples_per_second(self) -> float | None:
        """Samples over the median step of all runs, stalls left out; None where there is no rate."""
        if self.throughput_samples_per_second is None:
            return None
        steps = [seconds for run in self.run_steps for seconds in run]
        return self.trial.samples_per_step / statistics.median(steps)

    @property
    def stall_share(self) -> float | None:
        """Share of the counted time that stalls took, over all runs; None where there is no rate."""
        if self.throughput_samples_per_second is None:
            return None
        times = [sum(run) for run in self.run_steps]
        lost = [stall_share(run, self.trial.loader_period) for run in self.run_steps]
        return sum(map(float.__mul__, lost, times)) / sum(times)

    @property
    def run_steps(self) -> tuple[Sequence[float], ...]:
        """The counted steps of every good run, in seconds: its own, and those of its repeats."""
        return (self.step_seconds, *(repeat["step_seconds"] for repeat in self.repeats))


# Reasons of types that run the workload and still do not answer.
_RAN = frozenset(
    {
        *("too_slow", "latency", "too_long", "over_max_cost", "over_max_price", "no_interval"),
        *("gpu_memory", "memory", "no_disk", "quota", "weights", "kv", "users", "load", "ttft"),
        *("tpot", "e2e", "ready"),
    }
)


class Rejected(Struct, frozen=True):
    """An instance type that is not recommended, and why, with the number that decided.

    `detail` is a `Message`. `usd_per_hour` is the total of `count` instances, each with `disk`, an order,
    where that is known. `factor` is by how much a limit is missed; infinite where nothing tells."""

    cloud: str
    instance_type: str
    reason: str
    detail: Any
    usd_per_hour: float | None = None
    disk: str | None = None
    count: int = 1
    factor: float = inf


class LazyRejected(Sequence[Rejected]):
    """Rejected types whose records are made when they are read."""

    @property
    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """The number of types that each reason rejected."""

    @abstractmethod
    def nearest(self, price: float | None, most: int) -> list[Rejected]:
        """The first `most` of `nearest_first`; no other record is made."""


class _Priced(Protocol):
    @property
    def reason(self) -> str: ...
    @property
    def usd_per_hour(self) -> float | None: ...
    @property
    def factor(self) -> float: ...


P = TypeVar("P", bound=_Priced)


def nearest_first(rejected: Iterable[P], price: float | None) -> list[P]:
    """Nearest to the answer first, which costs `price` USD per hour: cheaper ones before dearer ones, those
    that run the workload before those that cannot run it, then those that miss a limit by the least factor,
    then by how little their price differs. Without an answer, the nearest of each reason leads: hundreds that
    are too slow would hide the few that lack a disk."""

    def order(each: P) -> tuple[bool, bool, float, float]:
        usd = _usd(each)
        dear = price is not None and usd >= price
        return dear, each.reason not in _RAN, each.factor, usd if price is None else abs(usd - price)

    nearest = sorted(rejected, key=order)
    if price is not None:
        return nearest
    first = {each.reason: each for each in reversed(nearest)}
    return sorted(nearest, key=lambda each: first[each.reason] is not each)


def _usd(rejected: _Priced) -> float:
    """Infinite where its price is not known: then it is not cheaper."""
    return inf if rejected.usd_per_hour is None else rejected.usd_per_hour
