"""What one GPU reaches by itself, for rent or not."""

from __future__ import annotations

from typing import Any, NamedTuple

from advisor.answers.ground import Ground, with_anchors
from advisor.answers.words import Words
from advisor.catalog.gpu_names import usual_sheet_name
from advisor.domain import OnGpu, Request, Task
from advisor.engine import on_gpu, stack_assumption
from advisor.engine.other_settings import with_settings
from advisor.errors import UsageError
from advisor.messages import Message
from advisor.render.document import Sources, plain
from advisor.render.predictions import gpu_prediction_document, gpu_prediction_text

# What is asked of an instance, and of no card.
_OF_INSTANCES = {
    "instance": "--instance", "as_vcpus": "--vcpus", "as_memory_mib": "--memory",
    "explain": "--explain", "epochs": "--epochs", "samples": "--samples", "disk": "--disk",
}  # fmt: skip


class PredictedOnGpu(NamedTuple):
    """A prediction for a card alone, with what it stands on."""

    request: Request
    one: OnGpu
    ground: Ground

    def document(self) -> dict[str, Any]:
        """`advisor.gpu-prediction/1`, numbers unrounded."""
        document: dict[str, Any] = plain(gpu_prediction_document(*self._told()))
        return document

    def text(self) -> str:
        """For a terminal."""
        return gpu_prediction_text(*self._told())

    def _told(self) -> tuple[Request, OnGpu, Sources, tuple[Message | str, ...]]:
        assumed = (stack_assumption(self.request), "samples on the device")
        return self.request, self.one, self.ground.sources(), assumed


def predicted_on_gpu(ground: Ground, words: Words) -> PredictedOnGpu:
    """What the card in `words["gpu"]` (any name of a data sheet) reaches with its samples on the
    device. `UsageError` for an unknown card, with near names, and where an instance is asked too.
    """
    others = [option for name, option in _OF_INSTANCES.items() if words.get(name)]
    if others:
        raise UsageError(f"--gpu is a card without a host; leave out {', '.join(others)}")
    if words["task"] == Task.PREPROCESSING:
        raise UsageError("preprocessing uses no GPU; name an --instance")
    cards = ground.catalog.cards
    card = cards[usual_sheet_name(str(words["gpu"]), cards)]
    ground, words = with_anchors(ground, {**words, "gpu": None})
    request = ground.request(words)
    one = with_settings(on_gpu(request, ground.model, card), ground.model)
    return PredictedOnGpu(request, one, ground)
