"""Instance types that are not recommended, with their reasons; records are made only when they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import CpuOnly
from advisor.catalog.support import BURSTABLE
from advisor.domain import (
    Candidate,
    DataKind,
    InstanceType,
    LazyRejected,
    Rejected,
    Stage,
    Workload,
    computes_on_cpu,
    nearest_first,
)
from advisor.engine.candidates import batches_of, plain_workload
from advisor.engine.columns import Booleans, Floats, Integers, Level
from advisor.engine.limits import MOST_FIRST_EPOCHS, TOO_SLOW, factors_of, level_of, limits
from advisor.engine.table import Table
from advisor.messages import Message, ceil_ms, ceil_span, floor_rate, format_rate, format_span, format_target
from advisor.models.performance.model import PerformanceModel
from advisor.questions.network import NetworkQuestion
from advisor.questions.spec import SpecQuestion


class CpuTypes(Struct, frozen=True):
    """Types without an accelerator, cheapest first; `most` is an upper bound of each one's samples per second
    (0: unknown), `usd` its USD per hour."""

    types: Sequence[CpuOnly]
    most: Floats
    usd: Floats

    @classmethod
    def of(cls, request: NetworkQuestion, model: PerformanceModel, types: Sequence[CpuOnly]) -> CpuTypes:
        """The types, given cheapest first, with the bounds that the model knows."""
        if not types:
            return cls([], np.empty(0), np.empty(0))
        most = model.most_on_cpu(
            batches_of(request, plain_workload(request)),
            np.array([cpu.cores for cpu in types]),
            np.array([cpu.mark for cpu in types]),
            [cpu.cpu_model for cpu in types],
        )
        return cls(types, most, np.array([cpu.usd_per_hour for cpu in types]))


class SlowCpus(Struct, frozen=True):
    """CPU types (by index in `cpus`) too slow for `wanted` even if all but computing took no time."""

    cpus: CpuTypes
    places: Integers
    wanted: float
    instances: int
    max_usd_per_hour: float | None

    def up_to(self, usd_per_hour: float) -> SlowCpus:
        """The slow types up to a price."""
        return replace(self, places=self.places[self.cpus.usd[self.places] <= usd_per_hour])

    def record(self, index: int) -> Rejected:
        """The record of a rejected type, by its index."""
        wanted = Message("{rate}/s", rate=format_target(self.wanted))
        if self.instances > 1:
            rate = format_rate(self.wanted / self.instances)
            wanted = Message("{rate}/s, its share as one of {count}", rate=rate, count=self.instances)
        cpu = self.cpus.types[index]
        detail = _cpu_bound(cpu.cores, float(self.cpus.most[index]), wanted)
        return Rejected(cpu.cloud, cpu.name, TOO_SLOW, detail, cpu.usd_per_hour)

    def factors(self, places: Integers) -> Floats:
        """The wanted rate over that of as many instances as price and count allow; inf where none is."""
        count, usd = np.full(len(places), float(self.instances)), self.cpus.usd[places]
        if self.max_usd_per_hour is not None:
            count = np.minimum(count, np.floor(self.max_usd_per_hour / usd))
        with np.errstate(divide="ignore"):
            return np.asarray(self.wanted / (self.cpus.most[places] * count))

    def near(self, price: float | None, most: int) -> Integers:
        """Indices that include the `most` nearest to `price`, of cheaper types and of dearer ones."""
        usd = self.cpus.usd[self.places]
        order = np.lexsort((np.abs(usd - (price or 0.0)), self.factors(self.places)))
        cheap = usd[order] < (np.inf if price is None else price)
        return np.asarray(self.places[np.concatenate([order[cheap][:most], order[~cheap][:most]])])


def _cpu_bound(cores: float, rate: float, wanted: Message) -> Message:
    if cores == 1:
        return Message(
            "its core computes at most {rate:rate}/s (median), below {wanted}",
            code="cpu_bound",
            rate=rate,
            wanted=wanted,
        )
    return Message(
        "its {cores:g} cores compute at most {rate:rate}/s (median), below {wanted}",
        code="cpu_bound",
        cores=cores,
        rate=rate,
        wanted=wanted,
    )


def ranked_by_bound(
    request: NetworkQuestion, cpus: CpuTypes, last: float
) -> tuple[dict[str, float], list[SlowCpus], list[Rejected]]:
    """CPU types by the bounds of their rates: those (by name) that may rank before `last`, best first, with a
    lower bound of their rank; those that are surely too slow; and others that are rejected for a missed limit
    or for bursting."""
    target, count = request.target_throughput or 0.0, request.max_count
    bursts = np.array([cpu.burstable for cpu in cpus.types], dtype=bool)
    slow = ~bursts & (cpus.most * count < target)
    rates = np.where(slow, np.inf, cpus.most)
    with np.errstate(divide="ignore", invalid="ignore"):
        run_usd = cpus.usd / (rates * 3600) * (request.run_samples or 1e6)
        hours = (request.run_samples or 0.0) / (rates * count * 3600)
        needed = np.maximum(1.0, np.ceil(target / np.where(rates > 0, rates, np.inf)))
    ranks = cpus.usd * needed if request.ranks_by_price else run_usd
    limited = any(
        limit is not None for limit in (request.max_hours, request.max_run_usd, request.max_usd_per_hour)
    )
    # With limits besides the rate, every type is checked, since each needs its reason.
    may = ~slow & ~bursts & ((ranks <= last) | (not request.ranks_by_price or limited))
    rejected = [
        Rejected(cpu.cloud, cpu.name, BURSTABLE.reason, BURSTABLE.detail, cpu.usd_per_hour)
        for cpu in cpus.types
        if cpu.burstable
    ]
    rejected += _missing_limits(request, cpus, may, hours, run_usd)
    places = np.flatnonzero(may)
    places = places[np.argsort(ranks[places], kind="stable")]
    most_usd = request.max_usd_per_hour
    too_slow = [SlowCpus(cpus, np.flatnonzero(slow), target, count, most_usd)] if slow.any() else []
    names = [cpus.types[index].name for index in places.tolist()]
    return dict(zip(names, ranks[places].tolist(), strict=True)), too_slow, rejected


def _missing_limits(
    request: NetworkQuestion, cpus: CpuTypes, may: Booleans, hours: Floats, run_usd: Floats
) -> Iterator[Rejected]:
    """Types that miss a limit even by their bounds; removes them from `may`."""
    checks = (
        (
            "too_long",
            hours,
            request.max_hours,
            Message("its run takes {least:hours} or more (median), above {limit:hours}"),
        ),
        (
            "over_max_cost",
            run_usd,
            request.max_run_usd,
            Message("its run costs {least:usd} or more (median), above {limit:usd}"),
        ),
        (
            "over_max_price",
            cpus.usd,
            request.max_usd_per_hour,
            Message("{least:usd}/h is above {limit:usd}/h"),
        ),
    )
    for reason, values, limit, message in checks:
        if limit is None or (reason != "over_max_price" and not request.run_samples):
            continue
        missed = may & (values > limit)
        for index in np.flatnonzero(missed).tolist():
            cpu = cpus.types[index]
            detail = Message(message.text, code=reason, least=float(values[index]), limit=limit)
            factor = float(values[index]) / limit
            yield Rejected(cpu.cloud, cpu.name, reason, detail, cpu.usd_per_hour, factor=factor)
        may &= ~missed


# No stack, memory format or precision speeds a network up by more than this factor.
MOST_GAIN = 4.0


class Missed(NamedTuple):
    """Rows of a table with the reasons for which their types are rejected."""

    request: NetworkQuestion
    table: Table
    rows: Sequence[tuple[int, str]]


class _Entry(NamedTuple):
    """The sort keys of a rejected type, and the `source` that makes its record from a row."""

    usd_per_hour: float | None
    instance_type: str
    reason: str
    factor: float
    source: Rejected | Missed | SlowCpus
    row: int = 0

    def record(self) -> Rejected:
        """The record of the rejected type."""
        match self.source:
            case Missed(request, table, _):
                return replace(rejected_row(request, table, self.row, self.reason), factor=self.factor)
            case SlowCpus():
                return replace(self.source.record(self.row), factor=self.factor)
            case _:
                return self.source


class Rejections(LazyRejected):
    """The rejected types, cheapest first, those without a price last."""

    def __init__(
        self, listed: Sequence[Rejected], missed: Missed | None = None, slow: Sequence[SlowCpus] = ()
    ) -> None:
        self._listed, self._missed, self._slow = listed, missed, slow

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The number of types by reason, most frequent first."""
        counts = Counter(rejected.reason for rejected in self._listed)
        counts.update(reason for _, reason in (self._missed.rows if self._missed else ()))
        counts[TOO_SLOW] += sum(len(slow.places) for slow in self._slow)
        return dict(sorted((+counts).items(), key=lambda item: (-item[1], item[0])))

    def nearest(self, price: float | None, most: int) -> list[Rejected]:
        """The `most` types nearest to a price, in the order of `nearest_first`; makes only their records."""
        entries = self._entries(lambda slow: slow.near(price, most))
        return [entry.record() for entry in nearest_first(entries, price)[:most]]

    def _entries(self, places: Callable[[SlowCpus], Integers]) -> list[_Entry]:
        """The rejected types in order; of slow CPU types only those at `places`."""
        entries = [
            _Entry(each.usd_per_hour, each.instance_type, each.reason, each.factor, each)
            for each in self._listed
        ]
        if missed := self._missed:
            usd, names, kinds = missed.table.usd, missed.table.names, missed.table.kind
            factors = factors_of(limits(missed.request, missed.table))
            entries += [
                _Entry(float(usd[row]), names[kinds[row]], reason, factors(row, reason), missed, row)
                for row, reason in missed.rows
            ]
        for slow in self._slow:
            types, wanted = slow.cpus.types, places(slow)
            entries += [
                _Entry(types[index].usd_per_hour, types[index].name, TOO_SLOW, factor, slow, index)
                for index, factor in zip(wanted.tolist(), slow.factors(wanted).tolist(), strict=True)
            ]
        return sorted(entries, key=price_order)

    def nearly_fast_gpus(self, usd_per_hour: float) -> tuple[str, ...]:
        """GPUs of types below a price that another setting may speed up enough to reach the target."""
        if self._missed is None:
            return ()
        request, table, rows = self._missed
        rates = table.rates[Level.MEDIAN]
        least = (request.target_throughput or 0.0) / MOST_GAIN
        near = [
            table.offer(row).instance.gpu_name
            for row, reason in rows
            if reason == TOO_SLOW and table.usd[row] < usd_per_hour and rates[row] >= least
        ]
        return tuple(dict.fromkeys(name for name in near if name))

    def __len__(self) -> int:
        return sum(self.counts.values())

    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    def __iter__(self) -> Iterator[Rejected]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _all(self) -> tuple[Rejected, ...]:
        return tuple(entry.record() for entry in self._entries(lambda slow: slow.places))


