"""Candidates as rows of columns: an offer with a disk at a batch size, what is predicted of it and
what it costs. Records are made only of the rows that are shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.catalog import Catalog, resources_of
from advisor.catalog.support import used_gpus
from advisor.domain import (
    CacheState,
    Candidate,
    Disk,
    DiskRate,
    Latency,
    Offer,
    Request,
    Resources,
    RunTime,
    Span,
    Spec,
    Task,
    Workload,
)
from advisor.engine.candidates import Runnable
from advisor.engine.probability import batch_latencies
from advisor.models.performance.machines import DiskTable

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers, PerformanceModel, PreparedRows, Rates

Objects = NDArray[Any]


class Block:
    """Offers that were predicted together at all their batch sizes: the model's rows, and what
    of them no disk changes. `disks` of a table are whatever disks they are asked with."""

    def __init__(
        self, request: Request, catalog: Catalog, model: PerformanceModel, options: Iterable[Runnable]
    ) -> None:
        by_type: dict[tuple[str, str], list[Runnable]] = {}
        for option in options:
            instance = option.offer.instance
            by_type.setdefault((instance.cloud, instance.name), []).append(option)
        self.request, self._model = request, model
        self.options = [option for some in by_type.values() for option in some]
        self.names = [name for _, name in by_type]
        self.cheapest_offer = np.array(
            [min(one.offer.price.usd_per_hour for one in some) for some in by_type.values()]
        )
        counts = [len(some) for some in by_type.values()]
        self.kinds = np.repeat(np.arange(len(by_type)), counts)
        self._pairs: list[tuple[Workload, Resources]] = []
        for option in self.options:
            has = resources_of(catalog, option.offer, option.disks[0], option.max_gpus, option.nodes)
            self._pairs += [(workload, has) for workload in option.workloads]
        self.sizes = np.array([len(one.workloads) for one in self.options], dtype=np.intp)
        self.first = np.cumsum(self.sizes) - self.sizes
        preprocessing = request.task is Task.PREPROCESSING
        self.nodes = np.array([one.nodes for one in self.options], dtype=np.intp)
        self.gpus = self.nodes * np.array(
            [1 if preprocessing else used_gpus(one.offer.instance, one.max_gpus) for one in self.options]
        )
        self.offer_usd = np.array([one.offer.price.usd_per_hour for one in self.options])
        # The model's rows: each option at each of its batch sizes.
        self.rows = model.prepare(self._pairs, confidence=request.confidence)
        self._latencies: dict[int, Latency | None] = {}
        self._at: dict[tuple[float, ...], PreparedRows] = {}
        # Log rates with less and less of a disk, by row and disk: see `least_disk`.
        self.reached: dict[tuple[int, DiskRate], Floats] = {}

    @cached_property
    def workloads(self) -> Objects:
        """Of each of the model's rows."""
        return _objects([workload for workload, _ in self._pairs])

    @cached_property
    def grid(self) -> Table:
        """Every option with each of its disks at each batch size."""
        return self.with_disks([(at, disk) for at, one in enumerate(self.options) for disk in one.disks])

    @cached_property
    def on_hard_disks(self) -> Table:
        """The same with the hard disks, which are seldom enough."""
        return self.with_disks([(at, disk) for at, one in enumerate(self.options) for disk in one.slow_disks])

    def with_disks(self, wanted: Sequence[tuple[int, Disk]]) -> Table:
        """Options (by their place) with disks of any order, at each batch size."""
        options = np.array([at for at, _ in wanted], dtype=np.intp)
        sizes = self.sizes[options]
        spec = np.repeat(np.arange(len(wanted)), sizes)
        within = np.arange(len(spec)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = self.first[options][spec] + within
        return self.rows_with(rows, options[spec], [disk for _, disk in wanted], spec)

    def rows_with(self, rows: Integers, options: Integers, disks: Sequence[Disk], which: Integers) -> Table:
        """The model's rows of options, each with one of the disks: `which` of them."""
        count, request, nodes = len(rows), self.request, self.nodes[options]
        if not count:
            return Table.empty(self)
        rates = DiskTable.of([disk.rate for disk in disks]).take(which)
        steady = self.rows.columns_with(rows, rates)
        first = steady
        if request.task is Task.TRAINING:
            first = self.rows.columns_with(rows, rates, CacheState.COLD)
        disk_usd = np.array([disk.usd_per_hour for disk in disks])[which]
        workloads = self.workloads[rows]
        p99 = np.zeros(count)
        if request.max_latency_ms is not None:
            p99 = self._p99_seconds[rows]
        return Table(
            blocks=(self,),
            block=np.zeros(count, dtype=np.intp),
            names=_objects(self.names),
            cheapest_offer=self.cheapest_offer,
            kind=self.kinds[options],
            option=options,
            spec=which,
            row=rows,
            disk=_objects(disks)[which],
            disk_type=np.array([hash(disk.rate.type) for disk in disks])[which],
            batch=np.array([workload.batch_size for workload in workloads]),
            offer_usd=self.offer_usd[options],
            disk_usd=disk_usd,
            lower_each=steady.lower,
            median_each=steady.median,
            upper_each=steady.upper,
            calibrated=steady.calibrated,
            bottleneck=steady.bottleneck,
            first_lower=nodes * first.lower,
            first_median=nodes * first.median,
            first_upper=nodes * first.upper,
            p99_seconds=p99,
            count=nodes,
        )

    @cached_property
    def _p99_seconds(self) -> Floats:
        """Of each of the model's rows; infinite where nobody waits."""
        found = self.latencies(range(len(self._pairs)))
        return np.array([np.inf if one is None else one.p99_seconds for one in found])

    def latencies(self, rows: Iterable[int]) -> list[Latency | None]:
        """How soon a batch of some rows is done; disks have no part in it."""
        wanted = list(rows)
        missing = [row for row in wanted if row not in self._latencies]
        if missing:
            pairs = [self._pairs[row] for row in missing]
            told = batch_latencies(pairs, self._model, self.request.confidence)
            self._latencies.update(zip(missing, told, strict=True))
        return [self._latencies[row] for row in wanted]

    def at_confidences(
        self, confidences: Sequence[float], rows: Sequence[int], disks: Sequence[DiskRate], *, whole: bool
    ) -> Rates:
        """Some rows with a disk each, at the first confidence, then at the next; `whole` prepares
        all rows, once."""
        key, places, count = tuple(confidences), rows, len(self._pairs)
        prepared = self._at.get(key)
        if prepared is None:
            pairs = self._pairs if whole else [self._pairs[row] for row in rows]
            prepared = self._model.prepare_each(pairs, confidences=confidences)
            if whole:
                self._at[key] = prepared
            else:
                places, count = range(len(rows)), len(rows)
        every = [level * count + place for level in range(len(key)) for place in places]
        return prepared.columns_with(np.array(every), DiskTable.of([*disks] * len(key)))


class Table(Struct, frozen=True, kw_only=True):
    """Candidates as columns (n,), in the order in which they were made.

    `names` and `cheapest_offer` are of the instance types, which `kind` numbers; `option` numbers
    offers and `spec` offers with a disk, `row` the model's rows in `blocks[block]`. Rates ending in
    `_each` are one instance's, `first_*` those of the first pass over the data, of all nodes that
    train together. `hours_*` are the run's on all `count` instances, 0 where there is no run.
    """

    blocks: tuple[Block, ...]
    names: Objects
    cheapest_offer: Floats
    block: Integers
    kind: Integers
    option: Integers
    spec: Integers
    row: Integers
    disk: Objects
    disk_type: Integers
    batch: Integers
    offer_usd: Floats
    disk_usd: Floats
    lower_each: Floats
    median_each: Floats
    upper_each: Floats
    calibrated: Booleans
    bottleneck: Integers
    first_lower: Floats
    first_median: Floats
    first_upper: Floats
    p99_seconds: Floats
    count: Integers
    hours_lower: Floats | None = None
    hours_median: Floats | None = None
    hours_upper: Floats | None = None

    def __len__(self) -> int:
        return len(self.row)

    @property
    def usd_each(self) -> Floats:
        """One instance and its disk, an hour."""
        return self.offer_usd + self.disk_usd

    @property
    def usd(self) -> Floats:
        """All instances and disks, an hour."""
        return self.count * (self.offer_usd + self.disk_usd)

    @property
    def lower(self) -> Floats:
        """The lower bound of all instances together."""
        return self.count * self.lower_each

    @property
    def median(self) -> Floats:
        """Their median."""
        return self.count * self.median_each

    @property
    def upper(self) -> Floats:
        """Their upper bound."""
        return self.count * self.upper_each

    @property
    def run_usd(self) -> Floats:
        """The run's cost at the median; infinite without a run."""
        return np.inf * self.usd if self.hours_median is None else self.hours_median * self.usd

    @property
    def run_usd_upper(self) -> Floats:
        """What the run costs at most; infinite without a run."""
        return np.inf * self.usd if self.hours_upper is None else self.hours_upper * self.usd

    @classmethod
    def empty(cls, block: Block) -> Table:
        """A table of the block's types without rows."""
        none: dict[str, Any] = dict.fromkeys(_COLUMNS, np.empty(0))
        whole = dict.fromkeys(
            ("block", "kind", "option", "spec", "row", "count", "batch", "disk_type", "bottleneck"),
            np.empty(0, dtype=np.intp),
        )
        return cls(
            blocks=(block,),
            names=_objects(block.names),
            cheapest_offer=block.cheapest_offer,
            **{**none, **whole, "calibrated": np.empty(0, dtype=bool), "disk": _objects([])},
        )

    def take(self, rows: Integers | Booleans) -> Table:
        """Some of its rows."""
        if rows.dtype == bool and rows.all():
            return self
        changed: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        for name in _HOURS:
            column = getattr(self, name)
            changed[name] = None if column is None else column[rows]
        return replace(self, **changed)

    def beside(self, other: Table) -> Table:
        """These rows, then those of another table of the same blocks."""
        if not len(other):
            return self
        parts = (self, other)
        changed: dict[str, Any] = {
            name: np.concatenate([getattr(one, name) for one in parts])
            for name in (*_COLUMNS, *(() if self.hours_upper is None else _HOURS))
        }
        changed["spec"] = np.concatenate([self.spec, other.spec + _beyond(self.spec)])
        return replace(self, **changed)

    @staticmethod
    def joined(tables: Sequence[Table]) -> Table:
        """Tables of different types as one; one at least."""
        if len(tables) == 1:
            return tables[0]
        hours = () if tables[0].hours_upper is None else _HOURS
        columns: dict[str, list[Any]] = {name: [] for name in (*_COLUMNS, *hours)}
        beyond = dict.fromkeys(_NUMBERS, 0)
        for one in tables:
            for name, values in columns.items():
                column = getattr(one, name)
                values.append(column + beyond[name] if name in beyond else column)
            beyond["block"] += len(one.blocks)
            beyond["kind"] += len(one.names)
            beyond["option"] += sum(len(block.options) for block in one.blocks)
            beyond["spec"] += _beyond(one.spec)
        return replace(
            tables[0],
            blocks=tuple(block for one in tables for block in one.blocks),
            names=np.concatenate([one.names for one in tables]),
            cheapest_offer=np.concatenate([one.cheapest_offer for one in tables]),
            **{name: np.concatenate(values) for name, values in columns.items()},
        )

    def options(self) -> list[Runnable]:
        """What `option` numbers."""
        return [option for block in self.blocks for option in block.options]

    def offers(self) -> list[Offer]:
        """The offers of `options`."""
        return [option.offer for option in self.options()]

    def place(self, at: int) -> tuple[Block, int]:
        """A row's block, and its option's place there."""
        block, option = int(self.block[at]), int(self.option[at])
        return self.blocks[block], option - self.before(block)[1]

    def offer(self, at: int) -> Offer:
        """A row's offer."""
        block, option = self.place(at)
        return block.options[option].offer

    def latencies(self, rows: Sequence[int]) -> list[Latency | None]:
        """How soon a batch of each of some rows is done."""
        found: dict[int, Latency | None] = {}
        for number in distinct(self.block[list(rows)]).tolist():
            some = [at for at in rows if self.block[at] == number]
            each = self.blocks[number].latencies(self.row[some].tolist())
            found.update(zip(some, each, strict=True))
        return [found[at] for at in rows]

    def before(self, number: int) -> tuple[int, int]:
        """How many types and how many options the blocks before one have."""
        earlier = self.blocks[:number]
        return sum(len(one.names) for one in earlier), sum(len(one.options) for one in earlier)

    def log_lowers(self, rows: Integers, disks: DiskTable, cache: CacheState | None) -> Floats:
        """Logarithms (n, k) of the lower bounds of n rows with k disks each: columns (n, k)."""
        found = np.empty_like(disks.iops)
        for number in distinct(self.block[rows]):
            at = np.flatnonzero(self.block[rows] == number)
            some = disks.take(at)
            each = np.repeat(self.row[rows[at]], found.shape[1])
            lowers = self.blocks[number].rows.log_lowers(each, some.raveled(), cache)
            found[at] = lowers.reshape(some.iops.shape)
        return found

    def with_orders(self, rows: Sequence[int], disks: Sequence[Disk]) -> Table:
        """Some rows with other disks, in the same order and on as many instances; without runs."""
        found: Table | None = None
        order: list[int] = []
        for number in sorted({int(self.block[at]) for at in rows}):
            some = [place for place, at in enumerate(rows) if self.block[at] == number]
            at = np.array([rows[place] for place in some])
            block = self.blocks[number]
            _, before = self.before(number)
            made = block.rows_with(
                self.row[at], self.option[at] - before, [disks[place] for place in some], np.arange(len(some))
            )
            made = replace(
                made,
                blocks=self.blocks,
                names=self.names,
                cheapest_offer=self.cheapest_offer,
                block=self.block[at],
                kind=self.kind[at],
                option=self.option[at],
                count=self.count[at],
            )
            found = made if found is None else found.beside(made)
            order += some
        assert found is not None
        return found.take(np.argsort(np.array(order)))

    def candidates(self, rows: Iterable[int], request: Request) -> list[Candidate]:
        """Some rows as records, with latencies where those are limited."""
        listed, found = list(rows), dict[int, Candidate]()
        for number in sorted({int(self.block[at]) for at in listed}):
            block = self.blocks[number]
            some = [at for at in listed if self.block[at] == number]
            places, disks = self.row[some].tolist(), self.disk[some].tolist()
            told = block.rows.with_disks(places, [disk.rate for disk in disks])
            limited = request.max_latency_ms is not None
            latencies = block.latencies(places) if limited else [None] * len(some)
            for at, disk, prediction, latency in zip(some, disks, told, latencies, strict=True):
                option, count = block.options[self.place(at)[1]], int(self.count[at])
                first = self.first_epoch(at, request)
                found[at] = Candidate(
                    spec=Spec(offer=option.offer, disk=disk, count=count),
                    workload=block.workloads[self.row[at]],
                    prediction=prediction.times(count),
                    latency=latency,
                    run=self._run(at, request, first),
                    first_epoch=first,
                    notes=option.notes,
                )
        return [found[at] for at in listed]

    def first_epoch(self, at: int, request: Request) -> Span | None:
        """Hours of a row's first epoch (of as much of it as is run), where it trains."""
        if request.task is not Task.TRAINING:
            return None
        samples = min(request.run_samples or math.inf, request.dataset.samples)
        rates = self.first_upper[at], self.first_median[at], self.first_lower[at]
        lower, median, upper = (float(samples / rate / 3600) if rate else math.inf for rate in rates)
        return Span(lower=lower, median=median, upper=upper)

    def _run(self, at: int, request: Request, first: Span | None) -> RunTime | None:
        if request.run_samples is None or self.hours_upper is None:
            return None
        assert self.hours_lower is not None
        assert self.hours_median is not None
        hours = Span(
            lower=float(self.hours_lower[at]),
            median=float(self.hours_median[at]),
            upper=float(self.hours_upper[at]),
        )
        return RunTime(samples=request.run_samples, hours=hours, first_epoch=first)


# Numbers that begin anew in each table.
_NUMBERS = ("block", "kind", "option", "spec")
_HOURS = ("hours_lower", "hours_median", "hours_upper")
_OF_TYPES = ("blocks", "names", "cheapest_offer")
_COLUMNS = tuple(name for name in Table.__struct_fields__ if name not in (*_HOURS, *_OF_TYPES))


def distinct(values: Integers) -> Integers:
    """Each value once, rising. `np.unique` without an index imports numpy.ma, 10 ms of a start."""
    found: Integers = np.unique(values, return_index=True)[0]
    return found


def is_among(values: Integers, wanted: Integers) -> Booleans:
    """Which values are wanted; `np.isin` imports numpy.ma too."""
    known = distinct(wanted)
    if not len(known):
        return np.zeros(len(values), dtype=bool)
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    found: Booleans = known[at] == values
    return found


def best_of_each(groups: Integers, *keys: Floats | Integers) -> Integers:
    """The place of each group's least row by the keys, the first key first; of equal ones the
    first."""
    order = np.lexsort((*reversed(keys), groups))
    sorted_groups = groups[order]
    first = np.concatenate([[True], sorted_groups[1:] != sorted_groups[:-1]])[: len(order)]
    return np.asarray(order[first])


def _beyond(numbers: Integers) -> int:
    return int(numbers.max(initial=-1)) + 1


def _objects(records: Sequence[Any]) -> Objects:
    """Records as a column of shape (n,)."""
    column = np.empty(len(records), dtype=object)
    column[:] = records
    return column
