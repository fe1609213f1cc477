"""Seconds until an engine serves."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.infra.build.language_sources.training_rows import TRAINING_PATH
from advisor.models.language.support import Loader, load_seconds, ready_seconds

rates = st.floats(50, 20000)
sizes = st.floats(500, 1.5e6)


def measured(what):
    """Rows of the published loads: streams that are enough, or mapped files."""
    with TRAINING_PATH.with_name("model_loads.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            few = row["readers"] in ("1", "4")  # a question has enough streams
            if row["what"] != what or row["loader"] == "tensorizer" or few:
                continue
            loader = Loader.MAPPED if row["loader"] == "mmap" else Loader.STREAMED
            yield float(row["disk_mib_per_second"]), loader, float(row["seconds"])


@pytest.mark.parametrize(("what", "seconds_of"), [("load", load_seconds), ("ready", ready_seconds)])
def test_published_loads_and_starts_lie_within_15_percent_and_within_the_bounds(what, seconds_of):
    cells = list(measured(what))
    assert cells
    for disk, loader, seconds in cells:
        bounds = seconds_of(15e9 / 2**20, disk, loader=loader)
        assert bounds.median == pytest.approx(seconds, rel=0.15)
        assert bounds.lower <= seconds <= bounds.upper


@given(sizes, rates, st.sampled_from(tuple(Loader)), st.integers(1, 8), st.booleans())
def test_bounds_enclose_the_median_and_more_weights_take_longer(mib, disk, loader, gpus, local):
    load = load_seconds(mib, disk, gpus, loader, local=local)
    ready = ready_seconds(mib, disk, gpus, loader, local=local)
    for bounds in (load, ready):
        assert bounds.lower <= bounds.median <= bounds.upper
    assert load.median < ready.median
    assert load_seconds(2 * mib, disk, gpus, loader, local=local).median > load.median


@given(sizes, rates, st.integers(1, 8))
def test_a_faster_disk_and_more_streams_never_take_longer(mib, disk, gpus):
    slow, fast = load_seconds(mib, disk, gpus), load_seconds(mib, 2 * disk, gpus)
    assert fast.median <= slow.median
    assert slow.median <= load_seconds(mib, disk, gpus, Loader.MAPPED).median


def test_a_disk_without_a_limit_is_bound_by_the_processes_of_the_gpus():
    one, eight = (load_seconds(100_000, gpus=gpus).median for gpus in (1, 8))
    assert one == pytest.approx(8 * eight)