def price_order(rejected: _Entry | Rejected) -> tuple[float, str]:
    """A sort key: cheapest first, those without a price last."""
    usd = rejected.usd_per_hour
    return inf if usd is None else usd, rejected.instance_type


def rejected_row(request: NetworkQuestion, table: Table, row: int, reason: str) -> Rejected:
    """The record of a type that is rejected for a reason, with the figures of its row."""
    instance = table.offer(row).instance
    detail = shortfall(request, table, row, reason)
    usd, disk = float(table.usd[row]), str(table.disk[row].choice)
    return Rejected(instance.cloud, instance.name, reason, detail, usd, disk, int(table.count[row]))


def shortfall(request: NetworkQuestion, table: Table, row: int, reason: str) -> Message:
    """The limit that a row misses, as text with the deciding number."""
    shown = table.take(np.array([row]))
    level = level_of(request)
    if reason == TOO_SLOW:
        return too_slow(request, shown.candidates([0], request)[0])
    if reason == "slow_first_epoch":
        return Message(
            _FIRST_EPOCH_TEXTS[request.is_sure].text,
            code=reason,
            hours=ceil_span(request.dataset.samples / float(shown.first[level, 0]) / 3600),
            most=most_first_epoch_hours(request, float(shown.rates[level, 0])),
        )
    if reason == "latency":
        text = _LATENCY_TEXTS[request.is_sure].text
        batch, ms = int(shown.batch[0]), ceil_ms(float(shown.p99_seconds[level, 0]))
        return Message(text, code=reason, batch=batch, ms=ms, limit=request.max_latency_ms)
    usd = float(shown.usd[0])
    if shown.hours is not None:
        upper, median, _ = shown.hours[:, 0].tolist()
        if reason == "too_long":
            return run_shortfall(request, reason, request.max_hours, upper, median)
        if reason == "over_max_cost":
            return run_shortfall(request, reason, request.max_run_usd, upper * usd, median * usd)
    return plain_shortfall(reason, request.max_usd_per_hour, usd)


