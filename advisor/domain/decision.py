"""Answers: candidates, why others were rejected, what would change the answer, and what explains it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from enum import Enum
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from advisor.domain.machines import Gpu, InstanceType, NodeNetwork
from advisor.domain.money import Disk, Price, Spec
from advisor.domain.results import Latency, LazyRejected, Prediction, Rejected, RunTime, Span, nearest_first
from advisor.domain.words import CloseCallKind, Stage, Task
from advisor.domain.workload import Workload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from advisor.domain.live import LiveCheck

# A miss costs about the price once more: the spec that misses is paid for, and the one that is rented instead
# (docs/explanation/choice.md).
MISS_COST = 1.0
# Assumed, not measured: 8 minutes to start an instance, install torch and make samples, 2 to measure.
TRIAL_MINUTES = 10.0
# The code of the warning that the search for relaxations stopped early.
RELAXING_STOPPED = "relaxing_stopped"
# A `Message`, which this package may not import, or a plain text; `str` gives its English.
Text = Any


def trial_cost_usd(usd_per_hour: float, minutes: float) -> float:
    """The cost of a trial for instance and disk, in whole minutes; clouds bill these or less."""
    return usd_per_hour * max(1, ceil(minutes)) / 60


def computes_on_cpu(instance: InstanceType, workload: Workload) -> bool:
    """True if the network runs on the instance's CPU, which then is the accelerator."""
    return instance.gpu_name is None and workload.task is not Task.PREPROCESSING


class Candidate(Struct, frozen=True, kw_only=True):
    """A spec with the batch size that suits it and its predicted throughput. `prediction` and `run` are for
    all its instances together, `latency` is for one batch on one GPU. The batch size is per GPU.
    `first_epoch` is the hours of the first epoch of a training, which reads the disk since RAM caches nothing
    yet. `probability` is the chance that it reaches the target and keeps every limit on its rate, in an
    answer also those on its price; None without any."""

    spec: Spec
    workload: Workload
    prediction: Prediction
    latency: Latency | None = None
    run: RunTime | None = None
    first_epoch: Span | None = None
    notes: tuple[Text, ...] = ()
    probability: float | None = None

    @property
    def node_network(self) -> NodeNetwork | None:
        """The network between instances that train together; None where they do not."""
        together = self.spec.count > 1 and self.workload.task is Task.TRAINING
        return self.spec.offer.instance.network if together else None

    @property
    def usd_per_run(self) -> Span | None:
        """Cost of the whole run, instance and disk together; None for a question without a run."""
        return self.run.hours.times(self.spec.total_usd_per_hour) if self.run else None

    @property
    def usd_per_million_samples(self) -> float:
        """Cost of a million samples at the median throughput, instance and disk together."""
        return self.spec.total_usd_per_hour / (self.prediction.median * 3600) * 1e6


# A settled question (`advisor.questions`), which this package may not import.
AnyQuestion = Any
# A `Candidate`, or a language model's (`advisor.domain.language`).
AnyCandidate = Any


class CloseCall(Struct, frozen=True, kw_only=True):
    """A narrow decision that one trial of `candidate` would settle. `probability` is the chance that the
    trial reaches the target. That would save `saves_usd_per_hour` against `instead`: the chosen spec, or for
    a chosen one that may miss, the cheapest that is much safer. Both are None where no other spec answers.
    The trial takes `trial_minutes` and costs `trial_usd`; its expected saving over the horizon is
    `worth_usd`. For a run, `saves_usd_per_run` is set and decides, and `worth_usd` is the run's."""

    kind: CloseCallKind
    candidate: AnyCandidate
    instead: AnyCandidate | None
    probability: float
    saves_usd_per_hour: float | None
    saves_usd_per_run: float | None = None
    trial_minutes: float
    trial_usd: float
    worth_usd: float


class PriceCall(Struct, frozen=True, kw_only=True):
    """How an answer depends on a price that is not listed, or that is old. `listed` is the cheapest spec at
    listed prices, None where no listed price answers. It is the chosen spec where `cheaper`, which costs less
    at its median price, might cost more. `cheaper` None: the chosen spec is cheaper even at the upper bound
    of its price."""

    listed: AnyCandidate | None
    cheaper: AnyCandidate | None = None


