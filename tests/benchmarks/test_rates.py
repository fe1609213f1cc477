"""The figures of `python -m benchmarks.rates`, on runs whose truth is known."""

import numpy as np
import pytest

from benchmarks.rates.coverage import covered
from benchmarks.rates.stalls import STEPS, cases
from sweeps.quality.rates import BETWEEN_RUNS_SIGMA
from tests.sweeps.builders import measurement, resources, trial


def runs(draw, count, sigma, memory_mib=1024.0):
    one = trial(resources=resources(memory_mib=memory_mib))
    for level in np.exp(sigma * draw.standard_normal(count)):
        steps = 0.1 * level * (1 + 0.02 * draw.standard_normal(60))
        yield measurement(trial=one, step_seconds=tuple(steps.tolist()))


def test_coverage_and_spread_are_found_again():
    draw = np.random.default_rng(0)
    rows = [*runs(draw, 60, BETWEEN_RUNS_SIGMA), *runs(draw, 60, BETWEEN_RUNS_SIGMA, 2048.0)]
    found = covered(rows)
    assert found["between_runs"]["sigma"] == pytest.approx(BETWEEN_RUNS_SIGMA, rel=0.2)
    assert found["one_run_holds_any_other"] > 0.93
    assert found["three_runs_hold_the_next"] > 0.93
    assert [one["runs"] for one in found["trials"]] == [60, 60]


def test_runs_that_vary_more_than_the_interval_knows_are_told():
    found = covered([*runs(np.random.default_rng(0), 60, 5 * BETWEEN_RUNS_SIGMA)])
    assert found["one_run_holds_any_other"] < 0.6
    assert found["between_runs"]["sigma"] == pytest.approx(5 * BETWEEN_RUNS_SIGMA, rel=0.2)


def test_every_stall_falls_into_the_run_that_is_timed():
    assert all(0 <= place < STEPS for late in cases().values() for place in late)