def misses(why: Message, code: str = "misses") -> Message:
    """The warning that a named instance misses a target or limit, or with code `may_miss` that it may."""
    text = Message("misses a target or limit: {why}")
    if code == "may_miss":
        text = Message("may miss a target or limit: {why}")
    return Message(text.text, code=code, why=why)


# Texts where the bound misses the limit (True), and where the median does (False).
_FIRST_EPOCH_TEXTS = {
    True: Message("its first epoch, from the disk, takes up to {hours:hours}, more than {most:hours}"),
    False: Message("its first epoch, from the disk, takes {hours:hours} (median), more than {most:hours}"),
}
_LATENCY_TEXTS = {
    True: Message("p99 latency of a batch of {batch} is up to {ms:,g} ms, above {limit:,g} ms"),
    False: Message("p99 latency of a batch of {batch} is {ms:,g} ms (median), above {limit:,g} ms"),
}
_RUN_TEXTS = {
    ("too_long", True): Message(
        "its run takes up to {upper:hours}, more than {limit:hours}; median {median:hours}"
    ),
    ("over_max_cost", True): Message(
        "its run costs up to {upper:usd}, more than {limit:usd}; median {median:usd}"
    ),
    ("too_long", False): Message("its run takes {median:hours} (median), more than {limit:hours}"),
    ("over_max_cost", False): Message("its run costs {median:usd} (median), more than {limit:usd}"),
}


