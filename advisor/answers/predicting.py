"""The throughput of one named instance, as it is or as if it had another host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.answers.context import Context, with_anchors
from advisor.answers.what_if import WhatIf, asked_of
from advisor.domain import InstancePrediction, Request
from advisor.engine.other_settings import settings_of_instance
from advisor.engine.single import predict_instance
from advisor.questions.models import Predict
from advisor.questions.requests import instance_named, today
from advisor.questions.values import Curve
from advisor.records import replace
from advisor.render.document import Sources, plain_document
from advisor.render.predictions import prediction_document, prediction_text

if TYPE_CHECKING:
    from advisor.answers.explaining import Explained


class Predicted(NamedTuple):
    """A prediction with all that is told of it; `curve` is JSON-ready."""

    request: Request
    one: InstancePrediction
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
            **prediction_document(self.request, self.one, self.sources, explanation),
            "what_if": self.what_if.document() if self.what_if else None,
            "curve": self.curve,
        }

    def text(self) -> str:
        """For a terminal."""
        explained = self.explained.text() if self.explained else ""
        return prediction_text(self.request, self.one, self.sources) + explained


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
    one = predict_instance(request, catalog, model, name, today=today())
    if what_if:
        one = replace(one, assumptions=(what_if.told(), *one.assumptions))
    one = replace(one, other_settings=settings_of_instance(one, catalog, model))
    found = Predicted(request, one, context, what_if)
    if question.explain:
        from advisor.answers.explaining import explain_instance

        found = found._replace(explained=explain_instance(one, catalog, model))
    return _with_curve(found, question.curve) if question.curve else found


def _with_curve(found: Predicted, curve: Curve) -> Predicted:
    from advisor.answers.curves import curves_document, curves_of

    curves = curves_of(found.context, found.request, found.one, curve)
    return found._replace(curve=curves_document(curves))
