"""Seconds until an engine serves."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.language_sources.training_rows import TRAINING_PATH
from models.language.ready import Loader, load_seconds, ready_seconds

rates = st.floats(50, 20000)
sizes = st.floats(0.5, 1500)


def measured(what):
    """Rows of the published loads: streams that are enough, or mapped files."""
    with TRAINING_PATH.with_name("model_loads.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            few = row["readers"] in ("1", "4")  # a question has enough streams
            if row["what"] != what or row["loader"] == "tensorizer" or few:
                continue
            loader = Loader.MAPPED if row["loader"] == "mmap" else Loader.STREAMED
            yield float(row["disk_mib_per_second"]), loader, float(row["seconds"])


@pytest.mark.parametrize("what", ["load", "ready"])
def test_published_loads_and_starts_lie_within_15_percent_and_within_the_bounds(what):
    cells = list(measured(what))
    assert cells
    for disk, loader, seconds in cells:
        told = ready_seconds(15e9 / 2**30, disk, loader=loader)
        bounds = told.load if what == "load" else told.total
        assert bounds.median[0] == pytest.approx(seconds, rel=0.15)
        assert bounds.lower[0] <= seconds <= bounds.upper[0]


@given(sizes, rates, st.sampled_from(tuple(Loader)), st.integers(1, 8), st.booleans())
def test_bounds_enclose_the_median_and_more_weights_take_longer(gib, disk, loader, gpus, local):
    one = ready_seconds(gib, disk, gpus, loader, local)
    for bounds in (one.load, one.start, one.total):
        assert bounds.lower[0] <= bounds.median[0] <= bounds.upper[0]
    assert (load_seconds(2 * gib, disk, gpus, loader, local).median > one.load.median).all()


@given(sizes, rates, st.integers(1, 8))
def test_a_faster_disk_and_more_streams_never_take_longer(gib, disk, gpus):
    slow, fast = load_seconds(gib, disk, gpus), load_seconds(gib, 2 * disk, gpus)
    assert fast.median[0] <= slow.median[0]
    mapped = load_seconds(gib, disk, gpus, Loader.MAPPED)
    assert slow.median[0] <= mapped.median[0]


def test_a_disk_without_a_limit_is_bound_by_the_processes_of_the_gpus():
    one, eight = (load_seconds(100, np.inf, gpus).median[0] for gpus in (1, 8))
    assert one == pytest.approx(8 * eight)


def test_columns_have_a_row_for_each_disk():
    bounds = load_seconds(np.array([10.0, 20.0]), np.array([500.0, 1000.0])).median
    assert bounds.shape == (2,)
    assert bounds[0] == pytest.approx(bounds[1])
