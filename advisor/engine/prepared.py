"""Prepares what a question's target does not change: offers, predictions and their table.

This takes most of the time of an answer, so every layer is kept for later questions. Threads may share the
layers: results are put in place as a whole. A thread waits for another one only while that adds types, never
for its question."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from functools import cached_property, partial
from operator import attrgetter
from threading import Lock
from typing import Generic, TypeVar

from msgspec.structs import replace

from advisor.catalog import Catalog, CpuOnly, OfferQuery
from advisor.domain import Candidate, Disk, Offer, Rejected, Task, Workload
from advisor.engine.candidates import (
    Attached,
    Runnable,
    attached,
    offers_in,
    on_nodes,
    plain_workload,
    query_of,
    runnable,
)
from advisor.engine.limits import is_plain
from advisor.engine.rejected import CpuTypes
from advisor.engine.table import Candidates, Predictions, Table
from advisor.models.performance.model import PerformanceModel
from advisor.questions.network import NetworkQuestion

# The most rows of kept predictions and of kept tables; a row takes up to a kilobyte.
_MOST_ROWS = 60_000
_MOST_TABLE_ROWS = 300_000
_MOST_LISTINGS = 64


K = TypeVar("K")
V = TypeVar("V", bound=Sized)


class Kept(Generic[K, V]):
    """A cache of the last used values, up to `most` and to `most_rows` rows together."""

    def __init__(self, most: int, most_rows: int = _MOST_ROWS) -> None:
        self._most, self._most_rows = most, most_rows
        self._values: dict[K, V] = {}
        self._lock = Lock()

    def known(self, key: K) -> V | None:
        """The kept value of a key, or None."""
        return self._values.get(key)

    def of(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, which is made where it is not kept."""
        with self._lock:
            value = self._values.pop(key, None)
            if value is None:
                value = make()
                rows = len(value) + sum(map(len, self._values.values()))
                while self._values and (len(self._values) >= self._most or rows > self._most_rows):
                    rows -= len(self._values.pop(next(iter(self._values))))
            self._values[key] = value  # the last one used is the last one to go
        return value


class Listing:
    """The catalogue's offers for a query, looked up once."""

    def __init__(self, catalog: Catalog, query: OfferQuery) -> None:
        self.catalog, self.query = catalog, query
        self._cpus: tuple[float, Sequence[CpuOnly]] | None = None

    def __len__(self) -> int:
        return len(self.__dict__.get("offers", ()))

    @cached_property
    def offers(self) -> Mapping[str, Sequence[Offer]]:
        """Offers by type, in the query's region, else where each type could be cheapest with a disk."""
        return _by_type(self.catalog, self.query)

    @cached_property
    def considered(self) -> int:
        """The number of these offers."""
        return sum(map(len, self.offers.values()))

    @cached_property
    def lowest_by_type(self) -> Mapping[str, float]:
        """The lowest price of an instance by type, cheapest first, found without building offers."""
        return self.catalog.lowest_by_type(self.query)

    @cached_property
    def unpriced(self) -> list[Rejected]:
        """The matching types that cannot be ranked for lack of a price."""
        return self.catalog.unpriced(self.query)

    def cpus(self, usd_per_hour: float) -> Sequence[CpuOnly]:
        """CPU types up to a price (inf: all), cheapest first, without building records."""
        if self._cpus is None or self._cpus[0] < usd_per_hour:
            query = replace(self.query, accelerated=False)
            if 0 < usd_per_hour < math.inf:
                query = replace(query, max_usd_per_hour=usd_per_hour)
            types = sorted(self.catalog.cpu_only(query), key=attrgetter("usd_per_hour", "name"))
            self._cpus = usd_per_hour, types
        return self._cpus[1]


class Site:
    """The types of a place, market and data size, with their offers and disks, for any work."""

    def __init__(self, request: NetworkQuestion, catalog: Catalog) -> None:
        self._request, self._catalog = request, catalog
        self._query = replace(query_of(request), accelerated=None)
        self._attached: dict[str, list[Attached]] = {}

    def __len__(self) -> int:
        return len(self._attached)

    def attached(
        self, names: Collection[str], offers: Mapping[str, Sequence[Offer]] | None = None
    ) -> list[Attached]:
        """The offers of types with their disks; taken from `offers` where given, else looked up."""
        missing = tuple(name for name in names if name not in self._attached)
        if missing:
            by_type = offers or _by_type(self._catalog, replace(self._query, instances=missing))
            for name in missing:
                offers_there = by_type.get(name, ())
                self._attached[name] = [
                    attached(self._request, self._catalog, offer) for offer in offers_there
                ]
        return [offer for name in names for offer in self._attached[name]]


