"""One instance or several that serve a language model, and the memory that models take: documents,
rows and text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from advisor.domain.language import GenerationRequest, ServingMemoryAnswer, ServingPrediction, SplitMemory
from advisor.domain.tuning import FineTuningRequest, TunedMemory, TuningMemoryAnswer, TuningPrediction
from advisor.render.blocks import BOUNDS, bounds
from advisor.render.comparing import notes_lines
from advisor.render.document import Sources
from advisor.render.language.document import (
    finetuning_block,
    front_block,
    generation_block,
    memory_block,
    request_block,
    step_block,
)
from advisor.render.language.phrases import (
    BINDS,
    ENGINES,
    gib_text,
    gpus_text,
    seconds_text,
    short_placement_text,
    usd_or_dash,
)
from advisor.render.text import WIDTH, fitting_table, lower_name, lower_text, table
from advisor.units import format_rate

PREDICTION_SCHEMA = "advisor.serving-prediction/1"
TUNING_SCHEMA = "advisor.tuning-prediction/1"
COMPARISON_SCHEMA = "advisor.serving-comparison/1"
MEMORY_SCHEMA = "advisor.language-memory/1"
COLUMNS = (
    "instance_type",
    "gpu",
    "gpu_count",
    "tensor_parallel",
    "replicas",
    *(f"throughput_{bound}" for bound in BOUNDS),
    "ttft_seconds",
    "tpot_seconds",
    "relative",
    "total_usd_per_hour",
    "usd_per_million_output_tokens",
    "ready_seconds",
    "bottleneck",
    "cloud",
    "region",
    "price_kind",
    "price_as_of",
)


def prediction_document(
    prediction: ServingPrediction, request: GenerationRequest, sources: Sources
) -> dict[str, Any]:
    """What one instance does; price and cost are null where no price is known."""
    return {
        "schema": PREDICTION_SCHEMA,
        "request": request_block(request, "generation"),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        **_block(prediction, request.confidence, sources),
        "front": [front_block(point) for point in prediction.front],
        "steps": [step_block(step) for step in prediction.steps],
        "assumptions": list(prediction.assumptions),
        "warnings": list(prediction.warnings),
    }


def _block(prediction: ServingPrediction, confidence: float, sources: Sources) -> dict[str, Any]:
    block = generation_block(prediction.candidate, confidence, sources)
    return block if prediction.price else block | {"price": None, "cost": None}


def tuning_document(
    prediction: TuningPrediction, request: FineTuningRequest, sources: Sources
) -> dict[str, Any]:
    """What one instance that tunes does; price and cost are null where no price is known."""
    block = finetuning_block(prediction.candidate, request.confidence)
    if prediction.price is None:
        block |= {"price": None, "run": block["run"] | {"usd": None}}
    return {
        "schema": TUNING_SCHEMA,
        "request": request_block(request, "finetuning"),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        **block,
        "assumptions": list(prediction.assumptions),
        "warnings": list(prediction.warnings),
    }


def comparison_document(
    predictions: Sequence[ServingPrediction],
    baseline: ServingPrediction,
    request: GenerationRequest,
    sources: Sources,
) -> dict[str, Any]:
    """Instances beside each other; `relative` is the median over the baseline's."""
    rows = [
        _block(one, request.confidence, sources)
        | {
            "relative": _relative(one, baseline),
            "assumptions": list(one.assumptions),
            "warnings": list(one.warnings),
        }
        for one in predictions
    ]
    return {
        "schema": COMPARISON_SCHEMA,
        "request": request_block(request, "generation"),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        "baseline": baseline.candidate.spec.offer.instance.name,
        "rows": rows,
    }


def _relative(one: ServingPrediction, baseline: ServingPrediction) -> float:
    rates = (each.candidate.rates.output_tokens_per_second.median for each in (one, baseline))
    mine, first = rates
    return mine / first


def comparison_rows(
    predictions: Sequence[ServingPrediction], baseline: ServingPrediction
) -> list[dict[str, Any]]:
    """One flat record an instance: medians, but for the throughput."""
    return [_row(one, baseline) for one in predictions]


