"""Trials tell the question, batch after batch, and stop."""

import itertools
import math
from functools import cache

import numpy as np
import pytest

from advisor.domain import Accelerator, Task, Trial, Workload
from advisor.models.performance.machines import ReferenceCpu
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.surface import USUAL_NOISE, Belief, Question, Surface, next_trials
from advisor.models.performance.throughput import trial_frame, trials_of
from tests.models.performance.synthetic import DATASET, REFERENCE_SCORE, measure, resources, true_parameters

STEP = {"alexnet": 0.004, "googlenet": 0.02, "resnet50": 0.05}


def grid():
    axes = (STEP, (16, 64), (0.5, 1.0, 2.0), (1024.0, 2048.0, 6144.0), (12.0, 125.0))
    return [
        Trial(
            workload=Workload(network=network, task=Task.INFERENCE, batch_size=batch, dataset=DATASET),
            resources=resources(vcpus, memory_mib, read),
            accelerator=Accelerator.parse("emulated:T4"),
            emulated_step_seconds=STEP[network] * batch / 32,
        )
        for network, batch, vcpus, memory_mib, read in itertools.product(*axes)
    ]


@cache
def truth():
    """A host half as fast as believed, with a soft knee; free of noise."""
    parameters = true_parameters(host__seconds_per_byte=math.log(1.5e-8), join__gamma=math.log(3.0))
    return measure(grid(), parameters, noise=0.0)


@pytest.fixture(scope="module")
def surface():
    return Surface.of(trials_of(frame()))


@cache
def frame():
    reference = ReferenceCpu(score=REFERENCE_SCORE, sigma=0.1)
    return trial_frame(truth(), bundled_networks(), lambda _: reference)


def true_logs():
    return np.log(frame()["rate"].to_numpy())


def believed(surface, index, seed=0):
    noise = USUAL_NOISE * np.random.default_rng(seed).standard_normal(len(index))
    rates = true_logs()[index] + noise
    return Belief.after(surface, index, rates, np.full(len(index), USUAL_NOISE**2))


def error(surface, belief):
    rows = range(len(true_logs()))
    return float(np.abs(np.expm1(belief.means(rows) - true_logs())).mean())


def test_what_is_chosen_is_new_near_the_target_and_stops_when_doubt_covers_no_more(surface):
    question = Question(tuple(range(108)))
    few, more = (believed(surface, list(range(0, 108, step))) for step in (18, 6))
    assert question.doubt(more) < question.doubt(few)
    assert error(surface, more) < 2 * question.doubt(more)
    # Batch after batch, the first of which nothing was measured before; it ends before all is measured and
    # names the reason.
    index = []
    question = Question(tuple(range(108)))
    while True:
        left = [row for row in range(108) if row not in index]
        choice = next_trials(believed(surface, index), question, left, repeats={}, count=4)
        if not choice.rows:
            break
        assert not set(choice.rows) & set(index)
        index += choice.rows
    assert 12 <= len(index) < 60
    assert "surface" in choice.stopped
    # With a price that rises with the rate, doubt matters where the rate is near the target.
    belief = believed(surface, list(range(0, 108, 18)))
    rates = belief.means(range(108))
    target = float(np.exp(np.median(rates)))
    question = Question(tuple(range(108)), target, np.exp(rates), ("one",) * 108)
    weights = question.weights(belief)
    far = np.abs(rates - math.log(target)) > 0.7
    assert weights[far].max() < 0.05 < weights.max()
