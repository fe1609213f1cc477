"""Predictions of workloads on instances. No region, market, price, limit or disk changes them, so
each is made once for many questions."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from advisor.catalog import Catalog, resources_of
from advisor.domain import DiskRate, Latency, Resources, Workload
from advisor.engine.candidates import Runnable
from advisor.engine.probability import batch_latencies

if TYPE_CHECKING:
    from advisor.engine.model import Floats, Integers, PerformanceModel, PreparedRows

# Cloud, type, GPUs at most, nodes, and the number of the workload.
_Key = tuple[str, str, int | None, int, int]


class Predictions:
    """Workloads of a network on instances at one confidence, predicted but for their disks; rows
    are only ever added."""

    def __init__(self, catalog: Catalog, model: PerformanceModel, confidence: float) -> None:
        self.pairs: list[tuple[Workload, Resources]] = []
        self.batch: Integers = np.empty(0, dtype=np.intp)
        # Log rates with less and less of a disk, by row and disk: see `disks`.
        self.reached: dict[tuple[int, DiskRate], Floats] = {}
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
        """All that are known; there is one."""
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
        """How soon a batch of some rows is done; disks have no part in it."""
        missing = [row for row in dict.fromkeys(rows) if row not in self._latencies]
        if missing:
            pairs = [self.pairs[row] for row in missing]
            latencies = batch_latencies(pairs, self._model, self._confidence)
            self._latencies.update(zip(missing, latencies, strict=True))
        return [self._latencies[row] for row in rows]
