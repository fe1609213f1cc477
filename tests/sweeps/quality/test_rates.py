"""Rates, how well they are known, and when a run has measured enough."""

import csv
import math
import random
import statistics
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.stats import t as students_t

from advisor.domain.results import mean_step_seconds, stall_indices, stall_share
from advisor.sweeps.quality import rates
from tests.sweeps.builders import TIME_BOX, measurement, trial

STEPS = st.lists(st.floats(1e-4, 10), min_size=1, max_size=80)
GPU_SERIES = Path("tests/data/steady_state/pytorch_gpu_benchmark_ms.csv")
SERIES = 2000


def noisy(count, spread=0.01, seed=0):
    draw = random.Random(seed)
    return [0.1 * (1 + draw.gauss(0, spread)) for _ in range(count)]


def row(*runs):
    first, *others = (list(run) for run in runs)
    return measurement(step_seconds=tuple(first), repeats=tuple({"step_seconds": other} for other in others))


STALLED = [([number], 30.0) for number in range(100)] + [([10, 35, 60, 85], 0.6)]
STALLED += [(range(first, 100, 21), 0.5) for first in range(21)]


@pytest.mark.parametrize(("stalls", "seconds"), [*STALLED, (range(60, 100), 0.13)])
def test_stalls_and_slow_phases_count_in_the_rate_and_are_no_warm_up(stalls, seconds):
    """The rate is what was achieved, to the last digit, and the lost time stands beside it."""
    steps = [seconds if n in stalls else 0.1 for n in range(100)]
    share = (seconds - 0.1) * len(stalls) / sum(steps) if len(stalls) < 40 else 0.0
    counted = steps[rates.count_warmup_steps(steps) :]
    entry = measurement(step_seconds=tuple(counted))
    achieved = 100 * entry.trial.samples_per_step / sum(steps)
    assert entry.throughput_samples_per_second == pytest.approx(achieved)
    assert stall_share(counted) == pytest.approx(share)


@given(STEPS, STEPS, STEPS)
def test_each_run_weighs_alike_in_the_rate_of_a_trial(first, second, third):
    entry = row(first, second, third)
    seconds = statistics.fmean(map(mean_step_seconds, (first, second, third)))
    rate = entry.trial.samples_per_step / seconds
    assert entry.throughput_samples_per_second == pytest.approx(rate)


@given(STEPS, st.integers(1, 8))
def test_the_share_lost_in_stalls_is_part_of_the_time(steps, period):
    share = stall_share(steps, period)
    assert 0 <= share < 1
    assert (share > 0) == bool(stall_indices(steps, period))


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_the_long_steps_of_a_loader_are_no_stalls(workers):
    """Workers that deliver together: one long wait, then as many batches at once."""
    rounds = [0.5 + index % 3 * 0.01 for index in range(20)]
    steps = [s for wait in rounds for s in (wait, *[0.01] * (workers - 1))]
    assert stall_indices(steps, workers) == ()


def test_slightly_longer_steps_in_the_loaders_rhythm_are_no_stalls():
    steps = [0.15 if index % 16 == 5 else 0.1 for index in range(160)]
    assert stall_indices(steps, 16) == ()
    assert len(stall_indices(steps, 1)) == 10


def correlated(draw, count, *, last=0.5, spread=0.1):
    """Steps of which each takes after the one before, with a mean of 0.1 s; (series, count)."""
    values = np.empty((SERIES, count))
    values[:, 0] = draw.standard_normal(SERIES)
    for index in range(1, count):
        fresh = draw.standard_normal(SERIES)
        values[:, index] = last * values[:, index - 1] + math.sqrt(1 - last**2) * fresh
    return 0.1 * (1 + spread * values)


def bunched(draw, count):
    """Two loader processes: a long wait and a short one in turn."""
    return np.tile([0.02, 0.18], count // 2) * draw.uniform(0.8, 1.2, (SERIES, count))


def skewed(draw, count):
    return 0.1 * np.exp(0.3 * draw.standard_normal((SERIES, count)) - 0.045)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("series", "period", "rel_error"), [(correlated, 1, 0.03), (bunched, 2, 0.04), (skewed, 1, 0.04)]
)
def test_a_run_that_stops_when_it_knows_enough_covers_the_truth_in_95_of_100(series, period, rel_error):
    """The interval at the moment of stopping, over 2,000 series; checking at any step instead
    of five times would cover less."""
    held = []
    for steps in series(np.random.default_rng(20), 400).tolist():
        times = {"first_seconds": 8.0, "last_seconds": 40.0}
        rule = rates.StoppingRule(rel_error=rel_error, min_steps=20, period=period, **times)
        elapsed = np.cumsum(steps).tolist()
        taken = next((n for n in range(1, 401) if rule.is_met(steps[:n], elapsed[n - 1])), len(steps))
        counted = steps[rates.count_warmup_steps(steps[:taken], period) : taken]
        error = rates.mean_error(counted, period)
        mean = mean_step_seconds(counted)
        held.append(abs(mean - 0.1) <= error.half_width * mean)
    assert 0.93 <= statistics.fmean(held) <= 0.97


def next_runs(draw, runs, sigmas):
    """Whether the interval by `runs` runs held the rate of one more, for trials whose runs differ
    by these log standard deviations; the share."""
    held = []
    for sigma in sigmas:
        levels = 0.1 * np.exp(sigma * draw.standard_normal(runs + 1))
        steps = levels[:, None] * (1 + 0.002 * draw.standard_normal((runs + 1, 50)))
        interval = rates.rate_interval(row(*steps[:-1].tolist()))
        following = row(steps[-1].tolist()).throughput_samples_per_second
        held.append(interval.lower <= following <= interval.upper)
    return statistics.fmean(held)


