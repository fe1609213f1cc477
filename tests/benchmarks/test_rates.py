"""The figures of `python -m benchmarks.rates`, on runs whose truth is known."""

from itertools import chain

import numpy as np
import pytest

from advisor.sweeps.quality.rates import BETWEEN_RUNS, RunSpread
from benchmarks.rates.coverage import between_runs, coverage, covered
from benchmarks.rates.stalls import STEPS, cases
from tests.sweeps.builders import measurement, resources, trial


def runs(draw, count, sigma, memory_mib=1024.0):
    one = trial(resources=resources(memory_mib=memory_mib))
    for level in np.exp(sigma * draw.standard_normal(count)):
        steps = 0.1 * level * (1 + 0.02 * draw.standard_normal(60))
        yield measurement(trial=one, step_seconds=tuple(steps.tolist()))


def repeated(draw, trials, count, *, sigma, degrees):
    """Trials whose own variances are drawn from the interval's prior, a scaled inverse chi-square."""
    own = sigma * np.sqrt(degrees / draw.chisquare(degrees, trials))
    return [list(runs(draw, count, level, 1024.0 + number)) for number, level in enumerate(own)]


def test_a_spread_is_found_again_or_none_where_runs_do_not_differ():
    coverages = between_runs(repeated(np.random.default_rng(0), 60, 9, sigma=0.02, degrees=6))
    assert coverages["sigma"] == pytest.approx(0.02, rel=0.25)
    assert coverages["sigma_95"][0] <= 0.02 <= coverages["sigma_95"][1]
    assert coverages["degrees_95"][0] <= 6 <= coverages["degrees_95"][1]
    coverages = between_runs(repeated(np.random.default_rng(0), 12, 9, sigma=1e-6, degrees=8))
    assert coverages["sigma_95"][0] < 0.001


@pytest.mark.slow
def test_what_ships_covers_less_than_it_says_where_runs_vary_more():
    trials = repeated(np.random.default_rng(1), 60, 5, sigma=5 * BETWEEN_RUNS.sigma, degrees=8)
    coverages = covered(list(chain(*trials)))
    assert coverages["coverage_shipped"]["one_run"]["share"] < 0.6
    spread = RunSpread(coverages["estimate_of_all"]["sigma"], coverages["estimate_of_all"]["degrees"])
    assert coverage(trials, spread)["one_run"]["share"] > 0.9
    assert coverage(trials, spread)["three_runs"]["share"] > 0.9
    assert [one["runs"] for one in coverages["trials"]] == [5] * 60


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_runs_give_what_they_can(count):
    rows = list(runs(np.random.default_rng(0), count, 0.01))
    coverages = covered(rows)
    assert (coverages["estimate_of_all"] is None) == (count < 2)
    assert coverages["coverage_shipped"]["three_runs"]["share"] is None


def test_every_stall_falls_into_the_run_that_is_timed():
    assert all(0 <= place < STEPS for late in cases().values() for place in late)
