"""The file of the fitted tuning rates, read late."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

import numpy as np

from advisor.errors import DataError
from advisor.models.language.finetuning.belief import Belief
from advisor.models.language.finetuning.predictor import GPU, MODEL, FineTuningPredictor

SCHEMA = "advisor.finetuning/1"
PATH = Path(__file__).parents[4] / "advisor" / "data" / "language" / "finetuning.json"


@cache
def bundled_finetuning_predictor() -> FineTuningPredictor:
    """The predictor that ships; `DataError` where its file is not readable."""
    return read_predictor(PATH)


def read_predictor(path: Path) -> FineTuningPredictor:
    """The predictor of a file; `DataError` where it is none."""
    try:
        content = path.read_bytes()
        raw = json.loads(content)
        if raw["schema"] != SCHEMA:
            raise ValueError(raw["schema"])
        mean = np.array(raw["mean"], dtype=float)
        covariance = np.zeros((len(mean), len(mean)))
        covariance[np.tril_indices(len(mean))] = raw["covariance"]
        covariance += np.tril(covariance, -1).T
        belief = Belief(tuple(raw["names"]), mean, covariance)
        digest = hashlib.sha256(content).hexdigest()
        standardised = {kind: tuple(raw["standardised"][kind]) for kind in (MODEL, GPU)}
        return FineTuningPredictor(belief, standardised, digest, raw["trained_on"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            "the tuning rates cannot be read: {path}",
            path=str(path),
            hint="install the package again (in a checkout: python -m advisor.infra.build.language_tuning)",
        ) from error
