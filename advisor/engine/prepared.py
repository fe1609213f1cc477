"""What a request's target does not change: which types run it, and what each does with a disk.

Many requests differ in their target, their price limit or how much they want to see. Preparing
takes most of the time that an answer does, so whoever answers many of them prepares once. Threads
may share it: what is computed for one question is put in place whole. A thread waits for another
one only while that adds types, never for its question.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from advisor.catalog import Catalog, OfferQuery
from advisor.domain import HOURS_PER_MONTH, Candidate, Disk, Rejected, Workload
from advisor.engine.candidates import (
    Runnable,
    cpu_only_query,
    offers_of,
    on_nodes,
    query_of,
    runnable,
    workloads_of,
)
from advisor.engine.cpus import CpuTypes
from advisor.engine.limits import fastest_of_each, is_plain, limits
from advisor.engine.predictions import Predictions
from advisor.engine.table import Candidates, Table
from advisor.questions.network import NetworkQuestion

if TYPE_CHECKING:
    from advisor.engine.model import PerformanceModel

# Of all that is kept, at half a kilobyte each.
_MOST_ROWS = 60_000


class Predicted:
    """What types do with the catalogue's disks, as a table; None where none runs. `not_runnable` has
    a reason for each type that runs in none of its regions."""

    def __init__(
        self, request: NetworkQuestion, table: Table | None = None, not_runnable: Sequence[Rejected] = ()
    ) -> None:
        self.request, self.table, self.not_runnable = request, table, not_runnable

    @cached_property
    def names(self) -> frozenset[str]:
        """Types that are known."""
        run = self.table.names.tolist() if self.table else []
        return frozenset([*run, *(rejected.instance_type for rejected in self.not_runnable)])

    @cached_property
    def fastest(self) -> dict[int, tuple[int, str]]:
        """By type the row that shows why no target is reached."""
        if self.table is None:
            return {}
        return fastest_of_each(list(limits(self.request, self.table)), self.table)

    def rejected(self, names: Collection[str]) -> list[Rejected]:
        """Those of some types that run nowhere."""
        return [rejected for rejected in self.not_runnable if rejected.instance_type in names]


class Prepared:
    """Everything about requests that differ only in what `key_of` leaves out. The types that are
    `predicted` become more as questions ask for them."""

    def __init__(
        self, request: NetworkQuestion, catalog: Catalog, model: PerformanceModel, predictions: Predictions
    ) -> None:
        self.request = key_of(request)
        self.catalog = catalog
        self.model = model
        self.predictions = predictions
        self.predicted = Predicted(self.request)
        self._cpus: tuple[float, CpuTypes] | None = None
        self.all_accelerated: tuple[frozenset[str], int] | None = None
        self._cpus_asked: set[str] = set()
        self._growing = Lock()

    def copy_for(self, request: NetworkQuestion) -> Prepared:
        """What is known, for a request that differs in nothing that was predicted: what is asked
        for there is no concern of others who share this."""
        own = Prepared(request, self.catalog, self.model, self.predictions)
        own.predicted, own.all_accelerated = self.predicted, self.all_accelerated
        return own

    def accelerated(self) -> tuple[frozenset[str], int]:
        """Names of all accelerated types (for preprocessing: of all), which are `predicted` then,
        and how many offers they have."""
        if self.all_accelerated is None:
            with self._growing:
                if self.all_accelerated is None:
                    self.all_accelerated = self._add(query_of(self.request))
        return self.all_accelerated

    def with_accelerated(self, names: Collection[str]) -> Predicted:
        """With some of the accelerated types."""
        return self._with(names, query_of(self.request))

    def with_cpus(self, names: Collection[str]) -> Predicted:
        """With some of the types without an accelerator."""
        self._cpus_asked.update(names)
        return self._with(names, cpu_only_query(self.request))

    def _with(self, names: Collection[str], query: OfferQuery) -> Predicted:
        if not self.predicted.names.issuperset(names):
            with self._growing:  # no thread may lose what another one has added meanwhile
                new = tuple(name for name in names if name not in self.predicted.names)
                self._add(replace(query, instances=new))
        return self.predicted

    def _add(self, query: OfferQuery) -> tuple[frozenset[str], int]:
        """Predict the types of a query that are not known; the names of all, and their offers."""
        known = self.predicted
        offers = offers_of(self.request, self.catalog, query)
        new = [offer for offer in offers if offer.instance.name not in known.names]
        options: list[Runnable] = []
        by_type: dict[tuple[str, str], Runnable | Rejected] = {}
        for offer, verdict in zip(new, runnable(self.request, self.catalog, self.model, new), strict=True):
            key = offer.instance.cloud, offer.instance.name
            if isinstance(verdict, Runnable):
                options += on_nodes(self.request, verdict)
                by_type[key] = verdict
            else:
                by_type.setdefault(key, verdict)
        table = known.table
        if options:
            added = Candidates.of(self.request, options, self.predictions)
            table = added.grid if table is None else table.followed_by(added.grid)
        rejected = [verdict for verdict in by_type.values() if isinstance(verdict, Rejected)]
        self.predicted = Predicted(self.request, table, [*known.not_runnable, *rejected])
        return frozenset(offer.instance.name for offer in offers), len(offers)

    @cached_property
    def lowest_by_type(self) -> Mapping[str, float]:
        """The accelerated types with the least that an instance costs, the cheapest first, unbuilt."""
        return self.catalog.lowest_by_type(query_of(self.request))

    def cpus(self, usd_per_hour: float = math.inf) -> CpuTypes:
        """Types without an accelerator that cost no more (and others where those are known),
        unbuilt."""
        if self._cpus is None or self._cpus[0] < usd_per_hour:
            query = cpu_only_query(self.request)
            if 0 < usd_per_hour < math.inf:
                query = replace(query, max_usd_per_hour=usd_per_hour)
            self._cpus = usd_per_hour, CpuTypes.of(self.request, self.catalog, self.model, query)
        return self._cpus[1]

    @property
    def rows(self) -> int:
        """How many were predicted so far."""
        return 0 if self.predicted.table is None else len(self.predicted.table)

    @property
    def counted_rows(self) -> int:
        """Rows of the types without an accelerator that were asked for here, and of the others where
        all of them were: the cheapest of all clouds are few of those that are predicted."""
        table = self.predicted.table
        if table is None:
            return 0
        accelerated = self.all_accelerated[0] if self.all_accelerated else frozenset()
        counted = np.array([name in accelerated or name in self._cpus_asked for name in table.names])
        return int(np.count_nonzero(counted[table.kind]))

    @cached_property
    def unpriced(self) -> list[Rejected]:
        """Types that match and cannot be ranked."""
        return self.catalog.unpriced(query_of(self.request))

    def with_burst(self, candidate: Candidate) -> Disk:
        """A candidate's disk with what it lends for a while."""
        instance = candidate.spec.offer.instance
        return self.catalog.disks_of(instance.cloud).with_burst(instance, candidate.spec.disk)