class Predicted:
    """The table of types with the catalogue's disks (None where none runs); `not_runnable` has a reason for
    each type that runs in none of its regions."""

    def __init__(self, table: Table | None = None, not_runnable: Sequence[Rejected] = ()) -> None:
        self.table, self.not_runnable = table, not_runnable

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the types that were predicted or rejected."""
        run = self.table.names.tolist() if self.table else []
        return frozenset([*run, *(rejected.instance_type for rejected in self.not_runnable)])

    def rejected(self, names: Collection[str]) -> list[Rejected]:
        """The rejections of those of the named types that run nowhere."""
        return [rejected for rejected in self.not_runnable if rejected.instance_type in names]


class Prepared:
    """The data for all requests that differ only in what `key_of` leaves out. Types are added to `predicted`
    as requests need them."""

    def __init__(
        self,
        request: NetworkQuestion,
        site: Site,
        catalog: Catalog,
        model: PerformanceModel,
        predictions: Predictions,
    ) -> None:
        self.request, self.site, self.catalog, self.model = key_of(request), site, catalog, model
        self.predictions = predictions
        self.predicted = Predicted()
        self._cpus: tuple[Sequence[CpuOnly], CpuTypes] | None = None
        self._growing = Lock()

    def __len__(self) -> int:
        return 0 if self.predicted.table is None else len(self.predicted.table)

    def with_types(
        self, names: Collection[str], offers: Mapping[str, Sequence[Offer]] | None = None
    ) -> Predicted:
        """The predictions, with the named types added; `offers` has their offers, where known."""
        if not self.predicted.names.issuperset(names):
            with self._growing:  # no thread may lose what another one has added meanwhile
                known = self.predicted.names
                self._add(self.site.attached([name for name in names if name not in known], offers))
        return self.predicted

    def _add(self, new: Sequence[Attached]) -> None:
        known, request = self.predicted, self.request
        options: list[Runnable] = []
        by_type: dict[tuple[str, str], Runnable | Rejected] = {}
        for new_offer, verdict in zip(new, runnable(request, self.catalog, self.model, new), strict=True):
            key = new_offer.offer.instance.cloud, new_offer.offer.instance.name
            if isinstance(verdict, Runnable):
                options += on_nodes(request, verdict)
                by_type[key] = verdict
            else:
                by_type.setdefault(key, verdict)
        table = known.table
        if options:
            added = Candidates.of(request, options, self.predictions)
            table = added.grid if table is None else table.followed_by(added.grid)
        rejected = [verdict for verdict in by_type.values() if isinstance(verdict, Rejected)]
        self.predicted = Predicted(table, [*known.not_runnable, *rejected])

    def cpus(self, types: Sequence[CpuOnly]) -> CpuTypes:
        """Types without an accelerator, with upper bounds of their rates."""
        if self._cpus is None or self._cpus[0] is not types:
            self._cpus = types, CpuTypes.of(self.request, self.model, types)
        return self._cpus[1]

    def with_burst(self, candidate: Candidate) -> Disk:
        """A candidate's disk with its burst."""
        instance = candidate.spec.offer.instance
        return self.catalog.disks_of(instance.cloud).with_burst(instance, candidate.spec.disk)


class Preparations:
    """The preparations of a catalogue and a model, as many of the last ones as fit into memory: another
    question about the same workload or place takes a fraction of the time."""

    def __init__(self, catalog: Catalog, model: PerformanceModel, most: int = 512) -> None:
        self.catalog, self.model = catalog, model
        self._predictions = Kept[tuple[Workload, float], Predictions](most)
        self._listings = Kept[OfferQuery, Listing](_MOST_LISTINGS)
        self._sites = Kept[tuple[object, ...], Site](most)
        self._prepared = Kept[NetworkQuestion, Prepared](most, _MOST_TABLE_ROWS)

    def is_quick(self, request: NetworkQuestion) -> bool:
        """True if the answer needs only columns that are prepared already."""
        return is_plain(request) and bool(self._prepared.known(key_of(request)))

    def listing(self, request: NetworkQuestion) -> Listing:
        """The catalogue's offers that a request looks at first."""
        query = query_of(request)
        return self._listings.of(query, lambda: Listing(self.catalog, query))

    def of(self, request: NetworkQuestion) -> Prepared:
        """The data that a request needs, made or kept; no thread waits for another's request."""
        key = key_of(request)

        def made() -> Prepared:
            return Prepared(key, self._site(key), self.catalog, self.model, self._predictions_of(key))

        return self._prepared.of(key, made)

    def _site(self, request: NetworkQuestion) -> Site:
        key = (
            replace(query_of(request), accelerated=None),
            *(request.task is Task.PREPROCESSING, request.dataset.total_mib, request.vcpu_quota),
            *(request.disk, request.disk_types),
        )
        return self._sites.of(key, lambda: Site(request, self.catalog))

    def _predictions_of(self, request: NetworkQuestion) -> Predictions:
        """The predictions of the request's network at its confidence."""
        key = replace(plain_workload(request), batch_size=1), request.confidence
        return self._predictions.of(key, partial(Predictions, self.catalog, self.model, request.confidence))


# Attributes of a question that its prepared table does not depend on: targets, limits, and what only filters
# types or shows candidates.
_NOT_OF_TABLES = (
    *("target_throughput", "required_confidence", "max_usd_per_hour", "epochs", "samples", "max_hours"),
    *("start_minutes", "max_first_epoch_hours", "max_run_usd", "most_instances", "max_count", "max_results"),
    *("horizon_hours", "max_shown", "pareto", "model_asked", "namesake", "gpu_filter", "gpus", "vcpus"),
    *("min_gpu_memory_mib", "max_gpu_memory_mib", "compute_capability", "memory_mib", "accelerated_only"),
    "explain_rejected",
)


def key_of(request: NetworkQuestion) -> NetworkQuestion:
    """The request without its target and the fields that only filter candidates."""
    return request.without(_NOT_OF_TABLES)


def _by_type(catalog: Catalog, query: OfferQuery) -> dict[str, list[Offer]]:
    offers_of: dict[str, list[Offer]] = {}
    for offer in offers_in(catalog, query):
        offers_of.setdefault(offer.instance.name, []).append(offer)
    return offers_of
