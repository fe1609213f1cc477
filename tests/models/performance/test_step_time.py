"""The roofline of a step: its slopes are its own, and its numbers behave as time does."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import Task
from advisor.models.bayes import Parameters
from advisor.models.bundled import power_ratio
from advisor.models.network_columns import KINDS
from advisor.models.performance import paced_gpu
from advisor.models.performance.networks import OPERATION, bundled_networks
from advisor.models.performance.step_parameters import Conditions, ParameterPlaces, Step, unit_of
from advisor.models.performance.step_time import multiprocessors, steps_of
from tests.models.performance.synthetic import UNHEARD_OF

GPUS = ("T4", "L4", "V100-SXM2-16GB", "A100-SXM4-40GB", "RTX 3090", "GTX 1080 Ti", "H100-SXM5-80GB")
NETWORKS = ("resnet50", "mobilenet_v2", "vit_b_16", "bert-base-uncased", "unet", "lstm_ptb_medium")
gpus = st.sampled_from(GPUS)
networks = st.sampled_from([n for n in NETWORKS if bundled_networks().knows(n)])
conditions = st.builds(
    Conditions,
    gpu=gpus.map(paced_gpu),
    task=st.sampled_from(("training", "inference")),
    precision=st.sampled_from(("fp32", "amp", "bf16", "fp16")),
    tf32=st.sampled_from(("convolutions", "on", "off")),
    memory_format=st.sampled_from(("contiguous", "channels_last")),
    stack=st.sampled_from(("eager", "compile", "torchscript")),
    era=st.sampled_from(("", "1.old")),
    source=st.sampled_from(("", "someone")),
    host=st.sampled_from(("", "h")),
    unfused_attention=st.booleans(),
    optimizer=st.booleans(),
    copies_input=st.booleans(),
)


def step(network, how, batch):
    facts = bundled_networks().find(network)
    return Step(facts.kernels[Task(how.task)], facts.parameters, facts.input_bytes, batch, how)


def in_columns(steps):
    """The steps, and the prior's parameters moved a little, so that nothing is special."""
    parameters = Parameters()
    columns = steps_of(steps, parameters)
    theta = np.array([prior.mean for prior in parameters.priors])
    theta[1:] += np.random.default_rng(0).normal(0, 0.1, len(theta) - 1)
    return columns, theta


@given(networks, conditions, st.sampled_from((1, 16, 300)), st.integers(0, 2**31))
def test_slopes_are_what_differences_of_the_function_tell(network, how, batch, seed):
    """Along any direction: Gauss-Newton steps stand on every entry of the table of slopes."""
    columns, theta = in_columns([step(network, how, batch), step("resnet50", how, 2 * batch)])
    mean, slopes = columns.linearised(theta)
    assert mean == pytest.approx(columns.log_seconds(theta))
    direction = np.random.default_rng(seed).normal(size=len(theta))
    direction[0] = 0.0
    small = 1e-5 * direction
    difference = columns.log_seconds(theta + small) - columns.log_seconds(theta - small)
    assert slopes @ direction == pytest.approx(difference / 2e-5, rel=1e-4, abs=1e-6)


def test_kernels_that_are_gone_lend_their_parameters_to_no_others():
    """A fit of more networks than are kept made others take the identity of those that went."""
    places = ParameterPlaces(Conditions(paced_gpu("T4"), "inference", "fp32"), Parameters())
    for size in range(1, 40):
        alike = np.arange(size)
        assert len(places.of(SimpleNamespace(codes=alike, of_group=alike))[0]) == size


@given(networks, conditions, st.integers(1, 500), st.floats(1.01, 4))
def test_a_larger_batch_never_takes_less_time_nor_more_a_sample(network, how, batch, times):
    """But for what the cache holds of a small one."""
    columns, theta = in_columns([step(network, how, batch), step(network, how, batch * times)])
    small, large = np.exp(columns.log_seconds(theta))
    assert small <= large * (1 + 1e-9)
    assert large <= small * times * (1 + np.exp(theta[columns.common["l2"]]))


@settings(max_examples=15)
@given(networks, conditions)
def test_steps_together_take_what_each_takes_alone(network, how):
    """Columns are only a way of computing: rows of one step never reach another."""
    steps = [step(network, how, 4), step("vgg16", how, 32), step(network, how, 64)]
    columns, theta = in_columns(steps)
    parameters = Parameters()
    steps_of(steps, parameters)
    alone = [steps_of([entry], parameters).log_seconds(theta)[0] for entry in steps]
    assert columns.log_seconds(theta) == pytest.approx(alone)


@pytest.mark.parametrize("better", ["memory_gb_per_second", "fp32_tflops", "fp16_tflops"])
def test_a_card_that_is_better_on_its_sheet_is_never_slower(better):
    """Of two cards of one name, hence of the same parameters."""
    card = paced_gpu("T4")
    other = replace(card, **{better: 2 * getattr(card, better)})
    for precision in ("fp32", "amp"):
        ways = [Conditions(gpu, "training", precision) for gpu in (card, other)]
        columns, theta = in_columns([step("resnet50", how, 64) for how in ways])
        slow, fast = columns.log_seconds(theta)
        assert fast <= slow + 1e-12


def test_pytorchs_defaults_decide_the_unit():
    """TF32 for convolutions from Ampere on, never for matrix products; bf16 only where it is."""

    def unit(kind, precision, gpu, **how):
        return unit_of(kind, Conditions(paced_gpu(gpu), "inference", precision, **how))

    assert unit("conv_3x3", "fp32", "A100").tf32
    assert unit("linear", "fp32", "A100", tf32="on").tf32
    assert unit("conv_3x3", "amp", "T4").name == "tensor"
    assert unit("conv_3x3", "fp32", "A100", tf32="off").name == "simt"
    plain = [("linear", "fp32", "A100"), ("conv_depthwise", "amp", "A100"), ("linear", "amp", "GTX 1080 Ti")]
    for without in (*plain, ("conv_3x3", "fp32", "T4"), ("conv_3x3", "bf16", "T4")):
        assert unit(*without).name == "simt"


def test_upsampling_few_pixels_takes_as_long_a_batch_on_any_larger_gpu():
    """It has a thread a pixel, each of which goes through the batch; a compiler spreads it."""
    row = np.zeros(1, OPERATION)
    row["kind"], row["count"], row["width"], row["sample_elements"] = KINDS.index("upsample"), 1, 196, 250_880
    row["amp_sample_width"] = row["amp_fixed_width"] = 64
    card = paced_gpu("T4")
    larger = replace(card, sms=2 * card.sms, fp32_tflops=2 * card.fp32_tflops, watts=2 * card.watts)

    def seconds(gpu, batch=256, **how):
        columns, theta = in_columns([Step(row, 0.0, 0.0, batch, Conditions(gpu, "inference", "amp", **how))])
        return float(np.exp(columns.log_seconds(theta))[0])

    assert seconds(larger) == pytest.approx(seconds(card), rel=0.01)
    assert seconds(card, batch=512) == pytest.approx(2 * seconds(card), rel=0.01)
    assert seconds(card, stack="compile") < seconds(card) / 20


def test_what_a_sheet_does_not_tell_is_taken_as_usual():
    """A card without multiprocessors, clock or watts still has a time, and owes nobody power."""
    assert multiprocessors(UNHEARD_OF) == pytest.approx(20e3 / (2 * 1.6 * 128))
    assert power_ratio(UNHEARD_OF) == 0
    columns, theta = in_columns([step("resnet50", Conditions(UNHEARD_OF, "training", "amp"), 8)])
    assert np.isfinite(columns.log_seconds(theta)).all()
