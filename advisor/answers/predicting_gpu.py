"""What one GPU reaches by itself, for rent or not."""

from __future__ import annotations

from typing import Any, NamedTuple

from advisor.answers.context import Context, with_anchors
from advisor.catalog.gpu_names import usual_sheet_name
from advisor.domain import OnGpu, Request
from advisor.engine import stack_assumption
from advisor.engine.other_settings import with_settings
from advisor.engine.single import on_gpu
from advisor.messages import Message
from advisor.questions.models import Predict
from advisor.render.document import Sources, plain_document
from advisor.render.predictions import gpu_prediction_document, gpu_prediction_text


class PredictedOnGpu(NamedTuple):
    """A prediction for a card alone, with what it stands on."""

    request: Request
    one: OnGpu
    context: Context

    def document(self) -> dict[str, Any]:
        """`advisor.gpu-prediction/1`, numbers unrounded."""
        return plain_document(gpu_prediction_document(*self._told()))

    def text(self) -> str:
        """For a terminal."""
        return gpu_prediction_text(*self._told())

    def _told(self) -> tuple[Request, OnGpu, Sources, tuple[Message | str, ...]]:
        assumed = (stack_assumption(self.request), "samples on the device")
        return self.request, self.one, self.context.sources(), assumed


def predicted_on_gpu(context: Context, question: Predict) -> PredictedOnGpu:
    """What the card that `question.gpu` names (any name of a data sheet) reaches with its samples
    on the device. `UsageError` for an unknown card, with near names."""
    cards = context.catalog.cards
    card = cards[usual_sheet_name(str(question.gpu), cards)]
    context, question = with_anchors(context, question)
    request = context.request(question)
    one = with_settings(on_gpu(request, context.model, card), context.model)
    return PredictedOnGpu(request, one, context)