class OtherSetting(Struct, frozen=True, kw_only=True):
    """The rate of the same spec under another stack, memory format or precision. `option` asks for it, as
    does the `value` of a question's `field`. `gpu_gain` is the factor by which the GPU alone is faster;
    `measured`: rows of this very network show it. `prediction` is for the whole spec, and `gain` the factor
    of its median: 1 where another stage binds. `instead` is the spec that this setting would make the choice,
    where it costs clearly less."""

    name: str
    option: str
    field: str
    value: Enum
    gpu_gain: Span
    measured: bool
    prediction: Prediction
    gain: float
    instead: AnyCandidate | None = None


class Change(Struct, frozen=True, kw_only=True):
    """One constraint of a question, relaxed as little as needed: values of its `option`, None for none."""

    constraint: str
    option: str
    before: str
    after: str | None


class Relaxation(Struct, frozen=True, kw_only=True):
    """Changes that together make some spec answer, and the spec that is recommended then."""

    changes: tuple[Change, ...]
    gives: AnyCandidate


def price_chance(candidate: AnyCandidate, request: AnyQuestion) -> float:
    """The chance that a candidate's price keeps the limits on money, at the median of its rate."""
    spec, run = candidate.spec, getattr(candidate, "usd_per_run", None)
    limits = [most for most in (request.max_usd_per_hour,) if most is not None]
    if run and run.median and (most := getattr(request, "max_run_usd", None)):
        limits.append(most / run.median * spec.total_usd_per_hour)
    return min(map(spec.chance_within, limits), default=1.0)


R = TypeVar("R")
C = TypeVar("C")
N = TypeVar("N", float, "NDArray[np.float64]")


def expected_cost(cost: N, chance: N) -> N:
    """The cost of a spec, or of several, plus the expected cost of a miss; `chance` is that of no miss."""
    return cost * (1 + MISS_COST * (1 - chance))


class Judged(Struct, Generic[R, C], frozen=True, kw_only=True):
    """An answer with the types that it rejected. `ranked` is empty where no offer meets the target; `nearest`
    then comes closest within the price limit (`nearest_misses` says what it misses), and `beyond_price`
    would answer without that limit. `beyond_quota` is the cheaper spec that would be chosen without a
    quota; `beyond_count` is a safe one that costs clearly less than the safe one here, on more instances
    than the question allows. `offers_considered` counts the priced offers. `close_calls` has the most
    valuable trial first, and the chosen spec if it may miss; `no_trial` says why it has none. `relaxations`
    say what would make some spec answer where none does: one change each, cheapest first, or two where one
    is not enough. `price_call` is None where listed prices alone decide. `safe` is the cheapest spec that
    keeps target and limits at the confidence of its bounds, where the chosen one does not. `level` counts
    the specs whose costs cannot be distinguished from the lowest."""

    request: R
    ranked: tuple[C, ...]
    nearest: C | None
    nearest_misses: tuple[Text, ...] = ()
    beyond_price: C | None = None
    beyond_quota: C | None = None
    beyond_count: C | None = None
    rejected: Sequence[Rejected]
    offers_considered: int
    assumptions: tuple[Text, ...]
    warnings: tuple[Text, ...]
    today: date
    close_calls: tuple[CloseCall, ...] = ()
    no_trial: Text | None = None
    relaxations: tuple[Relaxation, ...] = ()
    price_call: PriceCall | None = None
    safe: C | None = None
    level: int = 0

    @property
    def is_safe(self) -> bool:
        """True if the chosen spec keeps target and limits at the confidence of its bounds."""
        chosen: AnyCandidate = self.chosen
        required: AnyQuestion = self.request
        return chosen is not None and (chosen.probability or 1.0) >= required.confidence

    @property
    def chosen(self) -> C | None:
        """The cheapest spec that meets the target; without a target, the cheapest per unit of work."""
        return self.ranked[0] if self.ranked else None

    def nearest_rejected(self, most: int | None) -> Sequence[Rejected]:
        """The rejected types in the order of `nearest_first`, at most `most` of them."""
        chosen: AnyCandidate = self.chosen
        price = chosen.spec.total_usd_per_hour if chosen else None
        if most is not None and isinstance(self.rejected, LazyRejected):
            return self.rejected.nearest(price, most)
        return nearest_first(self.rejected, price)[:most]

    @property
    def rejected_by_reason(self) -> dict[str, int]:
        """Reason -> number of types that it rejected, the most frequent first."""
        if isinstance(self.rejected, LazyRejected):
            return dict(self.rejected.counts)
        counts = Counter(map(attrgetter("reason"), self.rejected))
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


