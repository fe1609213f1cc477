"""Calibrates anchored ratios: `python -m advisor.operations.anchor_fit [--write]`, in a checkout.

Prints, as JSON, how far anchored rates are off where network and GPU were left out, beside rates
of the same rows without an anchor, and how often intervals cover: the pool of one target GPU's
rows is made of all other GPUs' residuals. `--write` puts the residuals into the bundled model and
leaves everything else of it as it is but the parameters of ratios. Five to ten minutes, a fit for
each family and GPU.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from advisor.operations.fitting import PUBLISHED_FOLDER
from models.performance import load_model, save_model
from models.performance.anchoring.calibration import SCALED, held_out_ratios
from models.performance.anchoring.widths import GPU
from models.performance.bundled import seal
from models.performance.calibration import gpu_bound, pooled
from models.performance.evaluation import summary
from models.performance.fit import with_id
from models.performance.fit_gpu_rates import ratio_parameters
from models.performance.intervals import half_widths
from models.performance.model import PerformanceModel
from models.performance.networks import Floats, bundled_networks
from models.performance.persistence import BUNDLED_PATH
from models.performance.published import read_published

Groups = Mapping[str, Mapping[str, Floats]]
_CONFIDENCE = 0.9


def report(residuals: Groups) -> dict[str, Any]:
    """By group: errors in per cent, half widths in log, and coverage of both one-sided bounds.

    What was scaled to one anchor's width is covered by one anchor's pool.
    """
    return {
        group: {
            **{name: round(value, 2) for name, value in summary(by_key).items()},
            "half_widths": [round(width, 3) for width in _widths(by_key)],
            "coverage_percent": _coverage(by_key, residuals[GPU] if group == SCALED else by_key),
        }
        for group, by_key in residuals.items()
    }


def with_residuals(
    model: PerformanceModel, residuals: Groups, ratios: Mapping[str, float]
) -> PerformanceModel:
    """The model with these groups of residuals and `ratio_parameters` in place of its own, under
    its new id."""
    fresh = {
        group: tuple(np.round(values, 3).tolist()) for group, values in pooled(residuals).items()
    }
    errors = {group: summary(by_key)["mean_percent"] for group, by_key in residuals.items()}
    rates = replace(
        model.gpu_rates,
        ratio_parameters=ratios,
        residuals={**model.gpu_rates.residuals, **fresh},
    )
    return with_id(
        replace(
            model,
            gpu_rates=rates,
            accelerator_errors={**model.accelerator_errors, **errors},
        )
    )


def _widths(by_key: Mapping[str, Floats]) -> tuple[float, float]:
    pool = {"": pooled({"": by_key})[""].tolist()}
    found = half_widths(pool, ("",), _CONFIDENCE)
    return found.lower, found.upper


def _coverage(by_key: Mapping[str, Floats], pool: Mapping[str, Floats]) -> dict[str, float]:
    """Of a target GPU's rows with the pool of the others, each GPU and family weighing alike."""
    by_gpu: dict[str, dict[str, Floats]] = defaultdict(dict)
    for key, values in by_key.items():
        by_gpu[key.split("/")[0]][key] = values
    above, below = [], []
    for gpu, own in by_gpu.items():
        rest = {key: values for key, values in pool.items() if not key.startswith(f"{gpu}/")}
        lower, upper = _widths(rest)
        above += [float((values >= -lower).mean()) for values in own.values()]
        below += [float((values <= upper).mean()) for values in own.values()]
    return {
        "lower": round(100 * float(np.mean(above)), 1),
        "upper": round(100 * float(np.mean(below)), 1),
    }


def main(arguments: Sequence[str]) -> None:
    """Print the report; with --write, keep the residuals in the bundled model."""
    rows = read_published(PUBLISHED_FOLDER / "published.csv", PUBLISHED_FOLDER / "gpus.csv")
    networks = bundled_networks()
    residuals, beside = held_out_ratios(rows, gpu_bound(rows, networks, alike=True), networks)
    sys.stdout.write(json.dumps(report({**residuals, **beside}), indent=1))
    sys.stdout.write("\n")
    if "--write" in arguments:
        ratios = ratio_parameters(rows, networks)
        save_model(with_residuals(load_model(), residuals, ratios), BUNDLED_PATH)
        seal()


if __name__ == "__main__":
    main(sys.argv[1:])
