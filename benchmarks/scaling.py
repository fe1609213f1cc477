"""How well published runs tell the scaling over GPUs: `python benchmarks/scaling.py --json`.

Forms of what each of n GPUs keeps of its rate, fitted without a network, without a GPU or without
a source at a time, and scored on what was left out. Each GPU weighs alike in a fit; the mean is
over what was left out, each group alike, in per cent of the efficiency (absolute error of its
logarithm). `covered` is how often the form that ships keeps its 90 % lower bound on GPUs that its
residuals do not know. One JSON document on stdout.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.infra.build.fitting.scaling import ScalingRow, fit_scaling, held_out_residuals, read_scaling
from advisor.models.performance.scaling import ScalingModel
from advisor.models.performance.step_times import chip
from benchmarks.bundled_model import PUBLISHED_FOLDER

Floats = NDArray[np.float64]
_GROUPS: dict[str, Callable[[ScalingRow], str]] = {
    "network": lambda row: row.network,
    "gpu": lambda row: chip(row.gpu),
    "source": lambda row: row.source,
}


def sync_share(row: ScalingRow) -> float:
    """GB/s that a ring all-reduce of fp32 gradients takes if it lasts as long as the step."""
    return 2 * (row.gpus - 1) / row.gpus * row.gradient_gb_per_second


# What -log(efficiency) is proportional to; several columns add.
_FORMS: dict[str, Callable[[ScalingRow], Sequence[float]]] = {
    "a constant": lambda _: (1.0,),
    "each doubling (ships)": lambda row: (math.log2(row.gpus),),
    "a constant and each doubling": lambda row: (1.0, math.log2(row.gpus)),
    "gradients over step time": lambda row: (sync_share(row),),
    "each doubling and gradients": lambda row: (math.log2(row.gpus), sync_share(row)),
}


def form_errors(
    rows: Sequence[ScalingRow], form: Callable[[ScalingRow], Sequence[float]]
) -> dict[str, float]:
    """Mean absolute error in per cent by what was left out."""
    features = np.array([form(row) for row in rows])
    losses = -np.log([row.efficiency for row in rows])
    found = {}
    for name, key in _GROUPS.items():
        groups = np.array([key(row) for row in rows])
        if len(set(groups)) > 1:
            found[name] = 100 * float(np.mean(_held_out(rows, features, losses, groups)))
    return found


def coverage(rows: Sequence[ScalingRow]) -> float:
    """Share of rows above their 90 % lower bound, each GPU's bound from the other GPUs' rows."""
    kept = []
    for name in sorted({chip(row.gpu) for row in rows}):
        own = [row for row in rows if chip(row.gpu) == name]
        others = [row for row in rows if chip(row.gpu) != name]
        if len({chip(row.gpu) for row in others}) < 2:
            continue
        model = fit_scaling(others)
        kept.append(np.mean([_covers(model, row) for row in own]))
    return float(np.mean(kept))


def _covers(model: ScalingModel, row: ScalingRow) -> bool:
    lower = model.widths(row.kind, row.gpus, 0.9).lower
    return math.log(row.efficiency) >= -model.exponents[row.kind] * math.log(row.gpus) - lower


def _held_out(
    rows: Sequence[ScalingRow], features: Floats, losses: Floats, groups: NDArray[np.str_]
) -> list[float]:
    chips = [chip(row.gpu) for row in rows]
    weights = 1 / np.array([chips.count(name) for name in chips], dtype=float)
    means = []
    for name in sorted(set(groups)):
        out = groups == name
        factors = _least_absolute(features[~out], losses[~out], weights[~out])
        means.append(float(np.abs(losses[out] - features[out] @ factors).mean()))
    return means


def _least_absolute(features: Floats, losses: Floats, weights: Floats) -> Floats:
    """Factors, none below 0, of the least weighted absolute error: a linear programme."""
    from scipy.optimize import linprog

    count, width = features.shape
    identity = np.eye(count)
    found = linprog(
        np.concatenate([np.zeros(width), weights, weights]),
        A_eq=np.hstack([features, identity, -identity]),
        b_eq=losses,
        bounds=[(0, None)] * (width + 2 * count),
        method="highs",
    )
    return np.asarray(found.x[:width])


def figures() -> dict[str, object]:
    """All forms on all kinds of rows."""
    rows = read_scaling(PUBLISHED_FOLDER / "scaling.csv")
    answer: dict[str, object] = {"benchmark": "scaling"}
    for kind in sorted({row.kind for row in rows}):
        members = [row for row in rows if row.kind == kind]
        residuals = held_out_residuals(members, _GROUPS["gpu"])
        answer[kind] = {
            "rows": len(members),
            "gpus": sorted({chip(row.gpu) for row in members}),
            "median_error_percent_gpu_left_out": 100 * float(np.median(np.abs(residuals))),
            "covered": coverage(members),
            "mean_error_percent": {name: form_errors(members, form) for name, form in _FORMS.items()},
        }
    return answer


def main() -> None:
    """Print the document; `--json` is the only form."""
    sys.stdout.write(json.dumps(figures(), indent=2) + "\n")


if __name__ == "__main__":
    main()
