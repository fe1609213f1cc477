"""What a request's target does not change: which types run it, and what each does with a disk.

Many requests differ in their target, their price limit or how much they want to see. Preparing
takes most of the time that an answer does, so whoever answers many of them prepares once. Threads
may share it: what is computed for one question is put in place whole. A thread waits for another
one only while that adds types without an accelerator, never for its question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog, CpuOnly, OfferQuery
from advisor.domain import HOURS_PER_MONTH, Candidate, Disk, Offer, Rejected, Request
from advisor.engine.candidates import (
    Runnable,
    cpu_only_query,
    offers_of,
    on_nodes,
    query_of,
    runnable,
    workloads_of,
)
from advisor.engine.limits import fastest_of_each, is_plain, limits
from advisor.engine.probability import Bounds
from advisor.engine.table import Block, Table

if TYPE_CHECKING:
    from advisor.engine.model import Floats, PerformanceModel

# Blocks of the model's rows are made one beyond so many.
_MOST_BLOCKS = 4
# Of all that is kept, at half a kilobyte each.
_MOST_ROWS = 60_000


class Group:
    """Offers that were judged, as a table of what their types do with the catalogue's disks; None
    where none runs. `not_runnable` has a reason for each type that runs in none of its regions."""

    def __init__(
        self, request: Request, table: Table | None, not_runnable: Sequence[Rejected], offers: int
    ) -> None:
        self.request = request
        self.table = table
        self.not_runnable = not_runnable
        self.offers = offers

    @cached_property
    def names(self) -> frozenset[str]:
        """Types that were judged."""
        run = self.table.names.tolist() if self.table else []
        return frozenset([*run, *(rejected.instance_type for rejected in self.not_runnable)])

    @cached_property
    def fastest(self) -> dict[int, tuple[int, str]]:
        """By type the row that shows why no target is reached."""
        if self.table is None:
            return {}
        return fastest_of_each(list(limits(self.request, self.table)), self.table)

    def beside(self, other: Group) -> Group:
        """The types of both; the rows of the other one follow."""
        tables = [group.table for group in (self, other) if group.table is not None]
        return Group(
            self.request,
            Table.joined(tables) if tables else None,
            [*self.not_runnable, *other.not_runnable],
            self.offers + other.offers,
        )


class Prepared:
    """Everything about requests that differ only in what `key_of` leaves out."""

    def __init__(self, request: Request, catalog: Catalog, model: PerformanceModel) -> None:
        self.request = key_of(request)
        self.catalog = catalog
        self.model = model
        self.was_asked = False
        self._on_cpu = Group(self.request, None, (), 0)
        self._whole: tuple[Group, Group] | None = None
        self._growing = Lock()

    @cached_property
    def accelerated(self) -> Group:
        """Accelerated types (for preprocessing: all)."""
        offers = offers_of(self.request, self.catalog)
        verdicts = list(runnable(self.request, self.catalog, self.model, offers))
        return self._group(offers, verdicts)

    @cached_property
    def lowest_by_type(self) -> Mapping[str, float]:
        """The types of `accelerated` with the least that an instance costs, the cheapest first,
        unbuilt."""
        return self.catalog.lowest_by_type(query_of(self.request))

    def accelerated_of(self, names: Sequence[str]) -> Group:
        """Some of the accelerated types, prepared for this question alone."""
        query = replace(query_of(self.request), instances=tuple(names))
        offers = offers_of(self.request, self.catalog, query)
        return self._group(offers, list(runnable(self.request, self.catalog, self.model, offers)))

    @cached_property
    def cpus(self) -> CpuTypes:
        """Types without an accelerator, unbuilt."""
        return self._cpu_types(cpu_only_query(self.request))

    def cpus_up_to(self, usd_per_hour: float) -> CpuTypes:
        """Those of them that cost no more."""
        if self.was_asked or not 0 < usd_per_hour < math.inf:
            return self.cpus
        query = replace(cpu_only_query(self.request), max_usd_per_hour=usd_per_hour)
        return self._cpu_types(query)

    def _cpu_types(self, query: OfferQuery) -> CpuTypes:
        found = self.catalog.cpu_only(query)
        types = sorted(found, key=attrgetter("usd_per_hour", "name"))
        if not types:
            return CpuTypes([], np.empty(0), np.empty(0))
        most = self.model.most_on_cpu(
            workloads_of(self.request),
            np.array([one.cores for one in types]),
            np.array([one.mark for one in types]),
            [one.cpu_model for one in types],
        )
        usd = np.array([one.usd_per_hour for one in types])
        return CpuTypes(types, most, usd)

    def on_cpu(self, names: Sequence[str] = ()) -> Group:
        """All types without an accelerator that were ever asked for whole, these among them."""
        if not self._on_cpu.names.issuperset(names):
            with self._growing:  # no thread may lose what another one has added meanwhile
                self._on_cpu = self._with(self._on_cpu, names)
        return self._on_cpu

    def _with(self, known: Group, names: Sequence[str]) -> Group:
        """The group with more types."""
        new = tuple(name for name in names if name not in known.names)
        if not new:
            return known
        query = replace(cpu_only_query(self.request), instances=new)
        offers = offers_of(self.request, self.catalog, query)
        verdicts = list(runnable(self.request, self.catalog, self.model, offers))
        added = self._group(offers, verdicts)
        both = known.beside(added)
        if both.table is not None and len(both.table.blocks) > _MOST_BLOCKS:
            # One call of many rows costs as much as one of few.
            block = Block(self.request, self.catalog, self.model, both.table.options())
            return Group(self.request, block.grid, both.not_runnable, both.offers)
        return both

    def whole(self, names: Sequence[str]) -> Group:
        """The accelerated types, then all others that were ever asked for whole, these among
        them."""
        cpus = self.on_cpu(names)
        known = self._whole
        if known is None or known[0] is not cpus:
            known = self._whole = cpus, self.accelerated.beside(cpus)
        return known[1]

    @property
    def tables(self) -> list[Table]:
        """What was predicted so far with the catalogue's disks."""
        groups = self.accelerated, self.on_cpu()
        return [group.table for group in groups if group.table is not None]

    @property
    def rows(self) -> int:
        """How many were predicted so far."""
        known = self.__dict__.get("accelerated"), self._on_cpu
        return sum(len(group.table) for group in known if group and group.table is not None)

    @cached_property
    def unpriced(self) -> list[Rejected]:
        """Types that match and cannot be ranked."""
        return self.catalog.unpriced(query_of(self.request))

    def with_burst(self, candidate: Candidate) -> Disk:
        """A candidate's disk with what it lends for a while."""
        instance = candidate.spec.offer.instance
        return self.catalog.disks_of(instance.cloud).with_burst(instance, candidate.spec.disk)

    def at_confidences(
        self, rows: Sequence[tuple[Table, int]], confidences: Sequence[float]
    ) -> list[list[Bounds]]:
        """Rows of tables of these offers at other confidences, all instances together.

        Few are worth a close look: the first question does not wait for all the others.
        """
        by_block: dict[Block, list[int]] = {}
        for place, (table, at) in enumerate(rows):
            by_block.setdefault(table.place(at)[0], []).append(place)
        found: list[list[Bounds]] = [[] for _ in rows]
        for block, places in by_block.items():
            some = [rows[place] for place in places]
            rates = block.at_confidences(
                confidences,
                [int(table.row[at]) for table, at in some],
                [table.disk[at].rate for table, at in some],
                whole=self.was_asked,
            )
            count = np.tile([int(table.count[at]) for table, at in some], len(confidences))
            columns = (count * rates.lower, count * rates.median, count * rates.upper)
            levels = np.repeat(confidences, len(places))
            each = (*columns, levels, np.asarray(rates.calibrated))
            bounds = [Bounds(*values) for values in zip(*(column.tolist() for column in each), strict=True)]
            for at, place in enumerate(places):
                found[place] = bounds[at :: len(places)]
        return found

    def _group(self, offers: Sequence[Offer], verdicts: Sequence[Runnable | Rejected]) -> Group:
        by_type: dict[tuple[str, str], Runnable | Rejected] = {}
        for offer, verdict in zip(offers, verdicts, strict=True):
            key = offer.instance.cloud, offer.instance.name
            if isinstance(verdict, Runnable) or key not in by_type:
                by_type[key] = verdict
        able = (one for one in verdicts if isinstance(one, Runnable))
        options = [option for one in able for option in on_nodes(self.request, one)]
        table = Block(self.request, self.catalog, self.model, options).grid if options else None
        rejected = [one for one in by_type.values() if isinstance(one, Rejected)]
        return Group(self.request, table, rejected, len(offers))