def drawn_sigmas(draw):
    """As the prior has them: the variance of a trial is a scaled inverse chi-square."""
    freedom = rates.BETWEEN_RUNS.degrees
    return rates.BETWEEN_RUNS.sigma * np.sqrt(freedom / draw.chisquare(freedom, 2 * SERIES))


def alike_sigmas(sigma=rates.BETWEEN_RUNS.sigma):
    return np.full(SERIES, sigma)


@pytest.mark.parametrize("runs", [1, 3])
def test_the_interval_is_where_the_next_run_lies_in_95_of_100(runs):
    """Over 4,000 trials that differ among each other as the prior says."""
    draw = np.random.default_rng(runs)
    assert 0.94 <= next_runs(draw, runs, drawn_sigmas(draw)) <= 0.96


def test_an_interval_holds_what_runs_differ_by():
    """Known answer: the interval reaches t of the prior's degrees, the next run is normal."""
    reach = students_t.ppf(0.975, rates.BETWEEN_RUNS.degrees)
    expected = 2 * NormalDist().cdf(reach) - 1
    assert next_runs(np.random.default_rng(0), 1, alike_sigmas()) == pytest.approx(expected, abs=0.01)
    # One run of it knows no better than what repeats of other trials showed.
    draw = np.random.default_rng(0)
    wild = 4 * rates.BETWEEN_RUNS.sigma
    assert next_runs(draw, 1, alike_sigmas(wild)) < next_runs(draw, 3, alike_sigmas(wild))
    alike = rates.rate_interval(row(noisy(60), noisy(60, seed=1), noisy(60, seed=2)))
    apart = rates.rate_interval(row(noisy(60), [1.2 * s for s in noisy(60, seed=1)], noisy(60, seed=2)))
    assert math.log(apart.upper / apart.lower) > 2 * math.log(alike.upper / alike.lower)
    # However many steps one run has, another one gives another rate; repeats average that.
    once, thrice = (rates.rate_interval(row(*[noisy(4000)] * runs)) for runs in (1, 3))
    assert once.standard_error == pytest.approx(rates.BETWEEN_RUNS.sigma, rel=0.02)
    assert thrice.standard_error < once.standard_error / math.sqrt(3) * 1.01
    assert once.relative_error < rates.BETWEEN_RUNS.sigma / 10
    # A run by itself says what a trial of that run would.
    second = noisy(60, seed=1)
    assert rates.run_intervals(row(noisy(60), second))[1] == rates.rate_interval(row(second))


@given(STEPS, st.integers(1, 8))
def test_an_interval_holds_its_rate_and_few_steps_have_none(steps, period):
    changed = replace(row(steps), trial=trial(plan={**TIME_BOX, "loader_workers": period}))
    interval = rates.rate_interval(changed)
    if interval:
        assert interval.lower < interval.rate < interval.upper
        assert interval.rate == changed.throughput_samples_per_second
    if len(steps) < 5:
        assert interval is None


@pytest.mark.parametrize("degrees", [4, 5, 7, rates.BETWEEN_RUNS.degrees, 20, 200])
def test_students_quantile_is_that_of_the_tables(degrees):
    assert rates.students_quantile(degrees) == pytest.approx(students_t.ppf(0.975, degrees), rel=0.003)


def is_enough(steps, *, rel_error=0.02, min_steps=6, index=10.0):
    times = {"first_seconds": index, "last_seconds": 5 * index}
    return rates.StoppingRule(rel_error=rel_error, min_steps=min_steps, **times).is_met(steps, index)


def test_even_steps_are_soon_enough_and_a_run_is_checked_five_times_at_times_that_grow_alike():
    assert is_enough(noisy(8))
    assert not is_enough(noisy(12, spread=0.2))
    assert is_enough(noisy(1500, spread=0.2))
    assert is_enough(noisy(60, spread=0.04), rel_error=0.03)
    assert not is_enough(noisy(60, spread=0.04), rel_error=0.003)
    assert not is_enough(noisy(5))
    assert not is_enough([0.1 * 1.02**index for index in range(40)])
    # Between two of them even the best steps end nothing.
    rule = rates.StoppingRule(rel_error=0.02, min_steps=6, first_seconds=4.0, last_seconds=20.0)
    assert not rule.is_met(noisy(100), 3.9)
    for check in range(5):
        second = 4.0 * 5 ** (check / 5)
        assert not rule.is_met(noisy(60, spread=0.9), second)
        assert not rule.is_met(noisy(100), second + 0.01)
    assert not rule.is_met(noisy(100), 20.0)


def test_real_steps_of_gpus_behind_a_warm_up_give_their_mean():
    """Sixty series of 50 steps, with two to six slow steps before them."""
    with GPU_SERIES.open(newline="") as file:
        series = [[float(value) for value in line[4:]] for line in list(csv.reader(file))[1:]]
    draw = random.Random(0)
    errors = []
    for steps in series:
        count, factor = draw.randint(2, 6), draw.uniform(1.5, 4.0)
        slow = [steps[n % len(steps)] * factor ** (1 - n / count) for n in range(count)]
        warmup = rates.count_warmup_steps([*slow, *steps])
        result = mean_step_seconds([*slow, *steps][warmup:])
        errors.append(result / mean_step_seconds(steps) - 1)
    assert abs(statistics.fmean(errors)) < 0.01
    assert sorted(map(abs, errors))[int(0.9 * len(errors))] < 0.03
