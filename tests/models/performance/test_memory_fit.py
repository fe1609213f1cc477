"""Fitting GPU memory: known constants are found again, and too little is refused."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.errors import DataError
from models.performance.memory.fit import contradicted, fit_peaks
from models.performance.memory.fit_limits import CONTEXT_MIB, Limits, fit_limits
from models.performance.memory.peak import PeakModel, peak_model_from, usable_mib
from models.performance.memory.probing import ProbeCorrection
from models.performance.memory.rows import StepRows, joined, rows_of

BATCHES = (8.0, 16.0, 32.0, 64.0, 128.0)


def networks_made(count: int, seed: int = 0) -> tuple[StepRows, list[str]]:
    random = np.random.default_rng(seed)
    parts, names = [], []
    for index in range(count):
        slope, fixed, added = random.uniform(20, 200), random.uniform(5, 200), random.uniform(1, 80)
        points = [(b, slope * b + fixed, slope * b + fixed + added) for b in BATCHES]
        parts.append(rows_of(points, BATCHES))
        names += [f"network{index}"] * len(BATCHES)
    return joined(parts), names


def measured_from(rows: StepRows) -> np.ndarray:
    return 1900 + 1.15 * (rows.sample + rows.fixed) + 3 * rows.small


def test_straight_lines_are_found_again_and_hold_for_other_networks():
    rows, names = networks_made(30)
    model = fit_peaks(rows, measured_from(rows), names).model
    assert model.context_mib == pytest.approx(1900, rel=0.02)
    others, _ = networks_made(10, seed=1)
    assert model.median_mib(others) == pytest.approx(measured_from(others), rel=0.01)


@pytest.mark.slow
def test_a_remainder_learns_a_bend_and_its_bounds_cover():
    rows, names = networks_made(80)
    bend = 1 + 0.2 * (rows.small > 40)
    fitted = fit_peaks(rows, measured_from(rows) * bend, names)
    others, _ = networks_made(40, seed=1)
    truth = measured_from(others) * (1 + 0.2 * (others.small > 40))
    errors = np.abs(fitted.model.median_mib(others) / truth - 1)
    assert np.median(errors) < 0.03
    low, high = fitted.model.bounds_mib(others, 0.9)
    assert np.mean(truth <= high) > 0.8
    assert (low <= high).all()
    assert fitted.held_out_log.shape == (len(rows),)


def test_few_rows_are_refused():
    rows, names = networks_made(1)
    with pytest.raises(DataError, match="too few to fit on"):
        fit_peaks(rows, measured_from(rows), names)


def test_a_peak_that_falls_with_the_batch_is_contradicted():
    wrong = contradicted(np.array([8.0, 16, 32]), np.array([100.0, 90, 300]), ["a", "a", "a"])
    assert wrong.tolist() == [True, False, False]


def test_one_traced_batch_is_a_line_through_the_origin():
    rows = rows_of([(4.0, 100.0, 110.0)], [4.0, 8.0])
    assert rows.sample.tolist() == [100.0, 200.0]
    assert rows.fixed.tolist() == [0.0, 0.0]


def test_limits_of_a_known_slope_give_it_back():
    """Whatever batch a network stopped at, the card lies between the two peaks."""
    random = np.random.default_rng(0)
    room = usable_mib(24_576) - CONTEXT_MIB
    true = random.normal(np.log(1.1), 0.04, 400)
    ran = room / np.exp(true) * random.uniform(0.68, 1, 400)
    document = fit_limits(Limits(ran, ran / 0.68), "made up")
    assert document["slopes"][0] == pytest.approx(1.1, rel=0.03)
    model = peak_model_from(document)
    assert list(model.errors) == sorted(model.errors)
    with pytest.raises(DataError, match="too few"):
        fit_limits(Limits(ran[:5], ran[:5] * 1.3), "made up")


def test_a_bound_is_the_conformal_rank_of_the_held_out_errors():
    errors = tuple(np.linspace(-0.09, 0.1, 20).tolist())
    model = PeakModel(context_mib=0.0, slopes=(0, 1, 1, 1, 0), errors=errors, trained_on="")
    rows = rows_of([(8.0, 800.0, 800.0), (16.0, 1600.0, 1600.0)], [8.0])
    low, high = model.bounds_mib(rows, 0.9)
    assert high[0] == pytest.approx(800 * np.exp(errors[18]))  # ceil(21 * 0.9) = the 19th
    assert low[0] == pytest.approx(800 * np.exp(errors[1]))
    assert model.probability_within(rows, 1e9)[0] < 1


def test_a_probe_is_believed_as_far_as_it_helped():
    """Where errors are a network's own the probe is believed, where they are noise it is not."""
    random = np.random.default_rng(0)
    names = np.repeat([f"n{i}" for i in range(60)], len(BATCHES))
    batches = np.tile(BATCHES, 60)
    own = np.repeat(random.normal(0, 0.1, 60), len(BATCHES))
    believed = ProbeCorrection.fit(batches, own, names.tolist(), 8.0)
    assert believed.share(np.array([1.0]))[0] == pytest.approx(1.0)
    noise = random.normal(0, 0.1, len(names))
    assert ProbeCorrection.fit(batches, noise, names.tolist(), 8.0).share(np.array([1.0]))[0] < 0.3
    assert ProbeCorrection.fit(batches[:5], own[:5], names[:5].tolist(), 8.0).near == 1.0
