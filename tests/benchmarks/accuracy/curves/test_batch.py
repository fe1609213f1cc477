"""Steps over the batch size are completed from trials, and nothing else is looked at."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.accuracy.curves.batch import (
    BatchCell,
    affine_seconds,
    fit_batch_curves,
    placements,
)

BATCHES = np.array([16.0, 32.0, 64.0, 128.0, 256.0])


def cell(network, fixed, per_sample, *, power=1.0, pixels=224.0):
    return BatchCell(
        network=network, pixels=pixels, batches=BATCHES, seconds=fixed + per_sample * BATCHES**power
    )


def launch_bound(network, per_sample):
    """Never faster than launching its kernels allows: flat first, then rising."""
    seconds = np.hypot(0.02, per_sample * BATCHES)
    return BatchCell(network=network, pixels=224.0, batches=BATCHES, seconds=seconds)


@given(st.floats(1e-4, 1.0), st.floats(1e-6, 1e-2), st.sampled_from([2, 3]))
def test_an_affine_step_is_completed_exactly_wherever_the_trials_stand(fixed, slope, trials):
    affine = cell("net", fixed, slope)
    for places in placements(len(BATCHES), trials).values():
        assert affine_seconds(affine, places) == pytest.approx(affine.seconds)


def test_a_larger_batch_is_never_faster_beyond_the_trials():
    strange = BatchCell(
        network="net", pixels=32.0, batches=BATCHES, seconds=np.array([2.0, 1.9, 1.8, 1.7, 1.6])
    )
    completed = affine_seconds(strange, np.array([0, 3]))
    assert completed[-1] >= completed[-2]


def test_what_other_networks_show_bends_the_line():
    others = [launch_bound(f"n{i}", 10 ** (-5 + i / 5)) for i in range(12)]
    new = launch_bound("new", 3e-4)
    curves = fit_batch_curves(others, 2)
    places = curves.places(new)
    learned = np.abs(curves.predict(new, places) / new.seconds - 1)
    plain = np.abs(affine_seconds(new, places) / new.seconds - 1)
    assert learned.mean() < plain.mean()


def test_only_the_trials_are_looked_at():
    curves = fit_batch_curves([launch_bound(f"n{i}", 10 ** (-5 + i / 5)) for i in range(12)], 2)
    new = launch_bound("new", 3e-4)
    places = curves.places(new)
    hidden = np.full(len(BATCHES), np.nan)
    hidden[places] = new.seconds[places]
    seen = BatchCell(network="new", pixels=224.0, batches=BATCHES, seconds=hidden)
    assert curves.predict(seen, places) == pytest.approx(curves.predict(new, places))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_networks_leave_the_line_straight(count):
    curves = fit_batch_curves([cell(f"n{i}", 0.1, 0.01) for i in range(count)], 2)
    new = cell("new", 0.05, 0.02)
    assert curves.predict(new, curves.places(new)) == pytest.approx(new.seconds)


def test_a_cell_with_nothing_left_to_predict_gets_no_trials():
    short = BatchCell(network="n", pixels=32.0, batches=BATCHES[:2], seconds=np.array([1.0, 2.0]))
    assert fit_batch_curves([], 2).places(short) is None
