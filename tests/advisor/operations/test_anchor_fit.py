"""Calibrating anchors changes their residuals in a model, and nothing else of it."""

import numpy as np

from advisor.operations.anchor_fit import report, with_residuals
from models.performance import load_model
from models.performance.anchoring.calibration import SCALED
from models.performance.anchoring.widths import ANCHORED, GPU
from models.performance.persistence import to_document

SPREAD = {f"gpu{i}/resnet": np.linspace(-0.3, 0.3, 40) for i in range(4)}


def test_only_the_anchored_groups_and_the_ratios_change():
    before = to_document(load_model())
    ratios = {"gpu/T4": 0.1}
    after = to_document(with_residuals(load_model(), dict.fromkeys(ANCHORED, SPREAD), ratios))
    rates, fresh = before["gpu_rates"], after["gpu_rates"]
    assert after["id"] != before["id"]
    assert fresh["parameters"] == rates["parameters"]
    assert fresh["ratio_parameters"] == ratios
    assert fresh["residuals"][GPU] != rates["residuals"][GPU]
    assert all(
        fresh["residuals"][group] == values
        for group, values in rates["residuals"].items()
        if group not in ANCHORED
    )


def test_the_bundled_model_has_every_group():
    assert set(ANCHORED) <= set(load_model().gpu_rates.residuals)


def test_coverage_is_of_gpus_that_are_not_in_the_pool():
    told = report({GPU: SPREAD, SCALED: SPREAD})
    assert told[GPU]["coverage_percent"] == told[SCALED]["coverage_percent"]
    assert 85 <= told[GPU]["coverage_percent"]["lower"] <= 95
    assert told[GPU]["rows"] == 160
