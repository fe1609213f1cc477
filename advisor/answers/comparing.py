"""Instances beside each other, or GPUs relative to one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from advisor.answers.ground import Ground
from advisor.answers.words import Words
from advisor.catalog import Catalog
from advisor.catalog.gpu_names import sheet_name, sheet_names
from advisor.domain import Gpu, InstancePrediction, OnGpu, Request, Task
from advisor.engine import compare_instances, on_gpu, stack_assumption
from advisor.errors import UsageError
from advisor.questions.hardware import GpuWanted
from advisor.render.comparing import (
    comparison_document,
    gpu_rows,
    gpus_text,
    instance_rows,
    instances_text,
)


class OfInstances(NamedTuple):
    """One network on several instances, and the one that counts as 1."""

    request: Request
    cells: list[InstancePrediction]
    base: InstancePrediction


class OfGpus(NamedTuple):
    """One network on several GPUs, and the one that counts as 1."""

    request: Request
    cells: list[OnGpu]
    base: OnGpu


class Compared(NamedTuple):
    """A comparison of one kind; `first` is what counts as 1. One record a network."""

    ground: Ground
    first: str
    instances: list[OfInstances]
    gpus: list[OfGpus]

    def rows(self) -> list[dict[str, Any]]:
        """One record an instance or GPU of each network, JSON-ready."""
        rows = [row for one in self.instances for row in instance_rows(one.cells, one.base)]
        return rows + [row for one in self.gpus for row in gpu_rows(one.cells, one.base)]

    def document(self) -> dict[str, Any]:
        """`advisor.comparison/1`."""
        requests = [one.request for one in self.instances]
        requests += [one.request for one in self.gpus]
        return comparison_document(requests, self.first, self.rows(), self.ground.sources())

    def text(self) -> str:
        """Tables for a terminal."""
        if self.gpus:
            return f"{gpus_text(self.gpus, self.first)}\n{self._assumed()}"
        tables = [instances_text(*one) for one in self.instances]
        return "\n\n".join([*tables, self._assumed()])

    def _assumed(self) -> str:
        requests = [one.request for one in self.instances]
        requests += [one.request for one in self.gpus]
        said = dict.fromkeys(str(stack_assumption(one)) for one in requests)
        return f"Assumed: {'; '.join(said)}."


def compared(ground: Ground, words: Words) -> Compared:
    """`words["instances"]` (two or more) or the GPUs of `words["gpu"]`, beside
    `words["baseline"]`; `words["network"]` may be several, divided by commas."""
    instances, gpu, baseline = words.get("instances"), words.get("gpu"), words.get("baseline")
    if bool(instances) == bool(gpu):
        raise UsageError("name what to compare: --instance twice or more, or --gpu T4,L4")
    if gpu and words["task"] == Task.PREPROCESSING:
        raise UsageError("preprocessing uses no GPU; compare instances: --instance twice or more")
    requests = _requests(ground, words)
    if instances:
        return _instances(ground, requests, instances, baseline)
    return _gpus(ground, requests, _cards(ground.catalog, gpu or GpuWanted()), baseline)


def _requests(ground: Ground, words: Words) -> list[Request]:
    names = [name.strip() for name in str(words["network"]).split(",") if name.strip()]
    asked = {name: value for name, value in words.items() if name != "gpu"}
    return [ground.request({**asked, "network": name}) for name in dict.fromkeys(names) or [""]]


def _instances(
    ground: Ground, requests: Sequence[Request], instances: Sequence[str], baseline: str | None
) -> Compared:
    catalog, model, _ = ground
    first = catalog.name_of(baseline or instances[0])
    names = list(dict.fromkeys([*map(catalog.name_of, instances), first]))
    if len(names) < 2:
        raise UsageError("one instance alone is `advisor predict`; name another --instance")
    found = []
    for request in requests:
        cells = compare_instances(request, catalog, model, names)
        found.append(OfInstances(request, cells, cells[names.index(first)]))
    return Compared(ground, first, found, [])


def _gpus(
    ground: Ground, requests: Sequence[Request], cards: Sequence[Gpu], baseline: str | None
) -> Compared:
    model, cards_of = ground.model, ground.catalog.cards
    first = cards_of[sheet_name(baseline, cards_of)] if baseline else cards[0]
    shown = list(dict.fromkeys([*cards, first]))
    found = [
        OfGpus(
            request,
            [on_gpu(request, model, card) for card in shown],
            on_gpu(request, model, first),
        )
        for request in requests
    ]
    return Compared(ground, first.name, [], found)


def _cards(catalog: Catalog, wanted: GpuWanted) -> list[Gpu]:
    """The cards that are meant: named ones in the order asked, else those for rent, smallest
    first."""
    names = sorted(catalog.rented_gpus, key=lambda name: (catalog.cards[name].memory_mib, name))
    if wanted.names:
        names = [one for name in wanted.names for one in sheet_names(name, catalog.cards)]
    meant = [one for one in dict.fromkeys(names) if wanted.allows(catalog.gpus[one])]
    if not meant:
        raise UsageError("no GPU is like what --gpu asks for; ask for less")
    return [catalog.cards[name] for name in meant]
