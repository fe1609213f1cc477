"""GPU memory of a network, and the GPUs that it fits."""

from __future__ import annotations

import re
from typing import Any

from advisor.answers.memory_capture import answer_memory, gpus_named
from advisor.answers.words import Words
from advisor.catalog import Catalog
from advisor.domain import Precision, Task
from advisor.errors import UsageError
from advisor.questions.hardware import GpuWanted
from models.performance.memory import Conditions, MemoryAnswer, Optimizer, Question

_SQUARE = re.compile(r"(?:3x)?([1-9][0-9]{0,5})(?:x\1)?")
OPTIMIZERS = ("sgd", "momentum", "adam")
DEFAULT_OPTIMIZER = "momentum"


def memory_answered(catalog: Catalog, words: Words) -> MemoryAnswer:
    """The answer to `words`, named as the command's options; `optimizer` None is the default.

    Raises `UsageError` for what cannot be asked, `MeasuringError` where a network must be traced
    and torch is missing.
    """
    task, optimizer = Task(words["task"]), words.get("optimizer")
    keeps_graph = bool(words.get("keep_graph"))
    if task is Task.INFERENCE and optimizer is not None:
        raise UsageError("--optimizer belongs to training; leave it out for inference")
    if task is Task.TRAINING and keeps_graph:
        raise UsageError("--keep-graph belongs to inference: training keeps its graph anyway")
    wanted = words.get("gpu") or GpuWanted()
    gpus = gpus_named(catalog, wanted.names, wanted.allows)
    conditions = Conditions(
        task=task,
        batch_size=words["batch_size"],
        precision=Precision(words["precision"]),
        optimizer=Optimizer(optimizer or DEFAULT_OPTIMIZER),
        checkpointing=bool(words.get("checkpointing")),
        keeps_graph=keeps_graph,
    )
    return answer_memory(_question(words, conditions), gpus)


def _question(words: Words, conditions: Conditions) -> Question:
    return Question(
        reference=words["network"],
        conditions=conditions,
        pixels=_side(words),
        confidence=words["confidence"],
    )


def _side(words: Words) -> int | None:
    """The side of square images that is asked for; None for the network's own."""
    side, text = words.get("input_size"), words.get("input")
    if not text:
        return side
    if side:
        raise UsageError("--input and --input-size say the same; give one of them")
    found = _SQUARE.fullmatch(text.lower())
    if not found:
        raise UsageError(f"--input {text} is no square image; write it as 3x384x384 or 384")
    return int(found.group(1))


def memory_document_of(catalog: Catalog, words: Words) -> dict[str, Any]:
    """`advisor.memory-answer/1`."""
    from advisor.render.memory import memory_document

    return memory_document(memory_answered(catalog, words))