class Recommendation(Judged[AnyQuestion, Candidate], frozen=True, kw_only=True):
    """The answer about a network. `live` is what clouds said about today's prices; None where nothing was
    asked. `pareto` has the specs that no other beats in both price and rate, without a target or on request.
    `other_settings` are for the chosen spec."""

    live: LiveCheck | None = None
    pareto: tuple[Candidate, ...] = ()
    other_settings: tuple[OtherSetting, ...] = ()


class BatchPoint(Struct, frozen=True, kw_only=True):
    """The rate of an instance at one batch size; `latency` is set for inference only."""

    batch_size: int
    prediction: Prediction
    latency: Latency | None


class InstancePrediction(Struct, frozen=True, kw_only=True):
    """One named instance with a disk, its predicted rate, and its price where that is known. `by_batch` holds
    every batch size that fits, rising; `good_batch_size` is the smallest of them within 1 % (of a service
    5 %) of the best lower bound. `assumptions` are what the prediction takes for granted, `warnings` what
    weakens it."""

    instance: InstanceType
    disk: Disk
    workload: Workload
    prediction: Prediction
    price: Price | None
    notes: tuple[Text, ...]
    by_batch: tuple[BatchPoint, ...]
    good_batch_size: int
    run: RunTime | None = None
    first_epoch: Span | None = None
    assumptions: tuple[Text, ...] = ()
    warnings: tuple[Text, ...] = ()
    region: str | None = None  # the region of the price
    other_settings: tuple[OtherSetting, ...] = ()
    probability: float | None = None  # that it keeps target and limits; None without any

    @property
    def latency(self) -> Latency | None:
        """The latency of a batch; None except for inference."""
        return next(each.latency for each in self.by_batch if each.batch_size == self.workload.batch_size)

    @property
    def total_usd_per_hour(self) -> float | None:
        """USD per hour of instance and disk; None where either price is not known."""
        disk_usd = self.disk.known_usd_per_hour
        return None if self.price is None or disk_usd is None else self.price.usd_per_hour + disk_usd

    @property
    def usd_per_million_samples(self) -> float | None:
        """Cost of a million samples at the median throughput; None without a price."""
        total = self.total_usd_per_hour
        return None if total is None else total / (self.prediction.median * 3600) * 1e6

    @property
    def usd_per_run(self) -> Span | None:
        """Cost of the whole run; None for a question without a run, or without a known price."""
        usd = self.total_usd_per_hour
        return None if self.run is None or usd is None else self.run.hours.times(usd)


class OnGpu(Struct, frozen=True, kw_only=True):
    """A network on a GPU, with its samples on the device; `workload` None: no wanted batch size surely fits.
    The batch size is the smallest good one that surely fits, `largest_batch` the largest
    that does, where no wanted one does."""

    gpu: Gpu
    network: str
    workload: Workload | None = None
    prediction: Prediction | None = None
    other_settings: tuple[OtherSetting, ...] = ()
    largest_batch: int | None = None


def relative(prediction: Prediction | None, baseline: Prediction | None) -> float | None:
    """The median rate over the baseline's; None where either cannot run."""
    if prediction is None or baseline is None:
        return None
    return prediction.median / baseline.median


class Distance(Struct, frozen=True, kw_only=True):
    """The distance of one fact of a prediction from the measured rows. `times` is the fact over the nearest
    measured value, 1 inside the measured range; None where no number expresses it. `matters` is False where
    the rate hardly depends on the `stage`."""

    subject: str
    stage: Stage
    matters: bool
    inside: bool
    times: float | None
    detail: Any  # a message, or a text


class Gain(Struct, frozen=True, kw_only=True):
    """The gain in median rate from a little more of one resource, in samples per second. `bottleneck` is the
    stage that binds with it."""

    resource: str
    step: Text
    samples_per_second: float
    percent: float
    bottleneck: Stage


class Explanation(Struct, frozen=True, kw_only=True):
    """What limits a rate: the stage that binds and its rate, the next stage (None: there is no other), the
    gain from more of each resource, and the distance from the measured rows."""

    bottleneck: Stage
    bottleneck_rate: float
    next_stage: Stage | None
    next_rate: float | None
    gains: tuple[Gain, ...]
    distances: tuple[Distance, ...]