class Preparations:
    """What was prepared of a catalogue and a model, the last few of it, and of those no more than
    fit into memory: a question more of the same workload is answered in a fraction of the time."""

    def __init__(self, catalog: Catalog, model: PerformanceModel, most: int = 8) -> None:
        self.catalog = catalog
        self.model = model
        self.predictions: dict[tuple[Workload, float], Predictions] = {}
        self._remembering = model.remembering()
        self._most = most
        self._known: dict[NetworkQuestion, Prepared] = {}
        self._keeping = Lock()

    def apart(self, most: int) -> Preparations:
        """Others of the same, which share the predictions."""
        own = Preparations(self.catalog, self.model, most)
        own.predictions = self.predictions
        return own

    def is_of(self, catalog: Catalog, model: PerformanceModel) -> bool:
        """Whether they are of this very catalogue and model."""
        return self.catalog is catalog and self.model is model

    def is_quick(self, request: NetworkQuestion) -> bool:
        """Whether columns tell who answers, and somebody has waited for them already."""
        prepared = self._known.get(key_of(request)) if is_plain(request) else None
        return prepared is not None and prepared.rows > 0

    def keep(self, request: NetworkQuestion, prepared: Prepared) -> None:
        """Answer the request from what is prepared there."""
        own = prepared.copy_for(request)
        self._known[own.request] = own

    def of(self, request: NetworkQuestion) -> Prepared:
        """What the request needs, prepared now or before; nobody waits for another's question."""
        key = key_of(request)
        with self._keeping:
            prepared = self._known.pop(key, None)
            if prepared is None:
                prepared = Prepared(key, self.catalog, self._remembering, self._predictions_of(key))
            self._known[key] = prepared  # the last one used is the last one to go
            while len(self._known) > self._most or (
                len(self._known) > 1 and sum(known.rows for known in self._known.values()) > _MOST_ROWS
            ):
                del self._known[next(iter(self._known))]
        return prepared

    def _predictions_of(self, request: NetworkQuestion) -> Predictions:
        """Those of the request's network at its confidence, known or new."""
        key = replace(workloads_of(request)[0], batch_size=1), request.confidence
        found = self.predictions.pop(key, None)
        if found is None:
            found = Predictions(self.catalog, self._remembering, request.confidence)
        self.predictions[key] = found
        while len(self.predictions) > 1 and sum(map(len, self.predictions.values())) > _MOST_ROWS:
            del self.predictions[next(iter(self.predictions))]
        return found


def key_of(request: NetworkQuestion) -> NetworkQuestion:
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