class CpuTypes(Struct, frozen=True):
    """Types without an accelerator, the cheapest first, with what none of them surpasses in samples
    per second (0: nothing tells) and USD per hour of each."""

    types: list[CpuOnly]
    most: Floats
    usd: Floats


class Preparations:
    """What was prepared of a catalogue and a model, the last few of it, and of those no more than
    fit into memory: a question more of the same workload is answered in a fraction of the time."""

    def __init__(self, catalog: Catalog, model: PerformanceModel, most: int = 8) -> None:
        self.catalog = catalog
        self.model = model
        self._most = most
        self._known: dict[Request, Prepared] = {}
        self._keeping = Lock()

    def is_of(self, catalog: Catalog, model: PerformanceModel) -> bool:
        """Whether they are of this very catalogue and model."""
        return self.catalog is catalog and self.model is model

    def is_quick(self, request: Request) -> bool:
        """Whether columns tell who answers, and somebody has waited for them already."""
        prepared = self._known.get(key_of(request)) if is_plain(request) else None
        return prepared is not None and prepared.was_asked

    def keep(self, request: Request, prepared: Prepared) -> None:
        """Answer the request from what accelerated types do there, and nothing else of it: types
        without an accelerator that are asked for now are no concern of others who share it."""
        own = Prepared(request, self.catalog, self.model)
        own.__dict__["accelerated"] = prepared.accelerated
        self._known[own.request] = own

    def of(self, request: Request) -> Prepared:
        """What the request needs, prepared now or before; nobody waits for another's question."""
        key = key_of(request)
        with self._keeping:
            prepared = self._known.pop(key, None) or Prepared(key, self.catalog, self.model)
            self._known[key] = prepared  # the last one used is the last one to go
            while len(self._known) > self._most or (
                len(self._known) > 1 and sum(one.rows for one in self._known.values()) > _MOST_ROWS
            ):
                del self._known[next(iter(self._known))]
        return prepared


def key_of(request: Request) -> Request:
    """The request without its target and what else is only held against the candidates."""
    return replace(
        request,
        target_throughput=None,
        max_usd_per_hour=None,
        epochs=None,
        samples=None,
        max_hours=None,
        max_first_epoch_hours=None,
        max_run_usd=None,
        max_count=1,
        horizon_hours=HOURS_PER_MONTH,
        max_results=1,
        pareto=False,
        model_asked=None,
        namesake=None,
    )
