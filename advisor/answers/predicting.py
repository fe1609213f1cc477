"""The throughput of one instance, as it is or with another host, or of a GPU by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from advisor.answers.context import Context, with_anchors
from advisor.answers.left_out import unconverted_notes
from advisor.catalog import OfferQuery
from advisor.catalog.gpu_names import usual_sheet_name
from advisor.catalog.what_if import WhatIfCatalog, with_host
from advisor.domain import InstancePrediction, InstanceType, OnGpu, Request
from advisor.engine import stack_assumption
from advisor.engine.other_settings import settings_of_instance, with_settings
from advisor.engine.single import on_gpu, predict_instance
from advisor.messages import Message
from advisor.naming import other_names
from advisor.questions.named import Predict
from advisor.questions.requests import today
from advisor.questions.spec_requests import instance_named
from advisor.questions.values import Curve
from advisor.render.document import Sources, plain_document
from advisor.render.predictions import (
    gpu_prediction_document,
    gpu_prediction_text,
    prediction_document,
    prediction_text,
)

if TYPE_CHECKING:
    from advisor.answers.explaining import Explained


_FACTS = ("vcpus", "physical_cores", "memory_mib")


class WhatIf(NamedTuple):
    """A type as it is, and as it is asked about."""

    real: InstanceType
    asked: InstanceType

    def document(self) -> dict[str, Any]:
        """Each fact that is not as it is, with both values."""
        return {
            name: {"real": getattr(self.real, name), "asked": getattr(self.asked, name)}
            for name in _FACTS
            if getattr(self.real, name) != getattr(self.asked, name)
        }

    @property
    def assumption(self) -> Message:
        """What the answer takes for granted."""
        changed = self.asked
        return Message(
            "{type} as if it had {vcpus} vCPUs ({cores} cores) and {memory:mib} RAM, GPUs, disks "
            "and links as they are: nobody sells that, so it has no price",
            type=changed.name,
            vcpus=changed.vcpus,
            cores=changed.physical_cores,
            memory=changed.memory_mib,
        )


def asked_of(context: Context, name: str, question: Predict) -> tuple[Context, WhatIf | None]:
    """The context on which the type `name` is as the question wants it (`vcpus`, `memory`);
    None, and the context itself, where that is as it is."""
    vcpus, memory_mib = question.vcpus, question.memory
    if vcpus is None and memory_mib is None:
        return context, None
    real = context.catalog.instance(name, context.catalog.cloud_of(name, question.cloud))
    asked = with_host(real, vcpus, memory_mib)
    if asked == real:
        return context, None
    return context._replace(catalog=WhatIfCatalog(context.catalog, asked)), WhatIf(real, asked)


class Predicted(NamedTuple):
    """A prediction with all that is told of it; `curve` is JSON-ready."""

    request: Request
    prediction: InstancePrediction
    context: Context
    what_if: WhatIf | None = None
    explained: Explained | None = None
    curve: dict[str, Any] | None = None

    @property
    def sources(self) -> Sources:
        """What it stands on."""
        return self.context.sources()

    def document(self) -> dict[str, Any]:
        """`advisor.prediction/1`, numbers unrounded."""
        return plain_document(self.message_document())

    def message_document(self) -> dict[str, Any]:
        """The same with its sentences as messages, for those who speak another language."""
        explanation = self.explained.document() if self.explained else None
        return {
            **prediction_document(self.request, self.prediction, self.sources, explanation),
            "what_if": self.what_if.document() if self.what_if else None,
            "curve": self.curve,
        }

    def text(self) -> str:
        """For a terminal."""
        explained = self.explained.text() if self.explained else ""
        return prediction_text(self.request, self.prediction, self.sources) + explained


def predicted(context: Context, question: Predict) -> Predicted:
    """What the instance of the question will reach; `UsageError` where it cannot run there.

    With `vcpus` or `memory`: what it would reach with that host. With `curve`: how that moves
    with vCPUs, RAM and disks.
    """
    context, question = with_anchors(context, question)
    name = instance_named(str(question.instance), question, context.catalog)
    context, what_if = asked_of(context, name, question)
    catalog, model, _ = context
    request = context.request(question)
    prediction = predict_instance(request, catalog, model, name, today=today())
    if what_if:
        prediction = replace(prediction, assumptions=(what_if.assumption, *prediction.assumptions))
    elif prediction.price is None:
        cloud, market = prediction.instance.cloud, request.market
        sold = OfferQuery(cloud=cloud, region=request.region, market=market)
        notes = unconverted_notes(catalog, sold)
        prediction = replace(prediction, warnings=(*notes, *prediction.warnings))
    prediction = replace(prediction, other_settings=settings_of_instance(prediction, catalog, model))
    found = Predicted(request, prediction, context, what_if)
    if question.explain:
        from advisor.answers.explaining import explain_instance

        found = found._replace(explained=explain_instance(prediction, catalog, model))
    return _with_curve(found, question.curve) if question.curve else found


def _with_curve(found: Predicted, curve: Curve) -> Predicted:
    from advisor.answers.curves import curves_document, curves_of

    curves = curves_of(found.context, found.request, found.prediction, curve)
    return found._replace(curve=curves_document(curves))


class PredictedOnGpu(NamedTuple):
    """A prediction for a card alone, with what it stands on."""

    request: Request
    prediction: OnGpu
    context: Context

    def document(self) -> dict[str, Any]:
        """`advisor.gpu-prediction/1`, numbers unrounded."""
        return plain_document(gpu_prediction_document(*self._told()))

    def text(self) -> str:
        """For a terminal."""
        return gpu_prediction_text(*self._told())

    def _told(self) -> tuple[Request, OnGpu, Sources, tuple[Message | str, ...]]:
        stack, names = stack_assumption(self.request), other_names(self.request)
        assumed: tuple[Message | str, ...] = (stack, "samples on the device", *names)
        return self.request, self.prediction, self.context.sources(), assumed


def predicted_on_gpu(context: Context, question: Predict) -> PredictedOnGpu:
    """What the card that `question.gpu` names (any name of a data sheet) reaches with its samples
    on the device. `UsageError` for an unknown card, with near names."""
    cards = context.catalog.cards
    card = cards[usual_sheet_name(str(question.gpu), cards)]
    context, question = with_anchors(context, question)
    request = context.request(question)
    prediction = with_settings(on_gpu(request, context.model, card), context.model)
    return PredictedOnGpu(request, prediction, context)
