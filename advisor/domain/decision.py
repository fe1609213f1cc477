"""Answers: candidates, why others were turned down, what would change the answer, and what explains it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from enum import Enum
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

# Whoever rents a spec that misses pays for it and for the one that is rented then: a miss costs about
# the price once more (docs/explanation/choice.md).
MISS_COST = 1.0
# The code of a warning: what to relax was not searched to its end.
RELAXING_STOPPED = "relaxing_stopped"
# A `Message`, which this room does not know, or a plain text; `str` of it is English.
Text = Any


def computes_on_cpu(instance: InstanceType, workload: Workload) -> bool:
    """Whether the network runs on the instance's CPU, which then is the accelerator."""
    return instance.gpu_name is None and workload.task is not Task.PREPROCESSING


class Candidate(Struct, frozen=True, kw_only=True):
    """A spec with the batch size that suits it and the throughput predicted for it.

    `prediction` and `run` are those of all its instances together, `latency` is one batch's, on one GPU of
    one of them. The batch size is that of one GPU. `first_epoch` is its hours where it trains: RAM caches
    nothing yet, so that the disk is read. `probability` is the chance that it keeps the target and every
    limit that its rate decides, in an answer at a price as sure as it is then; None where there is none."""

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
        """Cost of the whole run, instance and disk together; None where no run was asked for."""
        return self.run.hours.times(self.spec.total_usd_per_hour) if self.run else None

    @property
    def usd_per_million_samples(self) -> float:
        """Cost of a million samples at the median throughput, instance and disk together."""
        return self.spec.total_usd_per_hour / (self.prediction.median * 3600) * 1e6


# A settled question (`advisor.questions`), which this room does not know.
AnyQuestion = Any
# A `Candidate`, or that of a language model (`advisor.domain.language`).
AnyCandidate = Any


class CloseCall(Struct, frozen=True, kw_only=True):
    """A narrow decision that one trial of `candidate` would settle.

    `probability` is the chance that the trial reaches the target. If it does, that saves `saves_usd_per_hour`
    against `instead` (the chosen one; for a chosen one that may miss, the cheapest that is much safer); both
    None where nothing else answers. The trial takes `trial_minutes` and costs `trial_usd`; it is expected to
    save `worth_usd` over the horizon. `saves_usd_per_run` is None unless a run is asked for: then that
    counts, and `worth_usd` is the run's."""

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
    """The dependence of an answer on a price that is not listed, or that is old.

    `listed` is the cheapest spec at listed prices, None where no listed price answers; it is the chosen one
    itself where `cheaper`, which costs less at the median of its price, might cost more. `cheaper` None: the
    chosen one is cheaper even where its price is at its upper bound."""

    listed: AnyCandidate | None
    cheaper: AnyCandidate | None = None


class OtherSetting(Struct, frozen=True, kw_only=True):
    """The rate of the same spec under another stack, memory format or precision.

    `option` asks for it, as does the `value` of a question's `field`. `gpu_gain` is the factor by which the
    GPU alone is faster, `measured` whether rows of this very network tell it. `prediction` is of the whole
    with it, `gain` the factor by which its median is higher: 1 where something else binds. `instead` is the
    spec that would be chosen with it, where that costs clearly less."""

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
    """One constraint of a request, changed as little as it takes.

    `constraint` is its name in a request; `before` and `after` are what `option` takes, None where it is left
    out."""

    constraint: str
    option: str
    before: str
    after: str | None


class Relaxation(Struct, frozen=True, kw_only=True):
    """Changes that together make something answer, and what is recommended then."""

    changes: tuple[Change, ...]
    gives: AnyCandidate


def price_chance(candidate: AnyCandidate, request: AnyQuestion) -> float:
    """The chance that the price of a candidate keeps the limits on money, at the median of its rate."""
    spec, run = candidate.spec, getattr(candidate, "usd_per_run", None)
    limits = [most for most in (request.max_usd_per_hour,) if most is not None]
    if run and run.median and (most := getattr(request, "max_run_usd", None)):
        limits.append(most / run.median * spec.total_usd_per_hour)
    return min(map(spec.chance_within, limits), default=1.0)


R = TypeVar("R")
C = TypeVar("C")
N = TypeVar("N", float, "NDArray[np.float64]")


def expected_cost(cost: N, chance: N) -> N:
    """The cost of a spec, or of several, with what a miss is expected to cost."""
    return cost * (1 + MISS_COST * (1 - chance))


