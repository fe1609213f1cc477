"""The table of candidates for a network: columns of offers, disks, batch sizes, predictions and costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from threading import Lock
from zlib import crc32

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog, resources_of
from advisor.catalog.support import used_gpus
from advisor.domain import (
    CacheState,
    Candidate,
    Disk,
    DiskRate,
    Latency,
    Offer,
    Prediction,
    Resources,
    RunTime,
    Span,
    Spec,
    Stage,
    Task,
    Workload,
)
from advisor.domain.results import P99_OVER_P50
from advisor.engine.candidates import Runnable
from advisor.engine.columns import Booleans, Floats, Integers, Level, Objects
from advisor.models.performance.machines import DiskTable
from advisor.models.performance.model import PerformanceModel
from advisor.models.performance.prepared import PreparedRows
from advisor.questions.network import NetworkQuestion

# A disk that limits nothing: a slow one would hide how uncertain the other stages are.
NO_LIMIT = DiskRate(type="memory", read_mib_per_second=None, read_iops=None)


def batch_latencies(
    pairs: Sequence[tuple[Workload, Resources]], model: PerformanceModel, confidence: float
) -> list[Latency | None]:
    """The latency of each pair, in order, on one GPU, since batches are not split; None without inference."""
    if not any(workload.task is Task.INFERENCE for workload, _ in pairs):
        return [None] * len(pairs)
    in_memory = [(workload, replace(has, disk=NO_LIMIT, gpu_count=1)) for workload, has in pairs]
    distinct = list(dict.fromkeys(in_memory))
    predictions = model.predict(distinct, confidence=confidence)
    latency_of = {
        (workload, has): batch_latency(workload, has.vcpus, prediction)
        for (workload, has), prediction in zip(distinct, predictions, strict=True)
    }
    return [latency_of[pair] for pair in in_memory]


def batch_latency(workload: Workload, vcpus: float, prediction: Prediction) -> Latency | None:
    """The latency of a batch: decoding, copying and computing in sequence; None without inference. A sample
    is decoded on one vCPU, so that a batch smaller than the vCPUs takes as long as one sample. Reading the
    disk does not count: requests arrive in memory. p99 is the jitter factor times the latency at the lower
    bound of a prediction without a disk."""
    if workload.task is not Task.INFERENCE:
        return None
    batch, rates = float(workload.batch_size), prediction.stage_rates
    seconds = batch / rates[Stage.ACCELERATOR]
    if Stage.TRANSFER in rates:
        seconds += batch / rates[Stage.TRANSFER]
    if Stage.HOST in rates:
        seconds += max(batch, vcpus) / rates[Stage.HOST]
    doubt = prediction.median / prediction.lower if prediction.lower > 0 else float("inf")
    return Latency(p50_seconds=seconds, p99_seconds=P99_OVER_P50 * doubt * seconds)


# Cloud, type, the most GPUs, nodes, and the number of the workload.
_Key = tuple[str, str, int | None, int, int]


class Predictions:
    """Predictions of a network on instances at one confidence, without the disk; rows are only ever added."""

    def __init__(self, catalog: Catalog, model: PerformanceModel, confidence: float) -> None:
        self.pairs: list[tuple[Workload, Resources]] = []
        self.batch: Integers = np.empty(0, dtype=np.intp)
        self._catalog, self._model, self._confidence = catalog, model, confidence
        self._prepared: PreparedRows | None = None
        self._places: dict[_Key, int] = {}
        self._workloads: dict[Workload, int] = {}
        self._latencies: dict[int, Latency | None] = {}
        self._growing = Lock()

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def rows(self) -> PreparedRows:
        """The prepared rows; there must be one."""
        assert self._prepared is not None
        return self._prepared

    def rows_of(self, options: Sequence[Runnable]) -> Integers:
        """The rows of each option's workloads, one option after the other."""
        with self._growing:  # no thread may lose what another one has added meanwhile
            rows, pairs = [], list[tuple[Workload, Resources]]()
            for option in options:
                instance, has = option.offer.instance, None
                for workload in option.workloads:
                    number = self._workloads.setdefault(workload, len(self._workloads))
                    key = (instance.cloud, instance.name, option.max_gpus, option.nodes, number)
                    row = self._places.get(key)
                    if row is None:
                        row = self._places[key] = len(self.pairs) + len(pairs)
                        if has is None:
                            disk = option.disks[0]
                            has = resources_of(
                                self._catalog, option.offer, disk, option.max_gpus, option.nodes
                            )
                        pairs.append((workload, has))
                    rows.append(row)
            if pairs:
                added = self._model.prepare(pairs, confidence=self._confidence)
                self._prepared = added if self._prepared is None else self._prepared.beside(added)
                sizes = np.array([workload.batch_size for workload, _ in pairs], dtype=np.intp)
                self.batch = np.concatenate([self.batch, sizes])
                self.pairs = [*self.pairs, *pairs]
        return np.array(rows, dtype=np.intp)

    def latencies(self, rows: Sequence[int]) -> list[Latency | None]:
        """The latency of a batch for each of the rows, which does not depend on the disk."""
        missing = [row for row in dict.fromkeys(rows) if row not in self._latencies]
        if missing:
            pairs = [self.pairs[row] for row in missing]
            latencies = batch_latencies(pairs, self._model, self._confidence)
            self._latencies.update(zip(missing, latencies, strict=True))
        return [self._latencies[row] for row in rows]


