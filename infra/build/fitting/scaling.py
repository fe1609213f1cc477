"""Fits the scaling over GPUs on published runs, and holds out whole GPUs for its intervals.

Rows of one GPU, of one machine above all, are far more alike than rows of two: each GPU weighs
alike in the fit and in the pools of residuals.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from advisor.domain import Task
from advisor.models.bayes import Floats, Rows, held_out
from advisor.models.performance.scaling import BYTES_PER_GRADIENT, SCHEMA, ScalingModel, kind_of, pool_name
from advisor.models.performance.step_times import chip

# Residuals of one GPU that stand for all of its own.
_MOST_OF_A_GPU = 32


class ScalingRow(Struct, frozen=True, kw_only=True):
    """One run on several GPUs of a host; `efficiency` is the step on one GPU over its step, at
    the same batch size a GPU."""

    source: str
    system: str
    gpu: str
    network: str
    task: Task
    batch_size: int
    gpus: int
    parameters: int
    one_gpu_step_seconds: float
    efficiency: float

    @property
    def kind(self) -> str:
        """Which rows scale alike."""
        return kind_of(self.task, self.gpu)

    @property
    def gradient_gb_per_second(self) -> float:
        """fp32 gradients over the step on one GPU."""
        return BYTES_PER_GRADIENT * self.parameters / self.one_gpu_step_seconds / 1e9


def read_scaling(path: Path) -> list[ScalingRow]:
    """The rows of scaling.csv."""
    with path.open(newline="") as file:
        return [
            ScalingRow(
                source=row["source"],
                system=row["system"],
                gpu=row["gpu"],
                network=row["network"],
                task=Task(row["task"]),
                batch_size=int(row["batch_size"]),
                gpus=int(row["gpus"]),
                parameters=int(row["parameters"]),
                one_gpu_step_seconds=float(row["one_gpu_step_seconds"]),
                efficiency=float(row["efficiency"]),
            )
            for row in csv.DictReader(file)
        ]


def fit_scaling(rows: Sequence[ScalingRow]) -> ScalingModel:
    """Exponents from all rows, intervals from rows of GPUs that were left out."""
    exponents, residuals, largest, paces = {}, {}, {}, {}
    for kind in sorted({row.kind for row in rows}):
        members = [row for row in rows if row.kind == kind]
        exponents[kind] = fit_exponent(members)
        largest[kind] = max(row.gpus for row in members)
        paces[kind] = _usual_pace(members)
        left_out = held_out_residuals(members, lambda row: chip(row.gpu))
        residuals[kind] = _pooled(members, left_out)
        for pool in sorted({pool_name(kind, row.gpus) for row in members}):
            inside = [i for i, row in enumerate(members) if pool_name(kind, row.gpus) == pool]
            residuals[pool] = _pooled([members[i] for i in inside], left_out[inside])
    return ScalingModel(
        exponents=exponents, residuals=residuals, largest=largest, gradient_gb_per_second=paces
    )


def fit_exponent(rows: Sequence[ScalingRow]) -> float:
    """The exponent with the least absolute error of the logarithm, each GPU weighing alike.

    That is the weighted median of each row's own exponent, weighted by how far it bears; never
    below 0, since GPUs do not help each other. Sources have wrong rows: a mean would follow them.
    """
    logs = np.log([float(row.gpus) for row in rows])
    own = -np.log([row.efficiency for row in rows]) / logs
    chips = [chip(row.gpu) for row in rows]
    weights = logs / np.array([chips.count(name) for name in chips])
    order = np.argsort(own)
    half = np.cumsum(weights[order]) >= weights.sum() / 2
    return max(0.0, float(own[order][half.argmax()]))


def held_out_residuals(rows: Sequence[ScalingRow], key: Callable[[ScalingRow], str]) -> Floats:
    """log(observed efficiency / predicted), each row predicted without all rows of its key."""
    efficiency, gpus = np.array([(row.efficiency, row.gpus) for row in rows], dtype=float).T

    def residuals_without(out: Rows) -> Floats:
        others = [row for row, gone in zip(rows, out, strict=True) if not gone] or list(rows)
        return np.asarray(np.log(efficiency[out]) + fit_exponent(others) * np.log(gpus[out]))

    return held_out([key(row) for row in rows], residuals_without)


def scaling_document(model: ScalingModel) -> dict[str, object]:
    """What `scaling.json` holds; residuals to four digits."""
    return {
        "schema": SCHEMA,
        "exponents": {kind: round(value, 4) for kind, value in model.exponents.items()},
        "largest": dict(model.largest),
        "gradient_gb_per_second": {
            kind: round(value, 4) for kind, value in model.gradient_gb_per_second.items()
        },
        "residuals": {
            name: [round(float(value), 4) for value in values] for name, values in model.residuals.items()
        },
    }


def _usual_pace(rows: Sequence[ScalingRow]) -> float:
    """GB/s of gradients up to which scaling was measured: of the median GPU, its highest."""
    highest: dict[str, float] = {}
    for row in rows:
        name = chip(row.gpu)
        highest[name] = max(highest.get(name, 0.0), row.gradient_gb_per_second)
    return float(np.median(list(highest.values())))


def _pooled(rows: Sequence[ScalingRow], residuals: Floats) -> list[float]:
    """Sorted residuals, each GPU thinned to the same weight."""
    chips = np.array([chip(row.gpu) for row in rows])
    parts = [thinned(np.sort(residuals[chips == name])) for name in sorted(set(chips))]
    return sorted(np.concatenate(parts).tolist())


def thinned(values: Floats, most: int = _MOST_OF_A_GPU) -> Floats:
    """At most that many evenly spaced quantiles that stand for all values."""
    if len(values) <= most:
        return values
    return np.asarray(np.quantile(values, (np.arange(most) + 0.5) / most))
