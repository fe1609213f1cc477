"""What a request's target does not change: which types run it, and what each does with a disk.

Many requests differ in their target, their price limit or how much they want to see. Preparing
takes most of the time that an answer does, so whoever answers many of them prepares once.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import cached_property, lru_cache
from operator import attrgetter
from threading import Lock

import numpy as np

from advisor.catalog import Catalog, CpuOnly
from advisor.domain import HOURS_PER_MONTH, Candidate, Disk, Offer, Prediction, Rejected, Request
from advisor.engine.candidates import (
    Floats,
    PerformanceModel,
    runnable,
    workloads_of,
)
from advisor.engine.field import by_speed_and_price
from advisor.engine.groups import Group, options_of, types_of
from advisor.engine.predicting import predicted
from advisor.engine.querying import cpu_only_query, offers_of, query_of
from advisor.engine.rows import Asked, Rows
from advisor.records import replace
from advisor.units import format_rate


class Prepared:
    """Everything about requests that differ only in what `key_of` leaves out."""

    def __init__(self, request: Request, catalog: Catalog, model: PerformanceModel) -> None:
        self.request = key_of(request)
        self.catalog = catalog
        self.model = model
        self.rows = Rows(catalog, model, request.confidence)
        self._on_cpu: dict[str, Group] = {}
        self._all_on_cpu: Group | None = None
        self._at: dict[float, Rows] = {}
        self._bursts: dict[tuple[int, int], Disk] = {}
        # One thread decides at a time: what one asks for is kept for the next.
        self.deciding = Lock()
        self.was_asked = False

    @cached_property
    def accelerated(self) -> Group:
        """Accelerated types (for preprocessing: all)."""
        return self._group(offers_of(self.request, self.catalog))

    @cached_property
    def cpu_types(self) -> list[CpuOnly]:
        """Types without an accelerator, unbuilt, the cheapest first."""
        found = self.catalog.cpu_only(cpu_only_query(self.request))
        return sorted(found, key=attrgetter("usd_per_hour", "name"))

    @cached_property
    def most_on_cpu(self) -> Floats:
        """More samples per second than this none of them reaches; 0 where nothing tells."""
        types = self.cpu_types
        return self.model.most_on_cpu(
            workloads_of(self.request),
            np.array([one.cores for one in types]),
            np.array([one.mark for one in types]),
            [one.cpu_model for one in types],
        )

    @cached_property
    def cpu_prices(self) -> Floats:
        """USD per hour of each."""
        return np.array([one.usd_per_hour for one in self.cpu_types])

    @cached_property
    def cpu_words(self) -> list[tuple[str, str, float]]:
        """Name, 'its 2 cores compute 3.4/s likely, without decoding' ('' without a bound) and price
        of each."""
        most = self.most_on_cpu.tolist()
        return [
            (one.name, _computes(one.cores, rate) if rate < np.inf else "", one.usd_per_hour)
            for one, rate in zip(self.cpu_types, most, strict=True)
        ]

    def on_cpu(self, names: Sequence[str]) -> Group:
        """Some of them whole."""
        new = [name for name in names if name not in self._on_cpu]
        if new:
            query = replace(cpu_only_query(self.request), instances=tuple(new))
            whole = self._group(offers_of(self.request, self.catalog, query))
            self._on_cpu.update((name, whole.of(name)) for name in new)
            self._all_on_cpu = None
        return Group.joined([self._on_cpu[name] for name in names])

    @property
    def known_on_cpu(self) -> tuple[Set[str], Group]:
        """All that were ever asked for whole, by name and as one group."""
        if self._all_on_cpu is None:
            self._all_on_cpu = Group.joined(list(self._on_cpu.values()))
        return self._on_cpu.keys(), self._all_on_cpu

    @cached_property
    def unpriced(self) -> list[Rejected]:
        """Types that match and cannot be ranked."""
        return self.catalog.unpriced(query_of(self.request))

    def with_burst(self, one: Candidate) -> Disk:
        """A candidate's disk with what it lends for a while; told once of the catalogue's steps."""
        instance, disk = one.spec.offer.instance, one.spec.disk
        place = id(one.spec.offer), id(disk.rate)
        told = self._bursts.get(place)
        if told is None:
            told = self.catalog.disks_of(instance.cloud).with_burst(instance, disk)
            if self.rows.is_step(disk):
                self._bursts[place] = told
        return told

    def at_confidence(self, candidates: Sequence[Candidate], confidence: float) -> list[Prediction]:
        """Candidates of these offers at another confidence."""
        rows = self._at.setdefault(confidence, Rows(self.catalog, self.model, confidence))
        # Few are worth a close look: preparing all the others would take as long as the answer.
        wanted = {id(one.spec.offer) for one in candidates}
        groups = [self.accelerated, *self._on_cpu.values()]
        options = [one for group in groups for one in group.field.options]
        rows.add([one for one in options if id(one.offer) in wanted])
        asked = [Asked(one.spec.offer, one.workload, one.spec.disk) for one in candidates]
        found = rows.predictions(asked)
        return [one.times(c.spec.count) for c, one in zip(candidates, found, strict=True)]

    def _group(self, offers: Sequence[Offer]) -> Group:
        """Nobody asks how soon the hundreds answer that are not shown, unless that is a limit."""
        verdicts = runnable(self.request, self.catalog, self.model, offers)
        judged = list(zip(offers, verdicts, strict=True))
        limited = self.request.max_latency_ms is not None
        candidates = predicted(self.rows, options_of(judged), with_latency=limited)
        return Group(judged, types_of(self.request, options_of(judged), candidates))


class Preparations:
    """What was prepared of a catalogue and a model, the last few of it: a question more of the same
    workload is answered in a fraction of the time."""

    def __init__(self, catalog: Catalog, model: PerformanceModel, most: int = 8) -> None:
        self.catalog = catalog
        self.model = model
        self._most = most
        self._known: dict[Request, Prepared] = {}
        self._keeping = Lock()

    def is_quick(self, request: Request) -> bool:
        """Whether columns tell who answers, and somebody has waited for them already."""
        if not by_speed_and_price(request):
            return False
        prepared = self._known.get(key_of(request))
        return prepared is not None and prepared.was_asked

    def of(self, request: Request) -> Prepared:
        """What the request needs, prepared now or before."""
        key = key_of(request)
        with self._keeping:
            prepared = self._known.pop(key, None) or Prepared(key, self.catalog, self.model)
            self._known[key] = prepared  # the last one used is the last one to go
            while len(self._known) > self._most:
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
        max_run_usd=None,
        max_count=1,
        horizon_hours=HOURS_PER_MONTH,
        max_results=1,
        pareto=False,
    )


@lru_cache(maxsize=4096)
def _computes(cores: float, rate: float) -> str:
    """There are thousands of types, with few different CPUs and sizes."""
    does = "core computes" if cores == 1 else "cores compute"
    return f"its {cores:g} {does} {format_rate(rate)}/s likely, without decoding"