class Candidates(Struct, frozen=True, kw_only=True, dict=True):
    """Options (offers that can run a request) at all their batch sizes. `kind` is the index of each option's
    instance type in `names` and `cheapest_offer`. `rows` are the rows of the predictions of all options, one
    option after the other; `sizes` are their numbers."""

    request: NetworkQuestion
    predictions: Predictions
    options: list[Runnable]
    names: Objects
    cheapest_offer: Floats
    kind: Integers
    sizes: Integers
    rows: Integers
    nodes: Integers
    gpus: Integers
    offer_usd: Floats

    @classmethod
    def of(
        cls, request: NetworkQuestion, options: Iterable[Runnable], predictions: Predictions
    ) -> Candidates:
        """The candidates of options (at least one), grouped by type."""
        by_type: dict[tuple[str, str], list[Runnable]] = {}
        for option in options:
            instance = option.offer.instance
            by_type.setdefault((instance.cloud, instance.name), []).append(option)
        sorted_options = [option for some in by_type.values() for option in some]
        nodes = np.array([option.nodes for option in sorted_options], dtype=np.intp)
        gpus = [
            1 if request.task is Task.PREPROCESSING else used_gpus(option.offer.instance, option.max_gpus)
            for option in sorted_options
        ]
        return cls(
            request=request,
            predictions=predictions,
            options=sorted_options,
            names=np.array([name for _, name in by_type], dtype=object),
            cheapest_offer=np.array(
                [min(option.offer.price.usd_per_hour for option in some) for some in by_type.values()]
            ),
            kind=np.repeat(np.arange(len(by_type)), [len(some) for some in by_type.values()]),
            sizes=np.array([len(option.workloads) for option in sorted_options], dtype=np.intp),
            rows=predictions.rows_of(sorted_options),
            nodes=nodes,
            gpus=nodes * np.array(gpus),
            offer_usd=np.array([option.offer.price.usd_per_hour for option in sorted_options]),
        )

    def beside(self, other: Candidates) -> Candidates:
        """These candidates, followed by those of other types; indices of options and types stay valid."""
        names = ("names", "cheapest_offer", "sizes", "rows", "nodes", "gpus", "offer_usd")
        return Candidates(
            request=self.request,
            predictions=self.predictions,
            options=[*self.options, *other.options],
            kind=np.concatenate([self.kind, other.kind + len(self.names)]),
            **{name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names},
        )

    @cached_property
    def grid(self) -> Table:
        """The table of every option with each of its disks at each batch size."""
        return self.with_disks(
            [(index, disk) for index, option in enumerate(self.options) for disk in option.disks]
        )

    def with_disks(self, wanted: Sequence[tuple[int, Disk]]) -> Table:
        """The table of options (by index) with disks of any order, at each batch size."""
        options = np.array([index for index, _ in wanted], dtype=np.intp)
        sizes = self.sizes[options]
        spec = np.repeat(np.arange(len(wanted)), sizes)
        within = np.arange(len(spec)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        first = np.cumsum(self.sizes) - self.sizes
        rows = self.rows[first[options][spec] + within]
        return self.rows_with(rows, options[spec], [disk for _, disk in wanted], spec)

    def rows_with(self, rows: Integers, options: Integers, disks: Sequence[Disk], which: Integers) -> Table:
        """The table of rows of options; `which` is the index of each row's disk in `disks`."""
        request, nodes, predictions = self.request, self.nodes[options], self.predictions
        rates = DiskTable.of([disk.rate for disk in disks]).take(which)
        steady = predictions.rows.columns_with(rows, rates)
        first = steady
        if request.task is Task.TRAINING:
            first = predictions.rows.columns_with(rows, rates, CacheState.COLD)
        p99 = np.zeros((2, len(rows)))
        if request.max_latency_ms is not None:
            latencies = predictions.latencies(rows.tolist())
            seconds = [
                (np.inf, np.inf) if latency is None else (latency.p99_seconds, latency.p99_median_seconds)
                for latency in latencies
            ]
            p99 = np.array(seconds).reshape(-1, 2).T
        return Table(
            source=self,
            kind=self.kind[options],
            option=options,
            spec=which,
            row=rows,
            disk=np.fromiter(disks, object)[which],
            disk_type=np.array([_number_of(disk.rate.type) for disk in disks], dtype=np.intp)[which],
            batch=predictions.batch[rows],
            offer_usd=self.offer_usd[options],
            disk_usd=np.array([disk.usd_per_hour for disk in disks], dtype=float)[which],
            each=np.array([steady.lower, steady.median, steady.upper]),
            calibrated=steady.calibrated,
            bottleneck=steady.bottleneck,
            first=nodes * np.array([first.lower, first.median, first.upper]),
            p99_seconds=p99,
            count=nodes,
        )


class Table(Struct, frozen=True, kw_only=True):
    """Candidates as columns (n,), in the order in which they were made. `kind`, `option` and `row` are
    indices of the instance types, options and predictions of `source`; `spec` numbers offers with a disk.
    Rates and times are (3, n) by `Level` (p99 only its first two): rates `each` of one instance, `first` of
    the first pass over the data, of all nodes that train together, and the `hours` of the run on all `count`
    instances, including `start_hours`; None where there is no run."""

    source: Candidates
    kind: Integers
    option: Integers
    spec: Integers
    row: Integers
    disk: Objects
    disk_type: Integers
    batch: Integers
    offer_usd: Floats
    disk_usd: Floats
    each: Floats
    calibrated: Booleans
    bottleneck: Integers
    first: Floats
    p99_seconds: Floats
    count: Integers
    hours: Floats | None = None
    start_hours: float = 0.0

    def __len__(self) -> int:
        return len(self.row)

    @property
    def names(self) -> Objects:
        """The names of the instance types."""
        return self.source.names

    @property
    def usd_each(self) -> Floats:
        """Dollars per hour of one instance and its disk."""
        return self.offer_usd + self.disk_usd

    @property
    def usd(self) -> Floats:
        """Dollars per hour of all instances and disks."""
        return self.count * (self.offer_usd + self.disk_usd)

    @property
    def rates(self) -> Floats:
        """The rates (3, n) of all instances together."""
        return self.count * self.each

    @property
    def lower(self) -> Floats:
        """The lower bound of the rate of all instances together."""
        return np.asarray(self.count * self.each[Level.SURE])

    def take(self, rows: Integers | Booleans) -> Table:
        """Some of the rows."""
        if rows.dtype == bool and rows.all():
            return self
        return replace(self, **{name: getattr(self, name)[..., rows] for name in self._columns()})

    def beside(self, other: Table) -> Table:
        """These rows, followed by those of another table, whose candidates start with the same ones."""
        columns = {
            name: np.concatenate([getattr(self, name), getattr(other, name)], axis=-1)
            for name in self._columns()
        }
        columns["spec"] = np.concatenate([self.spec, other.spec + int(self.spec.max(initial=-1)) + 1])
        more = len(other.source.options) > len(self.source.options)
        return replace(self, source=other.source if more else self.source, **columns)

    def followed_by(self, other: Table) -> Table:
        """These rows, followed by those of candidates of other types."""
        source = self.source
        moved = replace(
            other,
            source=source.beside(other.source),
            kind=other.kind + len(source.names),
            option=other.option + len(source.options),
        )
        return self.beside(moved)

    def _columns(self) -> Sequence[str]:
        return _COLUMNS if self.hours is None else (*_COLUMNS, "hours")

    def offers(self) -> list[Offer]:
        """The offers that `option` numbers."""
        return [option.offer for option in self.source.options]

    def offer(self, row: int) -> Offer:
        """The offer of a row."""
        return self.source.options[int(self.option[row])].offer

    def candidates(self, rows: Iterable[int], request: NetworkQuestion) -> list[Candidate]:
        """Some rows as records, with latencies where the request limits them."""
        rows = list(rows)
        known, places, disks = self.source.predictions, self.row[rows].tolist(), self.disk[rows].tolist()
        predictions = known.rows.with_disks(places, [disk.rate for disk in disks])
        limited = request.max_latency_ms is not None
        latencies = known.latencies(places) if limited else [None] * len(rows)
        records = []
        for row, pair, disk, prediction, latency in zip(
            rows, places, disks, predictions, latencies, strict=True
        ):
            option, count = self.source.options[int(self.option[row])], int(self.count[row])
            first = self.first_epoch(row, request)
            records.append(
                Candidate(
                    spec=Spec(offer=option.offer, disk=disk, count=count),
                    workload=known.pairs[pair][0],
                    prediction=prediction.times(count),
                    latency=latency,
                    run=self._run(row, request, first),
                    first_epoch=first,
                    notes=option.notes,
                )
            )
        return records

    def first_epoch(self, row: int, request: NetworkQuestion) -> Span | None:
        """Hours of a row's first epoch, or of the part that is run; None without training."""
        if request.task is not Task.TRAINING:
            return None
        samples = request.first_samples
        rates = self.first[:, row]
        upper, median, lower = (float(samples / rate / 3600) if rate else math.inf for rate in rates)
        return Span(lower=lower, median=median, upper=upper)

    def _run(self, row: int, request: NetworkQuestion, first: Span | None) -> RunTime | None:
        if request.run_samples is None or self.hours is None:
            return None
        upper, median, lower = self.hours[:, row].tolist()
        hours = Span(lower=lower, median=median, upper=upper)
        return RunTime(samples=request.run_samples, hours=hours, first_epoch=first)


_COLUMNS = tuple(n for n in Table.__struct_fields__ if n not in ("source", "hours", "start_hours"))


def best_of_each(groups: Integers, *keys: Floats | Integers) -> Integers:
    """The position of each group's least row by the keys in order; ties go to the first."""
    order = np.lexsort((*reversed(keys), groups))
    sorted_groups = groups[order]
    first = np.concatenate([[True], sorted_groups[1:] != sorted_groups[:-1]])[: len(order)]
    return np.asarray(order[first])


@cache
def _number_of(disk_type: str) -> int:
    """A number for a type of disk that is the same in every process, unlike that of `hash`."""
    return crc32(disk_type.encode())