class Judged(Struct, Generic[R, C], frozen=True, kw_only=True):
    """An answer that turned types down. `ranked` is empty where no offer meets the target: then `nearest`
    comes closest within the price (`nearest_misses` says what it misses), and `beyond_price` would answer if
    its price were allowed.

    `rejected_counts` says how many types each reason took out; `offers_considered` counts the priced offers
    looked at. `close_calls` begins with the spec whose trial is worth most, and has the chosen one where it
    may miss; `no_trial` says why where it has not. `relaxations` say what would make something answer where
    nothing does: one change each, cheapest first, or two where one is not enough. `price_call` is None where
    listed prices alone decide. `safe` is the cheapest spec that keeps target and limits at the confidence of
    its bounds, where the chosen one does not. `level` counts the specs whose costs cannot be told apart from
    the lowest."""

    request: R
    ranked: tuple[C, ...]
    nearest: C | None
    nearest_misses: tuple[Text, ...] = ()
    beyond_price: C | None = None
    rejected: Sequence[Rejected]
    rejected_counts: Mapping[str, int] | None = None
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
        """Whether the chosen spec keeps target and limits at the confidence of its bounds."""
        chosen: AnyCandidate = self.chosen
        required: AnyQuestion = self.request
        return chosen is not None and (chosen.probability or 1.0) >= required.confidence

    @property
    def chosen(self) -> C | None:
        """The cheapest spec that meets the target; without one, the cheapest by what it does."""
        return self.ranked[0] if self.ranked else None

    def nearest_rejected(self, most: int | None = None) -> Sequence[Rejected]:
        """The rejected types, or the first `most` of them, as `nearest_first` orders them."""
        chosen: AnyCandidate = self.chosen
        price = chosen.spec.total_usd_per_hour if chosen else None
        if most is not None and isinstance(self.rejected, LazyRejected):
            return self.rejected.nearest(price, most)
        return nearest_first(self.rejected, price)[:most]

    @property
    def rejected_by_reason(self) -> dict[str, int]:
        """The number of types that each reason rejected, the most frequent first."""
        counts = self.rejected_counts or Counter(map(attrgetter("reason"), self.rejected))
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


class Recommendation(Judged[AnyQuestion, Candidate], frozen=True, kw_only=True):
    """The answer about a network.

    `live` tells what was asked of the cloud for this answer; None where nothing was to be asked. `pareto`,
    where it is asked for or there is no target, are the specs that answer and that none other beats in price
    and rate. `other_settings` are of the chosen one."""

    live: LiveCheck | None = None
    pareto: tuple[Candidate, ...] = ()
    other_settings: tuple[OtherSetting, ...] = ()


class BatchPoint(Struct, frozen=True, kw_only=True):
    """The rate of an instance at one batch size; `latency` is None but for inference."""

    batch_size: int
    prediction: Prediction
    latency: Latency | None


class InstancePrediction(Struct, frozen=True, kw_only=True):
    """One named instance with a disk, what it will reach, and its price where that is known.

    `by_batch` holds every batch size that fits, rising; `good_batch_size` is the smallest of them within 5 %
    of the best lower bound: beyond it the throughput is saturated. `assumptions` and `warnings` say what it
    takes for granted, and what weakens it."""

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
    region: str | None = None  # whose price it is
    other_settings: tuple[OtherSetting, ...] = ()

    @property
    def total_usd_per_hour(self) -> float | None:
        """Instance and disk; None where the price of either is not known."""
        disk_usd = self.disk.known_usd_per_hour
        return None if self.price is None or disk_usd is None else self.price.usd_per_hour + disk_usd

    @property
    def usd_per_million_samples(self) -> float | None:
        """Cost of a million samples at the median throughput; None without a price."""
        total = self.total_usd_per_hour
        return None if total is None else total / (self.prediction.median * 3600) * 1e6

    @property
    def usd_per_run(self) -> Span | None:
        """Cost of the whole run; None where no run was asked for, or no price is known."""
        usd = self.total_usd_per_hour
        return None if self.run is None or usd is None else self.run.hours.times(usd)


class OnGpu(Struct, frozen=True, kw_only=True):
    """A network on a GPU with its samples on the device; `workload` None: no batch surely fits.

    The batch is the smallest within 5 % of the best that surely fits."""

    gpu: Gpu
    network: str
    workload: Workload | None = None
    prediction: Prediction | None = None
    other_settings: tuple[OtherSetting, ...] = ()


def relative(prediction: Prediction | None, baseline: Prediction | None) -> float | None:
    """Likely rate over the baseline's; None where either cannot run."""
    if prediction is None or baseline is None:
        return None
    return prediction.median / baseline.median


def geometric_mean(ratios: Sequence[float | None]) -> float | None:
    """The mean of all ratios; None where one is missing: a mean over fewer networks compares nothing."""
    known = [ratio for ratio in ratios if ratio is not None]
    if not known or len(known) < len(ratios):
        return None
    return math.exp(sum(map(math.log, known)) / len(known))


class Distance(Struct, frozen=True, kw_only=True):
    """The distance of one fact of a prediction from the measured rows.

    `times` is the fact over the nearest measured one, 1 inside of the measured range; None where no number
    says it. `matters` is False where the rate hardly depends on the `stage`."""

    subject: str
    stage: Stage
    matters: bool
    inside: bool
    times: float | None
    detail: Any  # a message, or a text


class Gain(Struct, frozen=True, kw_only=True):
    """The gain of a little more of one resource in the median rate, in samples per second.

    `bottleneck` is what binds then."""

    resource: str
    step: Text
    samples_per_second: float
    percent: float
    bottleneck: Stage


class Explanation(Struct, frozen=True, kw_only=True):
    """The stage that binds and its own rate, the stage that comes next (None: there is no other), the
    gain of more of each resource, and the distance from the measured rows."""

    bottleneck: Stage
    bottleneck_rate: float
    next_stage: Stage | None
    next_rate: float | None
    gains: tuple[Gain, ...]
    distances: tuple[Distance, ...]
