"""Instances beside each other, or GPUs relative to one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from advisor.answers.cards import cards_meant
from advisor.answers.context import Context, with_anchors
from advisor.catalog import OfferQuery
from advisor.catalog.gpu_names import sheet_name
from advisor.catalog.gpu_prices import cheapest_by_gpu, usd_per_gpu_hour
from advisor.domain import Gpu, InstancePrediction, OnGpu, Request
from advisor.engine import stack_assumption
from advisor.engine.single import compare_instances, on_gpu
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.questions.named import Compare
from advisor.questions.requests import today
from advisor.questions.spec_requests import instance_named
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
from advisor.render.text import wrapped

if TYPE_CHECKING:
    from advisor.models.performance import PerformanceModel


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
    usd_per_gpu_hour: Mapping[str, float] = {}

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
        rows = [row for instance in self.instances for row in instance_rows(instance.cells, instance.base)]
        usd = self.usd_per_gpu_hour
        return rows + [row for gpu in self.gpus for row in gpu_rows(gpu.cells, gpu.base, usd)]

    def text(self) -> str:
        """Tables for a terminal."""
        if self.gpus:
            told = gpus_text(self.gpus, self.first, self.usd_per_gpu_hour)
            return f"{told}\n{self._assumed()}"
        tables = [instances_text(*instance) for instance in self.instances]
        cells = [cell for instance in self.instances for cell in instance.cells]
        return "\n\n".join([*tables, "\n".join(notes_lines(cells))])

    def _assumed(self) -> str:
        said = dict.fromkeys(str(stack_assumption(request)) for request in self._requests())
        assumed = f"Assumed: {'; '.join(said)}."
        notes = [str(note) for note in self.context.notes]
        return "\n".join([assumed, *wrapped("Warning", notes, 3)])


def compared(context: Context, question: Compare) -> Compared:
    """The instances of the question, or its GPUs, beside its baseline."""
    asked = _asked(context, question)
    if question.instance:
        return _instances(context, asked, question)
    cards = cards_meant(context.catalog, question.gpu or GpuFilter())
    return _gpus(context, asked, cards, question.baseline)


class _Asked(NamedTuple):
    """One network's request, and the model that knows it, with what is to be said of that."""

    request: Request
    model: PerformanceModel
    notes: tuple[Message, ...]


def _asked(context: Context, question: Compare) -> list[_Asked]:
    names = [name.strip() for name in question.model.split(",") if name.strip()]
    asked = []
    for name in dict.fromkeys(names) or [""]:
        of_one, named = with_anchors(context, question.replace(model=name))
        asked.append(_Asked(of_one.request(named), of_one.model, of_one.notes))
    return asked


def _instances(context: Context, asked: Sequence[_Asked], question: Compare) -> Compared:
    catalog = context.catalog
    named = [
        instance_named(name, question, catalog)
        for name in (question.baseline or question.instance[0], *question.instance)
    ]
    first, names = named[0], list(dict.fromkeys([*named[1:], named[0]]))
    if len(names) < 2:
        raise UsageError(
            "one instance alone is `advisor predict`",
            field="instance",
            hint=Message("name another {field}", field=FieldName("instance")),
        )
    found = []
    for one in asked:
        cells = [
            replace(cell, warnings=(*one.notes, *cell.notes, *cell.warnings))
            for cell in compare_instances(one.request, catalog, one.model, names, today=today())
        ]
        found.append(OfInstances(one.request, cells, cells[names.index(first)]))
    return Compared(context, first, found, [])


def _gpus(context: Context, asked: Sequence[_Asked], cards: Sequence[Gpu], baseline: str | None) -> Compared:
    cards_of = context.catalog.cards
    first = cards_of[sheet_name(baseline, cards_of)] if baseline else cards[0]
    shown = list(dict.fromkeys([*cards, first]))
    found = []
    for one in asked:
        cells = [on_gpu(one.request, one.model, card) for card in shown]
        by_card = dict(zip(shown, cells, strict=True))
        fitting = [cell for cell in (by_card[first], *cells) if cell.workload is not None]
        found.append(OfGpus(one.request, cells, fitting[0] if fitting else by_card[first]))
    notes = tuple(note for one in asked for note in one.notes)
    offers = OfferQuery(
        cloud=asked[0].request.cloud,
        region=asked[0].request.region,
        market=asked[0].request.market,
        accelerated=True,
    )
    usd = {
        name: usd_per_gpu_hour(offer)
        for name, offer in cheapest_by_gpu(context.catalog.offers(offers)).items()
    }
    return Compared(context._replace(notes=notes), first.name, [], found, usd)