def run_shortfall(
    request: SpecQuestion, reason: str, limit: float | None, upper: float, median: float
) -> Message:
    """That a run takes, or may take, too many hours or too many dollars."""
    text = _RUN_TEXTS[reason, request.is_sure].text
    if reason == "too_long":  # dollars are told to the cent
        upper = ceil_span(upper)
        # As it is told elsewhere, but where that is the limit.
        is_near = limit is not None and format_span(median) == format_span(limit)
        median = ceil_span(median) if is_near and not request.is_sure else median
    return Message(text, code=reason, upper=upper, limit=limit, median=median)


def plain_shortfall(reason: str, limit: float | None, usd_per_hour: float) -> Message:
    """The text that the hourly price is above its limit, or that there is no calibrated interval."""
    if reason == "over_max_price":
        return Message("{usd:usd}/h is above {limit:usd}/h", code=reason, usd=usd_per_hour, limit=limit)
    return Message("no calibrated interval for it (--allow-extrapolation judges it)", code=reason)


def most_first_epoch_hours(request: NetworkQuestion, lower: float) -> float:
    """Hours that the first epoch of a row may take, given the lower bound of its rate."""
    if request.max_first_epoch_hours is not None:
        return request.max_first_epoch_hours
    rate = (request.target_throughput or lower) / MOST_FIRST_EPOCHS
    return request.dataset.samples / rate / 3600


# Texts where the bound decides, the same where the median would be enough, and where the median decides.
_RATE_TEXTS = (
    Message("p{p:.3g} is {lower:,g}/s, below {target:target}/s; bound by {stage}"),
    Message("p{p:.3g} is {lower:,g}/s, below {target:target}/s, which its median reaches; bound by {stage}"),
    Message("its median is {median:,g}/s, below {target:target}/s; bound by {stage}"),
)


def too_slow(request: NetworkQuestion, candidate: Candidate) -> Message:
    """By how much a candidate misses the target rate."""
    rate, target = candidate.prediction, request.target_throughput or 0.0
    return Message(
        _RATE_TEXTS[int(rate.median >= target) if request.is_sure else 2].text,
        code=TOO_SLOW,
        p=100 * (1 - request.confidence),
        lower=floor_rate(rate.lower),
        median=floor_rate(rate.median),
        target=target,
        stage=stage_name(rate.bottleneck, candidate.spec.offer.instance, candidate.workload),
    )


_HOST_NAMES = {
    DataKind.TOKENS: Message("making tokens on the vCPUs"),
    DataKind.TENSOR: Message("copying samples on the vCPUs"),
}
STAGE_NAMES = {
    Stage.ACCELERATOR: Message("the GPU"),
    Stage.HOST: Message("decoding on the vCPUs"),
    Stage.STORAGE: Message("reading the disk"),
    Stage.TRANSFER: Message("copying to the GPU"),
    Stage.NETWORK: Message("the network between nodes"),
}
_ON_CPU = Message("CPU compute")


def stage_name(stage: Stage, instance: InstanceType, workload: Workload) -> Message:
    """The name of the stage that binds; on a CPU-only instance the accelerator is the CPU."""
    if stage is Stage.ACCELERATOR and computes_on_cpu(instance, workload):
        return _ON_CPU
    if stage is Stage.HOST:
        return _HOST_NAMES.get(workload.dataset.kind, STAGE_NAMES[stage])
    return STAGE_NAMES[stage]
