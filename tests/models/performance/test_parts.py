"""The parts of the model: conformal widths, smooth minimum, scaling law, memory, operations."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import CacheState, Cpu, DiskRate, Resources, Stage, Task, Workload
from advisor.infra.build.fitting.likeliest import held_out
from advisor.models.bayes import Prior, believed, gaussian_multiplier, half_widths, joined, variances
from advisor.models.performance import load_model, paced_gpu
from advisor.models.performance.machines import DiskTable, useful_cores
from advisor.models.performance.pipeline import logs_by_stage, smooth_log_minimum
from advisor.runs.fitting import fit_user_model
from tests.models.performance.synthetic import CPU, measure, trials, true_parameters

rates = st.floats(1e-3, 1e6)


def smooth_minimum(values, gamma):
    logs, weights = smooth_log_minimum(logs_by_stage(np.array([values])), gamma)
    return np.exp(logs), weights.T


@given(st.lists(rates, min_size=1, max_size=4), st.floats(1, 20))
def test_the_smooth_minimum_lies_below_the_minimum_and_not_far(values, gamma):
    """At most n^(1/gamma) below, which n equal stages reach; weights sum to one."""
    joined, weights = smooth_minimum(values, gamma)
    assert joined[0] <= min(values) * (1 + 1e-12)
    assert joined[0] >= min(values) * len(values) ** (-1 / gamma) * (1 - 1e-12)
    assert weights.sum() == pytest.approx(1)
    assert weights[0, int(np.argmin(values))] == pytest.approx(weights.max())


def test_a_stage_that_a_request_lacks_counts_for_nothing():
    alone, _ = smooth_minimum([5.0, 7.0], 4)
    with_infinite, weights = smooth_minimum([5.0, 7.0, math.inf], 4)
    assert with_infinite == pytest.approx(alone)
    assert weights[0, 2] == 0


@pytest.mark.parametrize("confidence", [0.6, 0.8, 0.9])
def test_conformal_bounds_cover_as_often_as_they_promise(confidence):
    """Over many calibration sets of 50, fresh residuals fall below the bound often enough."""
    random = np.random.default_rng(1)
    below = []
    for _ in range(400):
        seen = np.sort(random.normal(0, 0.2, 50)).tolist()
        widths = half_widths({"a": seen}, ("a",), confidence)
        below.append(random.normal(0, 0.2, 20) <= widths.upper)
    assert np.mean(below) == pytest.approx(confidence, abs=0.03)
    assert np.mean(below) >= confidence - 0.01


def test_a_group_of_eight_borrows_from_the_wider_one_and_none_that_is_large_enough_is_admitted():
    """99 % needs 99 residuals; with fewer the widths are a guess and say so."""
    groups = {"near": [0.01] * 8, "wide": [-0.5] * 5 + [0.5] * 5}
    assert half_widths(groups, ("near", "wide"), 0.9).upper == 0.5
    groups["near"] = [0.01] * 9
    assert half_widths(groups, ("near", "wide"), 0.9) == (0.0, 0.01, True)
    widths = half_widths({"near": [-0.1, 0.1] * 10}, ("near",), 0.99)
    assert not widths.calibrated
    assert widths.upper > 0.1
    assert half_widths({}, ("near",), 0.9) == (math.inf, math.inf, False)


@given(st.floats(0.1, 256), st.floats(0, 0.2), st.floats(0, 1e-4))
def test_cores_never_give_more_than_themselves(cores, contention, coherence):
    useful = useful_cores(np.array([cores]), contention, coherence)[0]
    assert 0 < useful <= cores * (1 + 1e-12)
    if cores <= 1:
        assert useful == pytest.approx(cores)


# A disk whose rate is assumed widens the interval where it binds, and nowhere else.

A100 = paced_gpu("A100-SXM4-40GB")
WORKLOAD = Workload(network="resnet50", task=Task.TRAINING, batch_size=64)


def feeding_host(mib_per_second, low=1.0, high=1.0, vcpus=96):
    """A host that feeds an A100, with such a disk."""
    disk = DiskRate(type="volume", read_mib_per_second=mib_per_second, read_iops=1e6, low=low, high=high)
    return Resources(vcpus=vcpus, physical_cores=vcpus / 2, memory_mib=60e3, disk=disk, gpu=A100)


def predicted(*machines, confidence=0.9):
    """One prediction a feeding_host, nothing of the data in the page cache."""
    pairs = [(WORKLOAD, entry) for entry in machines]
    return load_model().predict(pairs, confidence=confidence, cache=CacheState.COLD)


def test_an_assumed_rate_widens_the_interval_as_far_as_the_disk_binds():
    """A slow disk that may be half or twice as fast takes both bounds almost that far along."""
    known, assumed = predicted(feeding_host(20), feeding_host(20, 0.5, 2.0))
    assert assumed.median == known.median
    ratio = np.log([assumed.median / assumed.lower, assumed.upper / assumed.median])
    at_90 = np.log(2) * 1.2816 / 1.6449
    assert (ratio > at_90).all()
    assert (ratio < at_90 + np.log(known.upper / known.lower)).all()
    # With RAM for the whole data set later epochs read nothing from the disk.
    known, assumed = predicted(feeding_host(1e5), feeding_host(1e5, 0.5, 2.0))
    assert assumed.lower == pytest.approx(known.lower, rel=1e-3)
    assert assumed.upper == pytest.approx(known.upper, rel=1e-3)
    roomy = replace(feeding_host(20, 0.1, 10.0), memory_mib=2e6)
    pairs = [(WORKLOAD, roomy), (WORKLOAD, replace(roomy, disk=feeding_host(20).disk))]
    assumed, known = load_model().predict(pairs, cache=CacheState.WARM)
    assert assumed.lower == pytest.approx(known.lower, rel=1e-6)


@given(
    rate=st.floats(5, 5000),
    low=st.floats(0.05, 1),
    high=st.floats(1, 20),
    confidence=st.sampled_from([0.6, 0.8, 0.9]),
)
def test_doubt_never_narrows_and_rows_agree_however_they_are_asked(rate, low, high, confidence):
    known, assumed = predicted(feeding_host(rate), feeding_host(rate, low, high), confidence=confidence)
    assert assumed.lower <= known.lower * (1 + 1e-12)
    assert assumed.upper >= known.upper * (1 - 1e-12)
    rows = load_model().prepare([(WORKLOAD, feeding_host(100))], confidence=confidence, cache=CacheState.COLD)
    disks = DiskTable.of([feeding_host(rate, low, high).disk])
    (lower,) = rows.columns_with(np.array([0]), disks).lower
    assert lower == pytest.approx(assumed.lower, rel=1e-9)


# vCPUs are cores, second threads and a speed, whichever of them a sweep was made on.

PREPROCESSING = Workload(network="resnet50", task=Task.PREPROCESSING, batch_size=64)


def machine(vcpus, cores, architecture="x86_64", second_thread=0.33, score=2887.6):
    speed = {"single_thread_score": score, "second_thread_yield": second_thread}
    cpu = Cpu(model="x", architecture=architecture, **speed)
    disk = DiskRate(type="unlimited")
    return Resources(vcpus=vcpus, physical_cores=cores, memory_mib=4096, disk=disk, cpu=cpu)


def host(resources, model=None):
    answer = (model or load_model()).predict([(PREPROCESSING, resources)], confidence=0.9)[0]
    return answer.stage_rates[Stage.HOST]


def test_second_threads_add_their_yield_and_no_more_and_those_that_nobody_measured_the_usual():
    """Two vCPUs of one core lie between one core and two."""
    assert host(machine(1, 1)) * 1.25 < host(machine(2, 1)) < host(machine(2, 2)) * 0.75
    assert host(replace(machine(2, 1), cpu=None)) == pytest.approx(host(machine(2, 1)))


@pytest.mark.parametrize("truth", [0.15, 0.5])
def test_a_sweep_on_second_threads_learns_what_they_add(truth):
    """The factor on the usual yield moves towards what the trials show."""
    parameters = true_parameters(host__second_thread=math.log(truth / 0.33))
    swept = trials()
    for number, trial in enumerate(swept):
        if number % 4 >= 2:
            swept[number] = replace(
                trial, resources=replace(trial.resources, vcpus=2 * trial.resources.vcpus)
            )
    fitted = fit_user_model(measure(swept, parameters)).model
    both, one = (
        host(replace(each, cpu=replace(each.cpu, model=CPU.model)), fitted)
        for each in (machine(2, 1), machine(1, 1))
    )
    assert abs(both / one - 1 - truth) < abs(0.33 - truth)


# One Gaussian that measured rows condition, and bounds from held-out residuals.


def test_a_row_is_conditioned_as_the_formula_says_bent_ones_by_repeating_and_odd_ones_count_less():
    """A sum of two unknowns with variances 1 and 3, measured with variance 4: half of the surprise is taken,
    a quarter of it by the first. A precise measurement of exp(theta) ends at its logarithm. Nine rows say
    0, one says 10: robustly, the mean stays near the nine. The mean of all rows but the own group's."""

    def sum_of(theta):
        return theta.sum(keepdims=True), np.ones((1, 2))

    known = joined([believed("a", [Prior(0.0, 1.0)]), believed("b", [Prior(0.0, 3.0**0.5)])])
    after = known.updated(sum_of, np.array([8.0]), np.array([2.0]))
    assert after.mean == pytest.approx([1.0, 3.0])
    assert variances(np.ones((1, 2)), after.covariance) == pytest.approx([2.0])

    def power(theta):
        return np.exp(theta), np.exp(theta)[:, None]

    known = believed("a", [Prior(0.0, 1.0)])
    after = known.updated(power, np.array([2.0]), np.array([1e-4]), most_updates=20)
    assert after.mean == pytest.approx([np.log(2.0)], rel=1e-3)

    def same(theta):
        return np.repeat(theta, 10), np.ones((10, 1))

    known, rows, sigma = believed("a", [Prior(0.0, 10.0)]), np.array([0.0] * 9 + [10.0]), np.ones(10)
    plain = known.updated(same, rows, sigma).mean[0]
    assert abs(known.updated_robustly(same, rows, sigma, rounds=10).mean[0]) < plain / 5
    values = np.array([1.0, 2.0, 6.0])
    expected = held_out(["a", "a", "b"], lambda out: np.full(out.sum(), values[~out].mean()))
    assert expected.tolist() == [6.0, 6.0, 1.5]


@given(st.floats(min_value=0.5, max_value=0.9999))
def test_the_normal_quantile_is_that_of_the_standard_library(confidence):
    """Newton's method finds what the standard library tells."""
    assert gaussian_multiplier(confidence) == pytest.approx(NormalDist().inv_cdf(confidence), abs=1e-9)
