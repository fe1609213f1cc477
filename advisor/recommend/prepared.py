"""What a request's target does not change: which types run it, and what each does with a disk.

Many requests differ in their target, their price limit or how much they want to see. Preparing
takes most of the time that an answer does, so whoever answers many of them prepares once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

import numpy as np

from advisor.catalog import Catalog, CpuOnly
from advisor.domain import HOURS_PER_MONTH, Candidate, Offer, Prediction, Rejected, Request
from advisor.recommend.candidates import (
    Floats,
    PerformanceModel,
    Runnable,
    runnable,
    workloads_of,
)
from advisor.recommend.field import Field, Judged
from advisor.recommend.predicting import predicted
from advisor.recommend.querying import cpu_only_query, offers_of, query_of
from advisor.recommend.rows import Asked, Rows
from advisor.records import replace
from advisor.units import format_rate


class Prepared:
    """Everything about requests that differ only in what `key_of` leaves out."""

    def __init__(self, request: Request, catalog: Catalog, model: PerformanceModel) -> None:
        self.request = key_of(request)
        self.catalog = catalog
        self.model = model
        self.rows = Rows(catalog, model, request.confidence)
        self._on_cpu: dict[str, tuple[list[Judged], list[Candidate]]] = {}
        self._at: dict[float, Rows] = {}

    @cached_property
    def judged(self) -> list[Judged]:
        """Accelerated offers (for preprocessing: all), each with what runs on it or why nothing
        does."""
        offers = offers_of(self.request, self.catalog)
        return self._judge(offers)

    @cached_property
    def field(self) -> Field:
        """What they do with the catalogue's coarse disks."""
        options = options_of(self.judged)
        return Field(self.request, options, self._predicted(options))

    @cached_property
    def cpu_types(self) -> list[CpuOnly]:
        """Types without an accelerator, unbuilt."""
        return self.catalog.cpu_only(cpu_only_query(self.request))

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
    def cpu_words(self) -> list[str]:
        """'its 2 cores compute 3.4/s likely, without decoding' of each."""
        most = self.most_on_cpu.tolist()
        return [_computes(one.cores, rate) for one, rate in zip(self.cpu_types, most, strict=True)]

    def on_cpu(self, names: Sequence[str]) -> tuple[list[Judged], list[Candidate]]:
        """Types without an accelerator whole: judged, and with every candidate."""
        new = [name for name in names if name not in self._on_cpu]
        if new:
            self._look_at(new)
        judged = [one for name in names for one in self._on_cpu[name][0]]
        return judged, [one for name in names for one in self._on_cpu[name][1]]

    @cached_property
    def unpriced(self) -> list[Rejected]:
        """Types that match and cannot be ranked."""
        return self.catalog.unpriced(query_of(self.request))

    def at_confidence(self, candidates: Sequence[Candidate], confidence: float) -> list[Prediction]:
        """Candidates of these offers at another confidence."""
        rows = self._at.setdefault(confidence, Rows(self.catalog, self.model, confidence))
        rows.add(self.field.options)
        rows.add([one for judged, _ in self._on_cpu.values() for one in options_of(judged)])
        asked = [Asked(one.spec.offer, one.workload, one.spec.disk) for one in candidates]
        found = rows.predictions(asked)
        return [one.times(c.spec.count) for c, one in zip(candidates, found, strict=True)]

    def _look_at(self, names: Sequence[str]) -> None:
        query = replace(cpu_only_query(self.request), instances=tuple(names))
        judged = self._judge(offers_of(self.request, self.catalog, query))
        found: dict[str, tuple[list[Judged], list[Candidate]]] = {name: ([], []) for name in names}
        for one in judged:
            found[one[0].instance.name][0].append(one)
        for candidate in self._predicted(options_of(judged)):
            found[candidate.spec.offer.instance.name][1].append(candidate)
        self._on_cpu.update(found)

    def _judge(self, offers: Sequence[Offer]) -> list[Judged]:
        verdicts = runnable(self.request, self.catalog, self.model, offers)
        return list(zip(offers, verdicts, strict=True))

    def _predicted(self, options: Sequence[Runnable]) -> list[Candidate]:
        """Nobody asks how soon the hundreds answer that are not shown, unless that is a limit."""
        limited = self.request.max_latency_ms is not None
        return predicted(self.rows, options, with_latency=limited)


class Preparations:
    """What was prepared of a catalogue and a model, the last few of it: a question more of the same
    workload is answered in a fraction of the time."""

    def __init__(self, catalog: Catalog, model: PerformanceModel, most: int = 8) -> None:
        self.catalog = catalog
        self.model = model
        self._most = most
        self._known: dict[Request, Prepared] = {}

    def of(self, request: Request) -> Prepared:
        """What the request needs, prepared now or before."""
        key = key_of(request)
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


def options_of(judged: Iterable[Judged]) -> list[Runnable]:
    """Those that can run what is asked."""
    return [one for _, one in judged if isinstance(one, Runnable)]
