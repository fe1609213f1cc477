"""Instances beside each other, or GPUs relative to one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from advisor.answers.cards import cards_meant
from advisor.answers.context import Context
from advisor.catalog.gpu_names import sheet_name
from advisor.domain import Gpu, InstancePrediction, OnGpu, Request
from advisor.engine import stack_assumption
from advisor.engine.single import compare_instances, on_gpu
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.questions.named import (
    Compare,
)
from advisor.questions.requests import today
from advisor.questions.spec_requests import (
    instance_named,
)
from advisor.questions.values import GpuFilter
from advisor.render.comparing import (
    COLUMNS,
    comparison_document,
    flat_row,
    gpu_rows,
    gpus_text,
    instance_rows,
    instances_text,
    notes_lines,
)
from advisor.render.document import plain_document


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

    context: Context
    first: str
    instances: list[OfInstances]
    gpus: list[OfGpus]

    def rows(self) -> list[dict[str, Any]]:
        """One record an instance or GPU of each network, JSON-ready."""
        return [plain_document(row) for row in self._rows()]

    def flat_rows(self) -> list[dict[str, Any]]:
        """The same without nesting: `columns`."""
        return [flat_row(row) for row in self.rows()]

    def columns(self) -> Sequence[str]:
        """Of a table of them."""
        return COLUMNS

    def document(self) -> dict[str, Any]:
        """`advisor.comparison/1`."""
        return plain_document(self.message_document())

    def message_document(self) -> dict[str, Any]:
        """The same with its sentences as messages, for those who speak another language."""
        rows, sources = self._rows(), self.context.sources()
        return comparison_document(self._requests(), self.first, rows, sources)

    def _requests(self) -> list[Request]:
        of_instances = [instance.request for instance in self.instances]
        return of_instances + [gpu.request for gpu in self.gpus]

    def _rows(self) -> list[dict[str, Any]]:
        rows = [
            row
            for instance in self.instances
            for row in instance_rows(instance.cells, instance.base)
        ]
        return rows + [row for gpu in self.gpus for row in gpu_rows(gpu.cells, gpu.base)]

    def text(self) -> str:
        """Tables for a terminal."""
        if self.gpus:
            return f"{gpus_text(self.gpus, self.first)}\n{self._assumed()}"
        tables = [instances_text(*instance) for instance in self.instances]
        cells = [cell for instance in self.instances for cell in instance.cells]
        return "\n\n".join([*tables, "\n".join(notes_lines(cells))])

    def _assumed(self) -> str:
        said = dict.fromkeys(str(stack_assumption(request)) for request in self._requests())
        return f"Assumed: {'; '.join(said)}."


def compared(context: Context, question: Compare) -> Compared:
    """The instances of the question, or its GPUs, beside its baseline."""
    requests = _requests(context, question)
    if question.instance:
        return _instances(context, requests, question)
    cards = cards_meant(context.catalog, question.gpu or GpuFilter())
    return _gpus(context, requests, cards, question.baseline)


def _requests(context: Context, question: Compare) -> list[Request]:
    names = [name.strip() for name in question.model.split(",") if name.strip()]
    return [context.request(question.replace(model=name)) for name in dict.fromkeys(names) or [""]]


def _instances(context: Context, requests: Sequence[Request], question: Compare) -> Compared:
    catalog, model, _ = context
    named = [
        instance_named(name, question, catalog)
        for name in (question.baseline or question.instance[0], *question.instance)
    ]
    first, names = named[0], list(dict.fromkeys([*named[1:], named[0]]))
    if len(names) < 2:
        raise UsageError(
            "one instance alone is `advisor predict`", field="instance",
            hint=Message("name another {field}", field=FieldName("instance")),
        )  # fmt: skip
    found = []
    for request in requests:
        cells = compare_instances(request, catalog, model, names, today=today())
        found.append(OfInstances(request, cells, cells[names.index(first)]))
    return Compared(context, first, found, [])


def _gpus(
    context: Context, requests: Sequence[Request], cards: Sequence[Gpu], baseline: str | None
) -> Compared:
    model, cards_of = context.model, context.catalog.cards
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
    return Compared(context, first.name, [], found)
