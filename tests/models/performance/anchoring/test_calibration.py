"""Held-out ratios: what is left out of each fit, and what comes back."""

from dataclasses import replace

import numpy as np
import pytest

from models.performance.anchoring.calibration import (
    ALONE,
    SCALED,
    SEVERAL,
    held_out_ratios,
)
from models.performance.anchoring.widths import GPU, NETWORK, UNKNOWN
from models.performance.gpu_rates import family
from models.performance.published import PublishedRow
from models.performance.step_work import REFERENCE_STACK

from .anchors import MODEL, modelled_seconds, trial

CARDS = {"T4": 1.0, "L4": 1.5, "A10G": 1.0}


# Ratios of two GPUs are calibrated with the roofline alone, which knows own networks too.
ROOFLINE = replace(MODEL.gpu_rates, known_networks=MODEL.gpu_rates.known_networks.only(()))


def rows():
    """Two families on three cards as the roofline has them; the L4 takes 1.5 times as long."""
    found = []
    for network in ("resnet50", "vgg16"):
        for gpu, factor in CARDS.items():
            seconds = float(factor * modelled_seconds(network, gpu, [16], ROOFLINE)[0])
            t = trial(gpu)
            found.append(
                PublishedRow(REFERENCE_STACK, t.gpu, network, t.task, t.precision, 16, seconds)
            )
    return found


@pytest.fixture(scope="module")
def calibrated():
    fits = []

    def fit(some, _):
        fits.append({(family(row.network), row.gpu.name) for row in some})
        return MODEL.gpu_rates.parameters

    return *held_out_ratios(rows(), rows(), MODEL.table, fit), fits


def test_the_family_and_the_target_are_in_no_fit_that_scores_them(calibrated):
    _, _, fits = calibrated
    assert len(fits) == 2 + 6
    for known in fits:
        assert len({name for name, _ in known}) == 1
    assert sum(len(known) == 2 for known in fits) == 6


def test_a_ratio_is_off_by_what_the_two_cards_differ_from_the_model(calibrated):
    found, _, _ = calibrated
    off = np.log(1.5)
    assert np.sort(found[NETWORK]["L4/vgg"]) == pytest.approx([-off, -off])
    assert np.sort(found[GPU]["T4/resnet"]) == pytest.approx([0, off])
    assert all(np.isfinite(values).all() for values in found[UNKNOWN].values())


def test_several_anchors_count_together(calibrated):
    _, beside, _ = calibrated
    assert beside[SEVERAL]["T4/resnet"] == pytest.approx([np.log(1.5) / 2])
    assert abs(beside[SCALED]["T4/resnet"][0]) > abs(beside[SEVERAL]["T4/resnet"][0])
    assert len(beside[ALONE]["L4/vgg"]) == 2
