"""What options do with whatever disks: all that a disk does not change is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from advisor.catalog import Catalog, resources_of
from advisor.domain import Disk, Latency, Offer, Prediction, Resources, Workload
from advisor.engine.candidates import Floats, PerformanceModel, PreparedRows, Runnable
from advisor.engine.latency import batch_latencies
from models.performance.machines import DiskTable

# Beyond so many the blocks are made one.
_MOST_BLOCKS = 4


class Asked(NamedTuple):
    """An option's offer at one batch size, with a disk."""

    offer: Offer
    workload: Workload
    disk: Disk


class Rows:
    """Offers at their batch sizes, at one confidence; offers and workloads are known by identity,
    and those that were added stay known."""

    def __init__(self, catalog: Catalog, model: PerformanceModel, confidence: float) -> None:
        self._catalog = catalog
        self._model = model
        self._confidence = confidence
        self._blocks: list[PreparedRows] = []
        self._places: dict[tuple[int, int], tuple[int, int]] = {}
        self._resources: dict[int, Resources] = {}
        self._latencies: dict[tuple[int, int], Latency | None] = {}
        self._kept: list[Runnable] = []
        self._steps: set[int] = set()
        self._known: dict[tuple[int, int, int], Prediction] = {}
        # For `least_disk`: log rates with less and less of a disk, by the same parts.
        self.reached: dict[tuple[int, int, int], Floats] = {}

    def add(self, options: Sequence[Runnable]) -> None:
        """Make options known that are not yet."""
        new = [one for one in options if id(one.offer) not in self._resources]
        if not new:
            return
        self._kept += new
        self._steps.update(id(disk.rate) for one in new for disk in (*one.disks, *one.slow_disks))
        if len(self._blocks) == _MOST_BLOCKS:
            self._blocks, new = [], self._kept  # one call of many rows costs as much as one of few
        pairs: list[tuple[Workload, Resources]] = []
        for one in new:
            has = resources_of(self._catalog, one.offer, one.disks[0], one.max_gpus)
            self._resources[id(one.offer)] = has
            for workload in one.workloads:
                place = id(one.offer), id(workload)
                self._places[place] = len(self._blocks), len(pairs)
                pairs.append((workload, has))
        self._blocks.append(self._model.prepare(pairs, confidence=self._confidence))

    def is_step(self, disk: Disk) -> bool:
        """Whether it is one of the options' own disks."""
        return id(disk.rate) in self._steps

    def predictions(self, asked: Sequence[Asked]) -> list[Prediction]:
        """One prediction each, in order; those with the options' own disks are told once."""
        keys = [(id(one.offer), id(one.workload), id(one.disk.rate)) for one in asked]
        new = [at for at, key in enumerate(keys) if key not in self._known]
        told = dict(zip(new, self._predicted([asked[at] for at in new]), strict=True))
        found = [told[at] if at in told else self._known[key] for at, key in enumerate(keys)]
        self._known.update((keys[at], told[at]) for at in new if keys[at][2] in self._steps)
        return found

    def _predicted(self, asked: Sequence[Asked]) -> list[Prediction]:
        found: dict[int, Prediction] = {}
        for block, members in self._by_block(asked).items():
            rows = [row for _, row in members]
            disks = [asked[at].disk.rate for at, _ in members]
            told = self._blocks[block].with_disks(rows, disks)
            found.update(zip((at for at, _ in members), told, strict=True))
        return [found[at] for at in range(len(asked))]

    def log_lowers(self, asked: Sequence[tuple[Offer, Workload]], disks: DiskTable) -> Floats:
        """Logarithms (n, k) of lower bounds of n offers with k disks each: columns (n, k)."""
        found = np.empty_like(disks.iops)
        for block, members in self._by_block(asked).items():
            at, rows = (np.array(column, dtype=np.intp) for column in zip(*members, strict=True))
            some = disks.take(at)
            each = np.repeat(rows, found.shape[1])
            lowers = self._blocks[block].log_lowers(each, some.raveled())
            found[at] = lowers.reshape(some.iops.shape)
        return found

    def latencies(self, asked: Sequence[tuple[Offer, Workload]]) -> list[Latency | None]:
        """How soon a batch is done; disks have no part in it."""
        keys = [(id(offer), id(workload)) for offer, workload in asked]
        missing = {
            key: (workload, self._resources[key[0]])
            for key, (_, workload) in zip(keys, asked, strict=True)
            if key not in self._latencies
        }
        if missing:
            told = batch_latencies(
                list(missing.values()),
                lambda some: self._model.predict(some, confidence=self._confidence),
            )
            self._latencies.update(zip(missing, told, strict=True))
        return [self._latencies[key] for key in keys]

    def _by_block(self, asked: Sequence[tuple[Offer, Workload] | Asked]) -> _Members:
        members: _Members = {}
        for at, (offer, workload, *_) in enumerate(asked):
            block, row = self._places[id(offer), id(workload)]
            members.setdefault(block, []).append((at, row))
        return members


# By block: where in the question, and which row.
_Members = dict[int, list[tuple[int, int]]]
