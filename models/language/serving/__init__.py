"""The rate at which a language model is served: a physical form with fitted effects, and bounds."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np

from advisor.errors import DataError
from advisor.models.language.serving.predictor import ServingPredictor
from advisor.models.language.serving.rates import BINDS, ServingRates

FOLDER = Path(__file__).parents[4] / "advisor" / "data" / "language"
FACTS, CORRELATIONS = "serving.json", "serving.npy"
# Correlations are kept as 16-bit integers of this many to one.
ONE = 32767


@cache
def bundled_serving_predictor() -> ServingPredictor:
    """The predictor that ships; `DataError` when its files are missing or damaged."""
    return read_predictor(FOLDER)


def read_predictor(folder: Path) -> ServingPredictor:
    """A predictor from its two files; raises as `bundled_serving_predictor` does."""
    try:
        raw = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        names = tuple(raw["parameters"])
        mean, sigma = np.array(list(raw["parameters"].values()), dtype=float).T
        correlation = np.zeros((len(names), len(names)))
        correlation[np.tril_indices(len(names), -1)] = np.load(folder / CORRELATIONS) / ONE
        correlation += correlation.T + np.eye(len(names))
        return ServingPredictor(
            names=names,
            mean=mean,
            covariance=correlation * sigma[:, None] * sigma,
            widths=raw["widths"],
            versions=raw["versions"],
            models=frozenset(raw["models"]),
            gpus=frozenset(raw["gpus"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            "{path} cannot be read ({error})",
            path=folder / FACTS,
            error=error,
            hint="install the package again"
            " (in a checkout: python -m advisor.infra.build.language_sources.fit)",
        ) from error


__all__ = ["BINDS", "ServingPredictor", "ServingRates", "bundled_serving_predictor"]
