"""Answers questions about networks: recommend, predict, compare and explain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from advisor.answers.context import (
    Answer,
    Context,
    Recommended,
    omission_notes,
    recommendation_text,
    region_notes,
    results_and_misfits,
    unconverted_notes,
    with_anchors,
)
from advisor.answers.curves import curves_document
from advisor.catalog import OfferQuery
from advisor.catalog.gpus import cheapest_by_gpu, sheet_name, usd_per_gpu_hour
from advisor.catalog.load import WhatIfCatalog, with_host
from advisor.domain import Gpu, InstanceType, OnGpu, Recommendation
from advisor.engine import Preparations, decide, script_assumption, stack_assumption
from advisor.engine.explaining import (
    explain,
    settings_of_candidate,
    settings_of_instance,
    with_cheaper_specs,
    with_settings,
)
from advisor.engine.relax import relaxed
from advisor.engine.single import on_gpu, predict_instance
from advisor.engine.tasks.network import NetworkTask
from advisor.errors import UsageError
from advisor.messages import FieldName, Message, format_mib
from advisor.naming import other_names
from advisor.questions import settled
from advisor.questions.fields import comma_parts
from advisor.questions.network import Compare, NetworkQuestion, Predict, Recommend
from advisor.questions.settled import instance_named, wanted_cards
from advisor.questions.values import GpuFilter
from advisor.render.blocks import Items, Part
from advisor.render.document import gpu_prediction_document, prediction_document, recommendation_document
from advisor.render.export import export
from advisor.render.records import explanation_document
from advisor.render.terminal import block_lines
from advisor.render.views.compare import (
    COLUMNS,
    Misfit,
    comparison_document,
    gpu_rows,
    gpus_lines,
    instance_rows,
    network_lines,
    notes_lines,
)
from advisor.render.views.whole import prediction_text, whole_text

if TYPE_CHECKING:
    from advisor.domain.decision import Explanation
    from advisor.models.performance import PerformanceModel

_CHANGEABLE = ("vcpus", "physical_cores", "memory_mib")


class NetworkRecommended(Recommended, frozen=True, kw_only=True):
    """A recommendation for a network, with its question, its context, and the preparations that later
    questions about the same workload can reuse."""

    question: Recommend
    context: Context
    preparations: Preparations

    def relaxed(self) -> NetworkRecommended:
        """The answer with the limits to relax, where no spec answers; finding them takes seconds."""
        result = relaxed(NetworkTask(self.preparations), self.result)
        return _answer(result, self.question, self.context, self.preparations)


def recommended(
    context: Context,
    question: Recommend,
    *,
    preparations: Preparations | None = None,
    today: date | None = None,
    relax: bool = True,
) -> NetworkRecommended:
    """The cheapest spec that meets the target as of `today`, or the limits to relax where none does.

    `preparations` of the same catalogue and model save most of the work. With `relax` False, the limits to
    relax are left to the answer's `relaxed()`.

    Raises `UsageError`, `NoIntervalError`, `NoOfferError` (no prices at all there), and with `strict`
    `StalePriceError`."""
    context, question = with_anchors(context, question)
    request, today = context.request(question), today or settled.today()
    if question.live:
        from advisor.answers.live.checking import recommend_live  # boto3 is imported only here

        result, catalog = recommend_live(request, context.model, today=today, strict=question.strict)
        context = context._replace(catalog=catalog)
        preparations = Preparations(catalog, context.model)
    else:
        catalog, model = context.catalog, context.model
        if not preparations or preparations.catalog is not catalog or preparations.model is not model:
            preparations = Preparations(catalog, model)
        result = decide.recommend(NetworkTask(preparations), request, today=today, strict=question.strict)
    notes = omission_notes(request, context.catalog, today, strict=question.strict)
    if result.chosen is not None:
        notes = (*notes, *NetworkTask(preparations).notes(request, result.chosen))
    result = replace(
        result,
        warnings=(*context.notes, *notes, *result.warnings),
        assumptions=(*region_notes(request, context.catalog), *result.assumptions),
    )
    if result.chosen is not None:
        settings = settings_of_candidate(result.chosen, context.catalog, context.model)
        settings = with_cheaper_specs(result, settings, preparations, context.model)
        result = replace(result, other_settings=settings)
    answer = _answer(result, question, context, preparations)
    return answer.relaxed() if relax and result.chosen is None else answer


def _answer(
    result: Recommendation, question: Recommend, context: Context, preparations: Preparations
) -> NetworkRecommended:
    every, sources = question.explain_rejected, context.sources()

    def document() -> dict[str, Any]:
        explained = explained_answer(result, context) if question.explain else None
        explanation = explanation_document(*explained) if explained else None
        return recommendation_document(result, sources, explanation, every_rejected=every)

    return NetworkRecommended(
        result=result,
        message_document=document,
        text=recommendation_text(question, document, everything=question.pareto),
        start_file=lambda name: export(result.ranked[0], name),
        question=question,
        context=context,
        preparations=preparations,
    )


def explained_answer(result: Recommendation, context: Context) -> tuple[str, Explanation] | None:
    """The type and explanation of the chosen spec, else of the nearest; None where there is no such spec."""
    candidate = result.chosen or result.nearest
    if candidate is None:
        return None
    instance, disk = candidate.spec.offer.instance, candidate.spec.disk
    # The explanation is about one instance: all instances of a spec have the same bottleneck.
    one_instance = candidate.prediction.times(1 / candidate.spec.count)
    explanation = explain(context.catalog, context.model, instance, disk, candidate.workload, one_instance)
    return (instance.name, explanation) if explanation else None


def what_if_context(
    context: Context, name: str, question: Predict
) -> tuple[Context, tuple[InstanceType, InstanceType] | None]:
    """The context whose catalogue gives type `name` the vCPUs and RAM of the question, with the real and the
    changed type. The given context and None where the question changes nothing."""
    vcpus, memory_mib = question.other_vcpus, question.other_memory_mib
    if vcpus is None and memory_mib is None:
        return context, None
    real = context.catalog.instance(name, context.catalog.cloud_of(name, question.cloud))
    changed = with_host(real, vcpus, memory_mib)
    if changed == real:
        return context, None
    return context._replace(catalog=WhatIfCatalog(context.catalog, changed)), (real, changed)


def _what_if_assumption(changed: InstanceType) -> Message:
    return Message(
        "{type} as if it had {vcpus} vCPUs ({cores} cores) and {memory:mib} RAM, GPUs, disks "
        "and links as they are: nobody sells that, so it has no price",
        type=changed.name,
        vcpus=changed.vcpus,
        cores=changed.physical_cores,
        memory=changed.memory_mib,
    )


def predicted(context: Context, question: Predict) -> Answer:
    """The prediction for the instance or GPU of the question; `UsageError` where the work cannot run there.
    `vcpus` and `memory` of the question replace the instance's; `curve` adds the rates at other vCPUs, RAM
    and disks."""
    if question.gpu is not None:
        return _predicted_on_gpu(context, question)
    context, question = with_anchors(context, question)
    name = instance_named(str(question.instance), question, context.catalog)
    context, changed = what_if_context(context, name, question)
    catalog, model, _ = context
    request = context.request(question)
    result = predict_instance(request, catalog, model, name, today=settled.today())
    what_if_facts: dict[str, Any] | None = None
    if changed:
        result = replace(result, assumptions=(_what_if_assumption(changed[1]), *result.assumptions))
        what_if_facts = {
            name: {"real": getattr(changed[0], name), "asked": getattr(changed[1], name)}
            for name in _CHANGEABLE
            if getattr(changed[0], name) != getattr(changed[1], name)
        }
    elif result.price is None:
        sold = OfferQuery(cloud=result.instance.cloud, region=request.region, market=request.market)
        result = replace(result, warnings=(*unconverted_notes(catalog, sold), *result.warnings))
    result = replace(result, other_settings=settings_of_instance(result, catalog, model))
    explained = None
    if question.explain:
        explained = explain(catalog, model, result.instance, result.disk, result.workload, result.prediction)
    curve = curves_document(context, request, result, question.curve) if question.curve else None
    sources = context.sources()

    def document() -> dict[str, Any]:
        explanation = explanation_document(result.instance.name, explained) if explained else None
        return {
            **prediction_document(request, result, sources, explanation),
            "what_if": what_if_facts,
            "curve": curve,
        }

    def text() -> str:
        return prediction_text(document(), cloud=result.instance.cloud, market=str(request.market))

    return Answer(result=result, message_document=document, text=text, notes=context.notes)


def _predicted_on_gpu(context: Context, question: Predict) -> Answer:
    """The prediction for the card that `question.gpu` names (any name of a data sheet), with samples already
    on the device. Raises `UsageError` with similar names for an unknown card."""
    cards = context.catalog.cards
    card = cards[context.catalog.cards_named(str(question.gpu))[0]]
    context, question = with_anchors(context, question)
    request = context.request(question)
    result = with_settings(on_gpu(request, context.model, card), context.model)
    assumed: tuple[Message | str, ...] = (
        stack_assumption(request, result.workload),
        *script_assumption(request, result.prediction),
        "samples on the device",
        *other_names(request),
    )
    document = partial(gpu_prediction_document, request, result, context.sources(), assumed)
    head = (
        f"{card.name}, {format_mib(card.memory_mib)}   samples on the device; `--instance` predicts a machine"
    )
    return Answer(
        result=result,
        message_document=document,
        text=lambda: whole_text((head,), document()),
        notes=context.notes,
    )


class _NetworkRequest(NamedTuple):
    """One compared network: its request, its model conditioned on anchors, and notes for the answer."""

    request: NetworkQuestion
    model: PerformanceModel
    notes: tuple[Message, ...]


def compared(context: Context, question: Compare) -> Answer:
    """The instances or GPUs of the question relative to the baseline (1), in one table per network."""
    networks = []
    for name in dict.fromkeys(comma_parts(question.network)) or [""]:
        known, named = with_anchors(context, question.replace(network=name))
        networks.append(_NetworkRequest(known.request(named), known.model, known.notes))
    if question.instance:
        return _compared_instances(context, networks, question)
    cards = wanted_cards(context.catalog, question.gpu or GpuFilter())
    return _compared_gpus(context, networks, cards, question.baseline)


def _compared_instances(context: Context, networks: Sequence[_NetworkRequest], question: Compare) -> Answer:
    catalog, today = context.catalog, settled.today()
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
    tables, cannot = [], dict[str, Misfit]()
    for network in networks:
        on = partial(predict_instance, network.request, catalog, network.model, today=today)
        known, misfits = results_and_misfits(catalog, question, names, on)
        cells = {
            name: replace(cell, warnings=(*network.notes, *cell.notes, *cell.warnings))
            for name, cell in known.items()
        }
        tables.append(
            (network.request, list(cells.values()), cells.get(first, next(iter(cells.values()))), misfits)
        )
        cannot |= {misfit.instance.name: misfit for misfit in misfits}

    def rows() -> list[dict[str, Any]]:
        return [row for _, cells, base, _ in tables for row in instance_rows(cells, base)]

    def text() -> str:
        parts = [
            network_lines(request, instance_rows(cells, base), base.instance.name, misfits)
            for request, cells, base, misfits in tables
        ]
        return "\n".join([line for lines in parts for line in (*lines, "")][:-1] + notes_lines(rows()))

    return _comparison(context, networks, first, rows, text, list(cannot.values()))


def _compared_gpus(
    context: Context, networks: Sequence[_NetworkRequest], cards: Sequence[Gpu], baseline: str | None
) -> Answer:
    known = context.catalog.cards
    first = known[sheet_name(baseline, known)] if baseline else cards[0]
    shown = list(dict.fromkeys([*cards, first]))
    tables: list[tuple[NetworkQuestion, list[OnGpu], OnGpu]] = []
    for network in networks:
        cells = [on_gpu(network.request, network.model, card) for card in shown]
        cell_of_first = cells[shown.index(first)]
        fitting = [cell for cell in (cell_of_first, *cells) if cell.workload is not None]
        tables.append((network.request, cells, fitting[0] if fitting else cell_of_first))
    request = networks[0].request
    offers = OfferQuery(cloud=request.cloud, region=request.region, market=request.market, accelerated=True)
    cheapest = cheapest_by_gpu(context.catalog.offers(offers))
    usd = {name: usd_per_gpu_hour(offer) for name, offer in cheapest.items()}

    def rows() -> list[dict[str, Any]]:
        return [row for _, cells, base in tables for row in gpu_rows(cells, base, usd)]

    def text() -> str:
        shown = [(request, gpu_rows(cells, base, usd)) for request, cells, base in tables]
        assumed = dict.fromkeys(str(stack_assumption(network.request, None)) for network in networks)
        notes = [str(note) for network in networks for note in network.notes]
        parts = [Part("Assumed", [Items(list(assumed))]), Part("Warnings", [Items(notes)])]
        return "\n".join([*gpus_lines(shown, first.name), *block_lines(parts)])

    return _comparison(context, networks, first.name, rows, text)


def _comparison(
    context: Context,
    networks: Sequence[_NetworkRequest],
    first: str,
    rows: Any,
    text: Any,
    misfits: Sequence[Misfit] = (),
) -> Answer:
    requests_of = [network.request for network in networks]
    return Answer(
        result=first,
        message_document=lambda: comparison_document(requests_of, first, rows(), context.sources(), misfits),
        text=text,
        notes=[misfit.why for misfit in misfits],
        columns=COLUMNS,
    )
