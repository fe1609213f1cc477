"""The parts of the model: conformal widths, smooth minimum, scaling law, memory, operations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Precision, Task, Workload
from models.performance import load_model, paced_gpu
from models.performance.accelerator import step_logs, step_seconds, step_times
from models.performance.gpu_rates import family
from models.performance.intervals import half_widths
from models.performance.joining import smooth_minimum
from models.performance.networks import bundled_networks
from models.performance.stages import useful_cores
from models.performance.step_work import REFERENCE_STACK as PYTORCH_EAGER
from models.performance.step_work import chip, step_work, unit_of

rates = st.floats(1e-3, 1e6)


@given(st.lists(rates, min_size=1, max_size=4), st.floats(1, 20))
def test_the_smooth_minimum_lies_below_the_minimum_and_not_far(values, gamma):
    """At most n^(1/gamma) below, which n equal stages reach; weights sum to one."""
    joined, weights = smooth_minimum(np.array([values]), gamma)
    assert joined[0] <= min(values) * (1 + 1e-12)
    assert joined[0] >= min(values) * len(values) ** (-1 / gamma) * (1 - 1e-12)
    assert weights.sum() == pytest.approx(1)
    assert weights[0, int(np.argmin(values))] == pytest.approx(weights.max())


def test_a_stage_that_a_request_lacks_counts_for_nothing():
    alone, _ = smooth_minimum(np.array([[5.0, 7.0]]), 4)
    with_infinite, weights = smooth_minimum(np.array([[5.0, 7.0, math.inf]]), 4)
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


def test_a_group_of_eight_borrows_from_the_wider_one():
    groups = {"near": [0.01] * 8, "wide": [-0.5] * 5 + [0.5] * 5}
    assert half_widths(groups, ("near", "wide"), 0.9).upper == 0.5
    groups["near"] = [0.01] * 9
    assert half_widths(groups, ("near", "wide"), 0.9) == (0.0, 0.01, True)


def test_no_group_being_large_enough_is_admitted():
    """99 % needs 99 residuals; with fewer the widths are a guess and say so."""
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


def test_the_fits_derivatives_are_the_functions_own():
    """Shares are d log T by d log of each time; compared with finite differences."""
    parameters = load_model().gpu_rates.parameters
    table = bundled_networks()
    work = step_work(table["googlenet"], Task.TRAINING, Precision.AMP, paced_gpu("A10G"))
    batch = np.array([4.0, 64.0])
    times = step_times(work, batch, step_logs(work, parameters))
    assert times.seconds == pytest.approx(step_seconds(work, batch, parameters))
    for name, share in (("kernel_seconds", times.kernel_share), ("task/training", times.gpu_share)):
        nudged = {**parameters, name: parameters.get(name, 0.0) + 1e-6}
        difference = np.log(step_seconds(work, batch, nudged) / times.seconds) / 1e-6
        assert difference == pytest.approx(share, rel=1e-3)


def test_pytorchs_defaults_decide_the_unit():
    """TF32 for convolutions from Ampere on, never for matrix products; bf16 only where it is."""
    a100, t4 = paced_gpu("A100"), paced_gpu("T4")
    assert unit_of("conv_3x3", "fp32", a100, PYTORCH_EAGER).tf32
    assert unit_of("linear", "fp32", a100, PYTORCH_EAGER).name == "simt"
    assert unit_of("conv_3x3", "fp32", t4, PYTORCH_EAGER).name == "simt"
    assert unit_of("conv_3x3", "amp", t4, PYTORCH_EAGER).name == "tensor"
    assert unit_of("conv_3x3", "bf16", t4, PYTORCH_EAGER).name == "simt"


def test_turings_geforce_cards_sum_in_fp32_at_half_the_rate_they_are_sold_with():
    """A data sheet that is halved already, and cards for work stations, are left alone."""
    sold = replace(paced_gpu("T4"), name="RTX 2080 Ti", fp32_tflops=13.4, fp16_tflops=107.6)
    for name, fp16, reached in (
        ("RTX 2080 Ti", 107.6, 53.8), ("RTX 2080 Ti", 53.8, 53.8), ("Titan RTX", 107.6, 107.6)
    ):  # fmt: skip
        gpu = replace(sold, name=name, fp16_tflops=fp16)
        assert unit_of("linear", "amp", gpu, PYTORCH_EAGER).tflops == pytest.approx(reached)


def test_names_are_grouped_by_chip_and_family():
    assert chip("NVIDIA A100-SXM4-40GB") == chip("A100-PCIE-80GB") == "A100"
    assert family("wide_resnet50_2") == family("resnext101_32x8d") == family("resnet18")
    assert family("vgg16_bn") == "vgg"


@given(
    st.sampled_from(("alexnet", "googlenet", "resnet50", "vgg16", "inception_v3")),
    st.integers(1, 256),
)
def test_gpu_memory_grows_with_the_batch_and_training_needs_more(network, batch_size):
    model = load_model()

    def needed(task, batch, precision=Precision.FP32):
        return model.gpu_memory_mib(
            Workload(network=network, task=task, batch_size=batch, precision=precision)
        )

    training, inference = needed(Task.TRAINING, batch_size), needed(Task.INFERENCE, batch_size)
    assert inference < training < needed(Task.TRAINING, batch_size + 1)
    assert needed(Task.TRAINING, 512, Precision.AMP) < needed(Task.TRAINING, 512)
    assert needed(Task.PREPROCESSING, batch_size) == 0


def test_known_limits_of_real_cards_are_met():
    """ResNet-50 training in fp32 is known to fit 11 GB at batch 64 and not 16 GB at 256."""
    model = load_model()

    def needed(batch):
        return model.gpu_memory_mib(
            Workload(network="resnet50", task=Task.TRAINING, batch_size=batch)
        )

    assert needed(64) < 11_000
    assert needed(256) > 16_000