def _row(one: ServingPrediction, baseline: ServingPrediction) -> dict[str, Any]:
    candidate = one.candidate
    instance, rates = candidate.spec.offer.instance, candidate.rates
    priced = one.price is not None
    return {
        "cloud": instance.cloud,
        "region": one.region,
        "instance_type": instance.name,
        "gpu": instance.gpu_name,
        "gpu_count": instance.gpu_count,
        "tensor_parallel": candidate.placement.tensor_parallel,
        "replicas": candidate.placement.replicas,
        **{f"throughput_{k}": v for k, v in bounds(rates.output_tokens_per_second).items()},
        "ttft_seconds": rates.ttft_seconds.median,
        "tpot_seconds": rates.tpot_seconds.median,
        "relative": _relative(one, baseline),
        "total_usd_per_hour": candidate.spec.total_usd_per_hour if priced else None,
        "usd_per_million_output_tokens": (candidate.usd_per_million_output_tokens.median if priced else None),
        "ready_seconds": candidate.ready.seconds,
        "bottleneck": str(candidate.binds),
        "price_kind": one.price and one.price.kind,
        "price_as_of": one.price and one.price.as_of.isoformat(),
    }


def comparison_text(
    predictions: Sequence[ServingPrediction], baseline: ServingPrediction, request: GenerationRequest
) -> str:
    """A table for a terminal."""
    rows = comparison_rows(predictions, baseline)
    columns = {
        "instance": [row["instance_type"] for row in rows],
        "gpu": [gpus_text(one.candidate.spec.offer.instance) for one in predictions],
        "runs as": [short_placement_text(one.candidate.placement) for one in predictions],
        f"{lower_name(request.confidence)} tokens/s": [lower_text(row["throughput_lower"]) for row in rows],
        "median": [format_rate(row["throughput_median"]) for row in rows],
        "TTFT": [seconds_text(row["ttft_seconds"]) for row in rows],
        "TPOT": [seconds_text(row["tpot_seconds"]) for row in rows],
        "times": [f"{row['relative']:.2f}" for row in rows],
        "per hour": [usd_or_dash(row["total_usd_per_hour"]) for row in rows],
        "per 1M out": [usd_or_dash(row["usd_per_million_output_tokens"]) for row in rows],
    }
    first = baseline.candidate
    name = ENGINES.get(str(first.engine), str(first.engine))
    title = (
        f"{first.model} generation, {name} {first.engine_version} with CUDA graphs; output "
        f"tokens/s of all GPUs; bound by: {', '.join(dict.fromkeys(_binds(predictions)))}."
    )
    shown = fitting_table(columns, ("instance", "gpu", "runs as"), ("TTFT", "runs as", "gpu"))
    lines = [*textwrap.wrap(title, WIDTH), "", *shown]
    return "\n".join([*lines, "", *notes_lines(predictions)])


def _binds(predictions: Sequence[ServingPrediction]) -> list[str]:
    return [BINDS[one.candidate.binds] for one in predictions]


def serving_memory_document(answer: ServingMemoryAnswer) -> dict[str, Any]:
    """What a served model takes of each GPU, in GiB."""
    return {
        "schema": MEMORY_SCHEMA,
        "request": {
            "task": "generation",
            "model": answer.model,
            "precision": str(answer.precision),
            "kv_precision": str(answer.kv_precision),
            "engine": str(answer.engine),
            "context_tokens": answer.context_tokens,
        },
        "weights_gib": answer.weights_gib,
        "kv_bytes_per_token": answer.kv_bytes_per_token,
        "gpus": [
            {
                "gpu": one.gpu,
                "gpu_memory_gib": one.gpu_memory_gib,
                "precision": one.precision,
                "tensor_parallel": one.tensor_parallel,
                "fits": one.use is not None,
                "why_not": one.why_not or None,
                "memory_per_gpu": memory_block(one.use) if one.use else None,
            }
            for one in answer.gpus
        ],
    }


