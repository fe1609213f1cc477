"""How alike settings are, chosen by predicting groups of networks that were left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from models.performance.layerwise.form import Peaks
from models.performance.layerwise.model import (
    BETWEEN_SETTINGS,
    ENOUGH_OF_ITS_OWN,
    LayerwiseModel,
    MeasuredStep,
    Setting,
)
from models.performance.layerwise.operations import OperationTable

# Log deviations of a parameter between settings: nearly the same GPUs, or strangers.
DEVIATIONS = (0.3, 0.5, 1.0)
_FOLDS = 3


def choose_deviation(
    measured: Sequence[MeasuredStep],
    groups: Sequence[str],
    table: OperationTable,
    peaks: Mapping[Setting, Peaks],
) -> float:
    """The one of `DEVIATIONS` with the smallest mean absolute log error on groups left out.

    `groups` names each step's group (a family of networks). Only settings with few steps lean on
    others, so only they are asked; without two groups among them the answer is the usual one.
    """
    counted = Counter(step.setting for step in measured)
    few = [
        (step, group)
        for step, group in zip(measured, groups, strict=True)
        if counted[step.setting] < ENOUGH_OF_ITS_OWN
    ]
    folds = _folds([group for _, group in few])
    if len(folds) < 2:
        return BETWEEN_SETTINGS
    errors = dict.fromkeys(DEVIATIONS, 0.0)
    for left_out in folds:
        kept = [step for step, group in few if group not in left_out]
        asked = [step for step, group in few if group in left_out]
        for deviation in DEVIATIONS:
            model = LayerwiseModel.fit(kept, table, peaks, deviation)
            errors[deviation] += _error(model, asked, table)
    return min(DEVIATIONS, key=lambda deviation: errors[deviation])


def _folds(groups: Sequence[str]) -> list[set[str]]:
    """Groups in a few folds of about as many steps each."""
    folds: list[Counter[str]] = [Counter() for _ in range(_FOLDS)]
    for group, steps in sorted(Counter(groups).items(), key=lambda item: (-item[1], item[0])):
        min(folds, key=lambda fold: fold.total())[group] = steps
    return [set(fold) for fold in folds if fold]


def _error(model: LayerwiseModel, asked: Sequence[MeasuredStep], table: OperationTable) -> float:
    """Sum of absolute log errors over steps of settings that the model knows."""
    total = 0.0
    for setting in model.settings:
        steps = [step for step in asked if step.setting == setting]
        if steps:
            operations = [table.step(step.network, compiled=setting.compiled) for step in steps]
            found = model.seconds(setting, operations, [step.batch_size for step in steps])
            total += float(np.abs(np.log(found / [step.seconds for step in steps])).sum())
    return total
