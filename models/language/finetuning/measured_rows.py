"""Measured rows of training, as the fit takes them. A row is any record that has the columns of
`infra/build/language_sources/training_rows.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.domain.generation import LlmMethod
from advisor.models.language.finetuning.fit import Measured
from advisor.models.language.finetuning.tuning import Checkpointing, FineTuning, Run, Sharding
from advisor.models.language.gpus import GpuFacts
from advisor.models.language.language_model import LanguageModel


def run_of(row: Any, gpus: Mapping[str, GpuFacts]) -> Run:
    """The run of a row, on the GPU of its name; `KeyError` for an unknown GPU."""
    tuning = FineTuning(
        model=model_of(row),
        method=LlmMethod(row.method),
        sequence=row.sequence,
        micro_batch=row.micro_batch,
        gpu=_gpu(row, gpus[row.gpu]),
        gpus=row.gpus,
        link=row.link if row.gpus > 1 else "none",
        checkpointing=Checkpointing(row.checkpointing),
        sharding=Sharding(row.sharding),
    )
    return Run(
        tuning,
        framework=row.framework,
        source=row.source,
        released=row.released,
        fp8=row.precision == "fp8",
        eager=bool(row.eager),
        tensor_parallel=row.tensor_parallel,
        pipeline_parallel=row.pipeline_parallel,
        context_parallel=row.context_parallel,
        expert_parallel=row.expert_parallel,
        accumulation=row.accumulation,
        switched=row.switched,
    )


def model_of(row: Any) -> LanguageModel:
    """The model of a row's sizes."""
    return LanguageModel(
        name=row.model,
        family="",
        layers=row.layers,
        hidden=row.hidden,
        heads=row.heads,
        kv_heads=row.kv_heads,
        head_dim=row.head_dim,
        ffn=row.ffn,
        gated=bool(row.gated),
        vocab=row.vocab,
        tied=bool(row.tied),
        experts=row.experts,
        experts_per_token=row.experts_per_token,
        expert_ffn=row.expert_ffn,
    )


def measured_rows(rows: Sequence[Any], gpus: Mapping[str, GpuFacts]) -> list[Measured]:
    """Those rows that tell a rate."""
    return [
        Measured(run_of(row, gpus), row.tokens_per_second_per_gpu)
        for row in rows
        if not math.isnan(row.tokens_per_second_per_gpu)
    ]


def _gpu(row: Any, gpu: GpuFacts) -> GpuFacts:
    """The card as measured: a variant has another name, lest its effect be the usual card's."""
    if math.isnan(row.gpu_watts):
        return gpu
    return gpu._replace(
        name=f"{gpu.name} {row.gpu_watts:g}W", watts=row.gpu_watts, bandwidth_gb_s=row.gpu_gb_per_second
    )
