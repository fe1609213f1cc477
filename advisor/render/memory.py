"""GPU memory of a workload -> JSON document and one screen of text."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from advisor.render.text import WIDTH, table
from advisor.units import format_mib

if TYPE_CHECKING:
    from advisor.models.performance.memory import GpuPeak, MemoryAnswer, OnGpu, WhatIf

SCHEMA = "advisor.memory-answer/1"
# So many what-if columns fit on a line: the smallest, and some larger cards.
_SHOWN_IN_WHAT_IFS = 4
_PARTS = (
    ("weights", "weights_mib", "parameters and buffers, exact"),
    ("gradients", "gradients_mib", "one for each trained value, exact"),
    ("optimizer", "optimizer_mib", "its state, exact"),
    ("activations", "saved_mib", "kept by the forward pass, replayed"),
    ("temporary", "temporary_mib", "the rest of the tensors at the peak, replayed"),
    ("CUDA context", "context_mib", "with the handles of its libraries, calibrated"),
    ("allocator", "overhead_mib", "rounding, fragmentation and workspaces, replayed"),
)


def memory_document(answer: MemoryAnswer) -> dict[str, Any]:
    """The answer as report/schemas/memory.schema.json describes it, MiB unrounded."""
    question, conditions = answer.question, answer.question.conditions
    return {
        "schema": SCHEMA,
        "request": {
            "model": question.reference,
            "task": str(conditions.task),
            "batch_size": conditions.batch_size,
            "precision": str(conditions.precision),
            "optimizer": str(conditions.optimizer) if conditions.task == "training" else None,
            "checkpointing": conditions.checkpointing,
            "no_grad": conditions.task == "inference" and not conditions.keeps_graph,
            "input_size": question.pixels,
            "confidence": question.confidence,
        },
        "traced_on": "fake tensors" if answer.traced == "fake" else "a real step on the CPU",
        "calibrated": answer.peak.calibrated,
        "parts_mib": {name.replace(" ", "_").lower(): mib for name, mib, _ in parts(answer.peak)},
        "peak_mib": _bounds(answer.peak),
        "gpus": [_gpu_document(gpu) for gpu in answer.gpus],
        "what_ifs": [
            {
                "change": what_if.change,
                "peak_mib": _bounds(what_if.peak),
                "largest_batch": {
                    gpu.name: batch for gpu, batch in zip(answer.gpus, what_if.largest_batches, strict=True)
                },
            }
            for what_if in answer.what_ifs
        ],
        "notes": notes(answer),
    }


def memory_text(answer: MemoryAnswer) -> str:
    """The answer for a terminal."""
    peak, confidence = answer.peak, answer.peak.confidence
    lines = [_headline(answer), ""]
    lines += [
        f"Peak {format_mib(peak.median_mib)}: between {format_mib(peak.lower_mib)} and "
        f"{format_mib(peak.upper_mib)}, either bound with {100 * confidence:g} % confidence."
    ]
    rows = [(name, format_mib(max(0.0, mib)), why) for name, mib, why in parts(peak)]
    lines += ["", *table(("part", "size", ""), rows, right=(1,)), ""]
    header = (
        "GPU",
        "memory",
        f"batch {answer.question.conditions.batch_size}",
        "probability",
        "largest batch",
    )
    lines += table(header, [_gpu_cells(gpu) for gpu in answer.gpus], right=(1, 3, 4))
    lines += ["", *_what_if_lines(answer)]
    for note in notes(answer):
        lines += textwrap.wrap(note, WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def parts(peak: GpuPeak) -> list[tuple[str, float, str]]:
    """(name, MiB, what it is) of each part; they add up to the median."""
    return [
        (name, float(getattr(peak.step if hasattr(peak.step, field) else peak, field)), why)
        for name, field, why in _PARTS
    ]


def notes(answer: MemoryAnswer) -> list[str]:
    """What must be known to read the answer."""
    notes = [
        "Largest batch: the upper bound fits what the driver leaves of the card. One GPU, PyTorch "
        "eager, nothing else on it."
    ]
    if not answer.peak.calibrated:
        notes.append(
            "Calibrated on training of image networks; here the interval is taken "
            f"{answer.peak.widened:g} times as wide."
        )
    if answer.traced != "fake":
        notes.append("Its work depends on its values: a real step was traced on the CPU.")
    return notes


def _headline(answer: MemoryAnswer) -> str:
    question, conditions = answer.question, answer.question.conditions
    parts = [str(conditions.task), f"batch {conditions.batch_size}", str(conditions.precision)]
    if conditions.task == "training":
        parts.append(str(conditions.optimizer))
    if conditions.checkpointing:
        parts.append("checkpointing")
    if conditions.keeps_graph:
        parts.append("without no_grad")
    if question.pixels:
        parts.append(f"{question.pixels} pixels")
    return f"{question.reference}, {', '.join(parts)}"


def _bounds(peak: GpuPeak) -> dict[str, float]:
    return {"lower": peak.lower_mib, "median": peak.median_mib, "upper": peak.upper_mib}


def _gpu_document(gpu: OnGpu) -> dict[str, Any]:
    return {
        "name": gpu.name,
        "memory_mib": gpu.memory_mib,
        "verdict": str(gpu.verdict),
        "probability": gpu.probability,
        "largest_batch": gpu.largest_batch,
    }


def _gpu_cells(gpu: OnGpu) -> tuple[str, ...]:
    batch = "none" if gpu.largest_batch is None else f"{gpu.largest_batch:,}"
    return gpu.name, format_mib(gpu.memory_mib), str(gpu.verdict), _percent(gpu.probability), batch


def _percent(probability: float) -> str:
    """'87 %', and never 0 or 100: nothing is certain."""
    return f"{min(99, max(1, round(100 * probability)))} %"


def _what_if_lines(answer: MemoryAnswer) -> list[str]:
    if not answer.what_ifs:
        return []
    shown = range(min(_SHOWN_IN_WHAT_IFS, len(answer.gpus)))
    header = ("what if", "peak", "upper", *(answer.gpus[i].name for i in shown))
    rows = [_what_if_cells(what_if, shown) for what_if in answer.what_ifs]
    right = tuple(range(1, len(header)))
    return [*table(header, rows, right=right), "  (under a GPU: its largest batch then)", ""]


def _what_if_cells(what_if: WhatIf, shown: range) -> tuple[str, ...]:
    batches = (what_if.largest_batches[i] for i in shown)
    cells = ("none" if batch is None else f"{batch:,}" for batch in batches)
    return (what_if.change, format_mib(what_if.peak.median_mib), format_mib(what_if.peak.upper_mib), *cells)
