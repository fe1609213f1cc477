"""GPU memory of a network, and the GPUs that it fits."""

from __future__ import annotations

import re
from typing import Any

from advisor.answers.memory_capture import answer_memory, gpus_named
from advisor.catalog import Catalog
from advisor.questions.fields import wrong
from advisor.questions.models import MemoryQuestion
from advisor.questions.values import GpuFilter
from models.performance.memory import Conditions, MemoryAnswer, Optimizer, Question

_SQUARE = re.compile(r"(?:3x)?([1-9][0-9]{0,5})(?:x\1)?")
DEFAULT_OPTIMIZER = "momentum"


def memory_answered(catalog: Catalog, question: MemoryQuestion) -> MemoryAnswer:
    """The answer to a question.

    Raises `UsageError` for what cannot be asked, `MeasuringError` where a network must be traced
    and torch is missing.
    """
    gpus = question.gpu or GpuFilter()
    conditions = Conditions(
        task=question.task,
        batch_size=question.batch_size,
        precision=question.precision,
        optimizer=Optimizer(question.optimizer or DEFAULT_OPTIMIZER),
        checkpointing=question.checkpointing,
        keeps_graph=question.keep_graph,
    )
    workload = Question(
        reference=question.model,
        conditions=conditions,
        pixels=question.input_size or _side(question.input),
        confidence=question.confidence,
    )
    return answer_memory(workload, gpus_named(catalog, gpus.names, gpus.allows))


def _side(text: str | None) -> int | None:
    """The side of square images that is asked for; None for the network's own."""
    if text is None:
        return None
    match = _SQUARE.fullmatch(text.lower())
    if not match:
        raise wrong(
            "input", "{field} {text} is no square image", text=text,
            hint="write it as 3x384x384 or 384",
        )  # fmt: skip
    return int(match.group(1))


def memory_document_of(catalog: Catalog, question: MemoryQuestion) -> dict[str, Any]:
    """`advisor.memory-answer/1`."""
    from advisor.render.memory import memory_document

    return memory_document(memory_answered(catalog, question))
