"""Writes the GPU memory of networks and language models, as documents and as one screen of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from advisor.domain.language import ServingMemoryAnswer, SplitMemory, TunedMemory, TuningMemoryAnswer
from advisor.domain.words import ENGINES
from advisor.messages import format_mib
from advisor.render.phrases import gib_text
from advisor.render.records import fields
from advisor.render.text import folded, table

if TYPE_CHECKING:
    from advisor.models.performance.memory.peak import GpuPeak, MemoryAnswer

SCHEMA = "advisor.memory-answer/1"
LANGUAGE_SCHEMA = "advisor.language-memory/1"
# How many what-if columns fit on a line: the smallest card, and some larger ones.
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
    """Return the answer as render/schemas/memory.schema.json describes it, in unrounded MiB."""
    question, conditions = answer.question, answer.question.conditions
    return {
        "schema": SCHEMA,
        "request": {
            "model": question.reference,
            **fields(conditions, "task batch_size precision"),
            "optimizer": str(conditions.optimizer) if conditions.task == "training" else None,
            "checkpointing": conditions.checkpointing,
            "no_grad": conditions.task == "inference" and not conditions.keeps_graph,
            "input_size": question.pixels,
            "confidence": question.confidence,
        },
        "traced_on": "fake tensors" if answer.traced == "fake" else "a real step on the CPU",
        "calibrated": answer.peak.calibrated,
        "parts_mib": {name.replace(" ", "_").lower(): mib for name, mib, _ in _parts(answer.peak)},
        "peak_mib": _bounds(answer.peak),
        "gpus": [fields(gpu, "name memory_mib verdict probability largest_batch") for gpu in answer.gpus],
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
        "notes": _notes(answer),
    }


def _bounds(peak: GpuPeak) -> dict[str, float]:
    return {"lower": peak.lower_mib, "median": peak.median_mib, "upper": peak.upper_mib}


def memory_text(answer: MemoryAnswer) -> str:
    """Return the answer for a terminal."""
    peak, question, conditions = answer.peak, answer.question, answer.question.conditions
    name, size = question.network or question.reference, question.input or ""
    words = [name if name == question.reference else f"{name} ({question.reference})", str(conditions.task)]
    words += [f"{size[4:]} tokens" if size.startswith("seq:") else size] if size else []
    words += [f"batch {conditions.batch_size}", str(conditions.precision)]
    if conditions.task == "training":
        words.append("SGD with momentum" if conditions.optimizer == "momentum" else str(conditions.optimizer))
    words += ["checkpointing"] if conditions.checkpointing else []
    words += ["without no_grad"] if conditions.keeps_graph else []
    rows = [(name, format_mib(max(0.0, mib)), why) for name, mib, why in _parts(peak)]
    header = ("GPU", "memory", f"batch {conditions.batch_size}", "chance to fit", "largest batch")
    cards = [
        (
            gpu.name,
            format_mib(gpu.memory_mib),
            str(gpu.verdict),
            # Never 0 or 100 %, because no prediction is certain.
            f"{min(99, max(1, round(100 * gpu.probability)))} %",
            _batch_text(gpu.largest_batch),
        )
        for gpu in answer.gpus
    ]
    lines = [
        ", ".join(words),
        "",
        f"Peak {format_mib(peak.median_mib)}: between {format_mib(peak.lower_mib)} and "
        f"{format_mib(peak.upper_mib)}, either bound with {100 * peak.confidence:g} % confidence.",
        "",
        *table(("part", "size", ""), rows, right=(1,)),
        "",
        *table(header, cards, right=(1, 3, 4)),
        "",
    ]
    if answer.what_ifs:
        shown = [gpu.name for gpu in answer.gpus[:_SHOWN_IN_WHAT_IFS]]
        heads = ("what if (and the largest batch then)", "peak", "upper", *shown)
        what_ifs = [
            (
                what_if.change,
                format_mib(what_if.peak.median_mib),
                format_mib(what_if.peak.upper_mib),
                *map(_batch_text, what_if.largest_batches[:_SHOWN_IN_WHAT_IFS]),
            )
            for what_if in answer.what_ifs
        ]
        lines += [*table(heads, what_ifs, right=range(1, len(heads))), ""]
    return "\n".join(lines + [line for note in _notes(answer) for line in folded(note, indent=2)])


def _batch_text(batch: int | None) -> str:
    return "none" if batch is None else f"{batch:,}"


def _parts(peak: GpuPeak) -> list[tuple[str, float, str]]:
    """Return (name, MiB, what it is) for each part; the parts add up to the median."""
    return [
        (name, float(getattr(peak.step if hasattr(peak.step, field) else peak, field)), why)
        for name, field, why in _PARTS
    ]


def _notes(answer: MemoryAnswer) -> list[str]:
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


def serving_memory_document(answer: ServingMemoryAnswer) -> dict[str, Any]:
    """Return the memory of a served model on each GPU, in GiB."""
    return {
        "schema": LANGUAGE_SCHEMA,
        "request": {
            "task": "generation",
            **fields(answer, "model precision kv_precision engine context_tokens"),
        },
        **fields(answer, "weights_gib kv_bytes_per_token"),
        "gpus": [
            {**fields(split, "gpu gpu_memory_gib precision tensor_parallel"), **_use_block(split)}
            for split in answer.gpus
        ],
    }


def serving_memory_text(answer: ServingMemoryAnswer) -> str:
    """Return the memory of a served model on each GPU, for a terminal."""
    title = (
        f"{answer.model} generation: weights {answer.precision} "
        f"{gib_text(answer.weights_gib)} GiB, KV cache {answer.kv_precision} "
        f"at most {answer.kv_bytes_per_token:,.0f} bytes a token (sequences of "
        f"{answer.context_tokens:,} tokens), {ENGINES.get(str(answer.engine), str(answer.engine))}"
    )
    header = ("GPU", "memory", "fewest", "weights", "KV cache", "engine", "unused", "sequences", "longest")
    rows = [
        [
            split.gpu if split.precision == answer.precision else f"{split.gpu} ({split.precision})",
            gib_text(split.gpu_memory_gib),
            str(split.tensor_parallel),
            *map(gib_text, (use.weights_gib, use.kv_gib, use.overhead_gib, use.free_gib)),
            f"{use.largest_concurrency:,}",
            f"{use.longest_context:,}",
        ]
        for split in answer.gpus
        if (use := split.use) is not None
    ]
    remarks = [
        "GiB per GPU, on the fewest GPUs that hold the model; what a split cannot divide lies whole on each.",
        "unused: what the engine leaves free; sequences, longest context: of one copy of the model.",
    ]
    return _model_memory(folded(title), header, rows, remarks, answer.gpus)


def _use_block(gpu: SplitMemory | TunedMemory) -> dict[str, Any]:
    """Return whether a model fits a GPU, why not, and how much memory each part takes."""
    use = asdict(gpu.use) if gpu.use else None
    return {"fits": use is not None, "why_not": gpu.why_not or None, "memory_per_gpu": use}


def _model_memory(
    title: Sequence[str],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    remarks: Sequence[str],
    gpus: Sequence[SplitMemory | TunedMemory],
) -> str:
    """Return a table of the GPUs that hold a model, and why the others do not, each reason once."""
    lines = [*title, ""]
    lines += [*table(header, rows, right=range(1, 9)), *remarks] if rows else []
    missed = dict[str, list[str]]()
    for gpu in gpus:
        if gpu.use is None:
            why = str(gpu.why_not).removeprefix(f"{gpu.gpu} is ").replace(gpu.gpu, "it")
            missed.setdefault(why, []).append(gpu.gpu)
    lines += ["", "Does not fit:"] if missed else []
    for why, names in missed.items():
        lines += folded(f"  {', '.join(names)}: {why}", indent=4)
    return "\n".join(lines)


def tuning_memory_document(answer: TuningMemoryAnswer) -> dict[str, Any]:
    """Return the memory of fine-tuning a model on each GPU, in GiB."""
    return {
        "schema": LANGUAGE_SCHEMA,
        "request": {"task": "finetuning", **fields(answer, "model method sequence")},
        "gpus": [
            {**fields(tuned, "gpu gpu_memory_gib gpus micro_batch checkpointing"), **_use_block(tuned)}
            for tuned in answer.gpus
        ],
    }


def tuning_memory_text(answer: TuningMemoryAnswer) -> str:
    """Return the memory of fine-tuning a model on each GPU, for a terminal."""
    title = f"{answer.model} finetuning ({answer.method}), sequences of {answer.sequence:,} tokens"
    header = ("GPU", "memory", "fewest", "batch", "weights", "training", "activations", "overhead", "free")
    rows = [
        [
            tuned.gpu,
            gib_text(tuned.gpu_memory_gib),
            str(tuned.gpus),
            str(tuned.micro_batch),
            *map(gib_text, (use.weights_gib, use.gradients_gib + use.optimizer_gib)),
            gib_text(use.activations_gib) + ("*" if tuned.checkpointing else ""),
            *map(gib_text, (use.overhead_gib, use.free_gib)),
        ]
        for tuned in answer.gpus
        if (use := tuned.use) is not None
    ]
    remarks = [
        "GiB of each GPU, on the fewest of 1, 2, 4 or 8 GPUs that hold the run.",
        "batch: the fastest micro-batch that fits, not the largest; *: with activations computed again.",
        "weights: a GPU's share and the layers that it gathers; training: gradients and optimizer state.",
    ]
    return _model_memory([title], header, rows, remarks, answer.gpus)
