"""Fits the scaling over GPUs on published runs; intervals come from holding out whole GPU models.

Rows of one GPU model, and even more of one machine, are far more alike than rows of different ones: each GPU
model has equal weight in the fit and in the pools of residuals."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from scipy.optimize import least_squares

from advisor.domain import Task
from advisor.infra.build.fitting.likeliest import Rows, held_out
from advisor.models.bayes import Floats
from advisor.models.performance.scaling import (
    BYTES_PER_GRADIENT,
    SCHEMA,
    ScalingModel,
    exchange_share,
    kind_of,
    pool_name,
)
from advisor.models.performance.step_times import chip

# Largest number of residuals that represent one GPU model.
_MOST_OF_A_GPU = 32
# Residuals (in logarithms) above this count linearly instead of squared: some published rows are wrong.
_USUAL_RESIDUAL = 0.01


class ScalingRow(Struct, frozen=True, kw_only=True):
    """One run on several GPUs of a host; `efficiency` is the step time on one GPU over its step time, at the
    same batch size per GPU."""

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
        """The group of rows with similar scaling."""
        return kind_of(self.task, self.gpu)

    @property
    def gradient_gb_per_second(self) -> float:
        """GB of fp32 gradients per second of a step on one GPU; 0 in inference."""
        if self.task is not Task.TRAINING:
            return 0.0
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
    """Fit constants on all rows, and intervals on rows of GPUs that were left out."""
    exponents, per_gb, residuals, largest, paces = {}, {}, {}, {}, {}
    for kind in sorted({row.kind for row in rows}):
        members = [row for row in rows if row.kind == kind]
        exponents[kind], per_gb[kind] = fit_constants(members)
        largest[kind] = max(row.gpus for row in members)
        paces[kind] = _usual_pace(members)
        left_out = held_out_residuals(members, lambda row: chip(row.gpu))
        residuals[kind] = _pooled(members, left_out)
        for pool in sorted({pool_name(kind, row.gpus) for row in members}):
            inside = [i for i, row in enumerate(members) if pool_name(kind, row.gpus) == pool]
            residuals[pool] = _pooled([members[i] for i in inside], left_out[inside])
    return ScalingModel(
        exponents=exponents,
        seconds_per_gb=per_gb,
        residuals=residuals,
        largest=largest,
        gradient_gb_per_second=paces,
    )


def fit_constants(rows: Sequence[ScalingRow]) -> tuple[float, float]:
    """The exponent and the seconds per GB sent that fit the rows best, with equal weight for each GPU.

    Neither is below 0, since GPUs cannot speed each other up."""
    chips = [chip(row.gpu) for row in rows]
    weights = np.sqrt([1 / chips.count(name) for name in chips])
    efficiency = np.log([row.efficiency for row in rows])

    def residuals(constants: Floats) -> Floats:
        return weights * (efficiency - _log_efficiency(rows, *constants))

    fit = least_squares(
        residuals, (0.03, 0.03), bounds=(0.0, np.inf), loss="soft_l1", f_scale=_USUAL_RESIDUAL, xtol=1e-12
    )
    exponent, per_gb = fit.x.tolist()
    return exponent, per_gb if any(row.gradient_gb_per_second for row in rows) else 0.0


def _log_efficiency(rows: Sequence[ScalingRow], exponent: float, per_gb: float) -> Floats:
    exchanged = [exchange_share(row.gpus, per_gb, row.gradient_gb_per_second) for row in rows]
    return np.asarray(-exponent * np.log([row.gpus for row in rows]) - np.log1p(exchanged))


def held_out_residuals(rows: Sequence[ScalingRow], key: Callable[[ScalingRow], str]) -> Floats:
    """log(observed / predicted efficiency); each row's fit excludes all rows with its key."""

    def residuals_without(out: Rows) -> Floats:
        others = [row for row, gone in zip(rows, out, strict=True) if not gone] or list(rows)
        tests = [row for row, gone in zip(rows, out, strict=True) if gone]
        efficiency = np.log([row.efficiency for row in tests])
        return np.asarray(efficiency - _log_efficiency(tests, *fit_constants(others)))

    return held_out([key(row) for row in rows], residuals_without)


def scaling_document(model: ScalingModel) -> dict[str, object]:
    """The content of `scaling.json`; residuals have four digits."""
    return {
        "schema": SCHEMA,
        "exponents": {kind: round(value, 4) for kind, value in model.exponents.items()},
        "seconds_per_gb": {kind: round(value, 4) for kind, value in model.seconds_per_gb.items()},
        "largest": dict(model.largest),
        "gradient_gb_per_second": {
            kind: round(value, 4) for kind, value in model.gradient_gb_per_second.items()
        },
        "residuals": {
            name: [round(float(value), 4) for value in values] for name, values in model.residuals.items()
        },
    }


def _usual_pace(rows: Sequence[ScalingRow]) -> float:
    """GB/s of gradients up to which scaling was measured: the median over GPUs of their highest value."""
    highest: dict[str, float] = {}
    for row in rows:
        name = chip(row.gpu)
        highest[name] = max(highest.get(name, 0.0), row.gradient_gb_per_second)
    return float(np.median(list(highest.values())))


def _pooled(rows: Sequence[ScalingRow], residuals: Floats) -> list[float]:
    """Sorted residuals, with each GPU thinned to equal weight."""
    chips = np.array([chip(row.gpu) for row in rows])
    parts = [thinned(np.sort(residuals[chips == name])) for name in sorted(set(chips))]
    return sorted(np.concatenate(parts).tolist())


def thinned(values: Floats, most: int = _MOST_OF_A_GPU) -> Floats:
    """At most `most` evenly spaced quantiles that represent all values."""
    if len(values) <= most:
        return values
    return np.asarray(np.quantile(values, (np.arange(most) + 0.5) / most))
