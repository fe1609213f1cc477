"""Rates of training and fine-tuning, each row predicted by a fit without its model's size, GPU or
source, made as the shipped one is made; intervals keep the quantiles that ship."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from advisor.infra.build.fitting.tuning import Measured, gpu_group, left_out, measured_rows, model_group
from advisor.infra.build.language_sources.training_rows import TrainingRow
from advisor.models.language.deployments import bundled_gpu_facts
from advisor.models.language.finetuning.predictor import GPU, MODEL, bundled_finetuning_predictor
from advisor.models.language.finetuning.tuning import Run
from benchmarks.truth.language.scores import Bounds, Scored, figures, grouped

SCHEMA = "advisor.truth.tuning/1"
_LEFT_OUT: Mapping[str, Callable[[Run], str]] = {
    "model size": model_group,
    "gpu": gpu_group,
    "source": lambda run: run.source,
}


def tuning_truth(rows: Sequence[TrainingRow], confidence: float = 0.9) -> dict[str, Any]:
    """The scorer's document of rows of training; those of unknown GPUs are counted."""
    gpus = bundled_gpu_facts()
    known = measured_rows([row for row in rows if row.gpu in gpus], gpus)
    tables = []
    for name, group_of in _LEFT_OUT.items():
        found = _scored(known, group_of, confidence)
        tables.append({"left_out": name, "by": "all", "group": "all", **figures(found)})
        for by in ("gpu", "model", "method", "kind", "hosts"):
            tables += [
                {"left_out": name, "by": by, "group": group, **figures(same)}
                for group, same in grouped(found, lambda row, by=by: row.groups[by]).items()
            ]
    return {
        "schema": SCHEMA,
        "confidence": confidence,
        "rows": len(rows),
        "answered": len(known),
        "tables": tables,
    }


def _scored(rows: Sequence[Measured], group_of: Callable[[Run], str], confidence: float) -> list[Scored]:
    found = left_out(rows, group_of)
    kind = GPU if group_of is gpu_group else MODEL
    widths = bundled_finetuning_predictor().widths(kind, confidence)
    rates = np.exp(-found.predicted)
    lower = rates * np.exp(-widths.lower * found.deviation)
    upper = rates * np.exp(widths.upper * found.deviation)
    return [
        Scored(
            {
                "gpu": row.run.tuning.gpu.name,
                "model": row.run.tuning.model.name,
                "method": str(row.run.tuning.method),
                "kind": "experts" if row.run.tuning.model.experts else "dense",
                "hosts": "one host" if row.run.tuning.gpus <= row.run.switched else "several",
            },
            "output_rate",
            row.tokens_per_second_per_gpu,
            Bounds(*map(float, bounds)),
            is_rate=True,
        )
        for row, *bounds in zip(rows, lower, rates, upper, strict=True)
    ]