def serving_memory_text(answer: ServingMemoryAnswer) -> str:
    """The same for a terminal."""
    title = (
        f"{answer.model} generation: weights {answer.precision} "
        f"{gib_text(answer.weights_gib)} GiB, KV cache {answer.kv_precision} "
        f"at most {answer.kv_bytes_per_token:,.0f} bytes a token (sequences of "
        f"{answer.context_tokens:,} tokens), {ENGINES.get(str(answer.engine), str(answer.engine))}"
    )
    header = ("GPU", "memory", "GPUs", "weights", "KV cache", "engine", "free", "sequences", "longest")
    rows = [_memory_cells(one, answer.precision) for one in answer.gpus if one.use is not None]
    lines = [*textwrap.wrap(title, WIDTH), ""]
    if rows:
        lines += table(header, rows, right=tuple(range(1, 9)))
        lines += ["GiB of each GPU; sequences and the longest context are of one copy of the model."]
    return "\n".join(lines + _not_fitting([(one.gpu, one.why_not) for one in answer.gpus if one.use is None]))


def _memory_cells(one: SplitMemory, usual: str) -> list[str]:
    """`usual` is the format of the heading."""
    use = one.use
    assert use is not None
    sizes = (use.weights_gib, use.kv_gib, use.overhead_gib, use.free_gib)
    return [
        one.gpu if one.precision == usual else f"{one.gpu} ({one.precision})",
        gib_text(one.gpu_memory_gib),
        str(one.tensor_parallel),
        *map(gib_text, sizes),
        f"{use.largest_concurrency:,}",
        f"{use.longest_context:,}",
    ]


def _not_fitting(gpus: Sequence[tuple[str, object]]) -> list[str]:
    lines = [
        line
        for name, why in gpus
        for line in textwrap.wrap(f"  {name}: {why}", WIDTH, subsequent_indent="    ")
    ]
    return ["", "Does not fit:", *lines] if lines else []


def tuning_memory_document(answer: TuningMemoryAnswer) -> dict[str, Any]:
    """What a tuned model takes of each GPU, in GiB."""
    return {
        "schema": MEMORY_SCHEMA,
        "request": {
            "task": "finetuning",
            "model": answer.model,
            "method": str(answer.method),
            "sequence": answer.sequence,
        },
        "gpus": [
            {
                "gpu": one.gpu,
                "gpu_memory_gib": one.gpu_memory_gib,
                "gpus": one.gpus,
                "micro_batch": one.micro_batch,
                "checkpointing": one.checkpointing,
                "fits": one.use is not None,
                "why_not": one.why_not or None,
                "memory_per_gpu": (
                    {name: getattr(one.use, name) for name in type(one.use).__struct_fields__}
                    if one.use
                    else None
                ),
            }
            for one in answer.gpus
        ],
    }


def tuning_memory_text(answer: TuningMemoryAnswer) -> str:
    """The same for a terminal."""
    title = f"{answer.model} finetuning ({answer.method}), sequences of {answer.sequence:,} tokens"
    header = ("GPU", "memory", "GPUs", "batch", "weights", "optimizer", "activations", "overhead", "free")
    rows = [_tuning_cells(one) for one in answer.gpus if one.use is not None]
    lines = [title, ""]
    if rows:
        lines += table(header, rows, right=tuple(range(1, 9)))
        lines += [
            "GiB of each GPU; batch: sequences that a GPU computes at once; optimizer: gradients",
            "and moments; *: activations are computed again (checkpointing).",
        ]
    return "\n".join(lines + _not_fitting([(one.gpu, one.why_not) for one in answer.gpus if one.use is None]))


def _tuning_cells(one: TunedMemory) -> list[str]:
    use = one.use
    assert use is not None
    again = "*" if one.checkpointing else ""
    return [
        one.gpu,
        gib_text(one.gpu_memory_gib),
        str(one.gpus),
        str(one.micro_batch),
        gib_text(use.weights_gib),
        gib_text(use.gradients_gib + use.optimizer_gib),
        gib_text(use.activations_gib) + again,
        gib_text(use.overhead_gib),
        gib_text(use.free_gib),
    ]
