"""What is known of a GPU's rate, and what a user's trials change of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import Observation, Precision, Protocol, Provenance, Stack, Task, Workload
from advisor.infra.build.fitting.files import write_step_times
from advisor.infra.build.fitting.kinship import kinship_of
from advisor.models.bayes import gaussian_multiplier
from advisor.models.performance import paced_gpu
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.persistence import bundled_step_times, step_times_from
from advisor.models.performance.step_times import arithmetic_of, chip, features_of, is_same_card
from tests.models.performance.synthetic import UNHEARD_OF

pytestmark = pytest.mark.vector

TABLE, TIMES = bundled_networks(), bundled_step_times()
# The table has it, nobody measured it.
UNMEASURED = next(
    name
    for name in ("googlenet", *TABLE.names)
    if not any(f"{TABLE[name].key}/{task}" in TIMES.networks for task in Task)
    and Task.TRAINING in TABLE[name].kernels
)
STRANGE = replace(UNHEARD_OF, architecture="Newest", compute_capability="15.0", fp16_tflops=80.0)
CELLS = (
    ("resnet50", "T4", Precision.FP32),
    ("resnet50", "L4", Precision.AMP),
    ("vit_b_16", "A100-SXM4-40GB", Precision.AMP),
    (UNMEASURED, "T4", Precision.FP32),
    (UNMEASURED, STRANGE, Precision.AMP),
    ("bert-base-uncased", "V100-SXM2-16GB", Precision.AMP),
)
cells = st.sampled_from(CELLS)


def card(gpu):
    return paced_gpu(gpu) if isinstance(gpu, str) else gpu


def work(network="resnet50", precision=Precision.FP32, batch=32, task=Task.TRAINING, **changes):
    return Workload(network=network, task=task, batch_size=batch, precision=precision, **changes)


def rate(workload, gpu, times=TIMES, confidence=0.9):
    return times.rates([(workload, card(gpu))], TABLE, confidence)[0]


def seconds(workload, gpu, times=TIMES):
    sizes = np.array([workload.batch_size])
    return float(times.step_seconds(workload, card(gpu), sizes, TABLE)[0])


def moved(workload, gpu, after):
    """The logarithm of how much longer a step takes by what is known after trials."""
    return np.log(seconds(workload, gpu, after) / seconds(workload, gpu))


def trial(workload, gpu, seconds, **changes):
    return Observation(workload=workload, gpu=card(gpu), seconds=seconds, **changes)


def conditioned(*observations, times=TIMES):
    return times.condition(observations, TABLE)


def variance(workload, gpu, times):
    return float(times.estimates([(workload, card(gpu))], TABLE.of(workload)).variance[0])


@settings(max_examples=12)
@given(cells, st.floats(0.8, 1.25), st.sampled_from((8, 64)))
def test_a_trial_moves_its_cell_to_what_was_measured_and_makes_it_surer(cell, times, batch):
    """Nearly so: a trial has its own error, and what is known otherwise weighs a little."""
    network, gpu, precision = cell
    question = work(network, precision, batch)
    before = seconds(question, gpu)
    after = conditioned(trial(question, gpu, times * before))
    assert abs(np.log(seconds(question, gpu, after) / (times * before))) < 0.35 * abs(np.log(times)) + 0.01
    assert variance(question, gpu, after) < variance(question, gpu, TIMES)
    assert rate(question, gpu, after).provenance is Provenance.MEASURED


@pytest.mark.parametrize("network", ["resnet50", UNMEASURED])
@pytest.mark.parametrize("times", [0.8, 1.25])
def test_a_trial_on_one_gpu_moves_another_gpu_the_same_way_but_less(network, times):
    """What is odd about a network goes with it; what is odd about a card stays."""
    question = work(network)
    after = conditioned(trial(question, "T4", times * seconds(question, "T4")))
    own, other = (moved(question, gpu, after) for gpu in ("T4", "V100-SXM2-16GB"))
    assert 0 < other / own < 1
    assert np.sign(own) == np.sign(np.log(times))
    assert variance(question, "V100-SXM2-16GB", after) <= variance(question, "V100-SXM2-16GB", TIMES)


def test_trials_one_after_another_say_what_they_say_together():
    """Conditioning is one algebra, so a posterior can be conditioned again."""
    question, more = work(), work(batch=64)
    entry, two = (trial(w, "T4", 1.2 * seconds(w, "T4")) for w in (question, more))
    together = seconds(question, "L4", conditioned(entry, two))
    in_turn = seconds(question, "L4", conditioned(two, times=conditioned(entry)))
    assert in_turn == pytest.approx(together, rel=0.01)


def test_a_trial_of_a_new_network_tells_others_less_than_one_of_a_known_network():
    """What is odd about a network that everybody measured is odd about the user's machine."""

    def carried(network):
        question, other = (work(name, protocol=Protocol.BENCH) for name in (network, "vgg16"))
        after = conditioned(trial(question, "T4", 1.25 * seconds(question, "T4")))
        return float(moved(other, "T4", after) / moved(question, "T4", after))

    assert 0 < carried(UNMEASURED) < 0.65 * carried("resnet50") < 0.6


def test_trials_of_several_networks_are_taken_at_once():
    """Each moves its own network, and all of them together the card."""
    trials = [
        trial(question := work(network, batch=batch), "A10", 1.3 * seconds(question, "A10"))
        for network in ("resnet50", "vgg16", "vit_b_16")
        for batch in (16, 64)
    ]
    after = conditioned(*trials)
    for question in trials:
        assert seconds(question.workload, "A10", after) == pytest.approx(question.seconds, rel=0.05)
        assert rate(question.workload, "A10", after).provenance is Provenance.MEASURED
    other = work("densenet121")
    assert 1.1 < seconds(other, "A10", after) / seconds(other, "A10") < 1.3
    assert rate(other, "A10", after).provenance is not Provenance.MEASURED


def test_a_trial_is_of_the_stack_and_the_input_that_it_ran_on():
    """A compiled step tells of compiled ones first, and of another input what the network is."""
    compiled = work(stack=Stack.COMPILE)
    after = conditioned(trial(compiled, "T4", 1.5 * seconds(compiled, "T4")))
    moved, eager = (seconds(entry, "T4", after) / seconds(entry, "T4") for entry in (compiled, work()))
    assert 1.4 < moved < 1.55
    assert 1 < eager < moved
    assert rate(compiled, "T4", after).provenance is Provenance.MEASURED
    assert rate(work(), "T4", after).provenance is not Provenance.MEASURED
    small = conditioned(trial(work(), "T4", 1.3 * seconds(work(), "T4")))
    large = work(input="3x448x448")
    assert 1.1 < seconds(large, "T4", small) / seconds(large, "T4") < 1.35
    assert rate(large, "T4", small).provenance is Provenance.MODELLED


def test_a_card_is_known_once_six_networks_were_measured_on_it():
    names = ("resnet50", "vgg16", "vit_b_16", "alexnet", "densenet121", "mobilenet_v2", "resnet18")
    trials = [trial(work(name), STRANGE, seconds(work(name), STRANGE)) for name in names[:6]]
    question = work(names[6])
    asked = (question, STRANGE, TABLE.of(question))
    assert conditioned(*trials[:5]).group(*asked) == "known/new"
    assert conditioned(*trials).group(*asked) == "known/known"
    assert "was not measured" not in " ".join(map(str, conditioned(trials[0]).notes(*asked)))


def test_a_trial_that_contradicts_the_others_is_told():
    """One of three that says ten times as long, and none of three that agree."""
    question = work()
    some = [work(batch=batch) for batch in (16, 32, 64)]
    good = [trial(each, "T4", 1.05 * seconds(each, "T4")) for each in some]
    assert TIMES.contradicting(good, TABLE) == []
    wrong = trial(question, "T4", 10 * seconds(question, "T4"))
    assert wrong in TIMES.contradicting([*good, wrong], TABLE)
    assert TIMES.contradicting([wrong], TABLE) == [wrong]
    assert TIMES.residuals([wrong], TABLE)[0] == pytest.approx(np.log(10))


@pytest.mark.parametrize(
    ("network", "gpu", "group"),
    [
        ("resnet50", "A100-SXM4-40GB", "cell"),
        ("resnet50", STRANGE, "known/new"),
        (UNMEASURED, "T4", "new/known"),
        (UNMEASURED, STRANGE, "new/new"),
    ],
)
def test_the_doubt_is_that_of_rows_held_out_alike(network, gpu, group):
    """By whether the network, and the GPU in that number format, were measured."""
    assert TIMES.group(work(network), card(gpu), TABLE[network]) == group


def test_bounds_are_as_wide_as_those_of_steps_of_one_regime():
    """Scripts, today's steps and old ones, on the GPU's or on the host's time; else of all alike."""
    spread = {"cell": 8.0, "script": 4.0, "cell/today/computing": 1.0, "cell/old/computing": 2.0}
    times = replace(TIMES, quantiles={name: (-size,) * 9 + (size,) * 9 for name, size in spread.items()})

    def lower(**changes):
        question = replace(work("resnet50"), **changes)
        return times.rates([(question, card("A100-SXM4-40GB"))], TABLE, 0.9)[0].widths.lower

    large = {"batch_size": 256, "conditions": (("script", False),)}
    today, old = lower(**large), lower(**{**large, "conditions": (("script", False), ("era", "1.old"))})
    script = lower(**{**large, "conditions": (("script", True),)})
    assert today < old < script < lower(**{**large, "batch_size": 1})


def test_only_an_eager_step_at_a_measured_input_is_published_and_without_held_out_rows_a_width_is_a_guess():
    question = work()
    assert rate(question, "A100-SXM4-40GB").provenance is Provenance.PUBLISHED
    assert rate(work(stack=Stack.COMPILE), "A100-SXM4-40GB").provenance is Provenance.MODELLED
    assert rate(work(UNMEASURED), "T4").provenance is Provenance.MODELLED
    bare = replace(TIMES, quantiles={})
    widths = rate(work(), "T4", bare).widths
    assert not widths.calibrated
    assert widths.lower == widths.upper > gaussian_multiplier(0.9) * 0.04


@pytest.mark.parametrize("task", [Task.TRAINING, Task.INFERENCE])
@pytest.mark.parametrize(("gpu", "is_one"), [("L4", True), ("A100-SXM4-40GB", True), ("T4", False)])
def test_both_16_bit_formats_take_as_long_where_units_compute_both(gpu, is_one, task):
    """A T4 has fp16 alone: bf16 runs at its rate of fp32."""
    mixed = [seconds(work(precision=kind, task=task), gpu) for kind in (Precision.AMP, Precision.BF16)]
    assert (mixed[0] == mixed[1]) is is_one
    assert mixed[0] <= mixed[1]


def test_names_tell_chips_and_cards():
    assert chip("NVIDIA A100-SXM4-40GB") == chip("A100-PCIE-80GB") == "A100"
    assert is_same_card(paced_gpu("T4"), paced_gpu("T4"))
    assert not is_same_card(paced_gpu("A100-SXM4-40GB"), paced_gpu("A100-SXM4-80GB"))
    formats = {Precision.FP32: "fp32", Precision.AMP: "amp", Precision.BF16: "amp"}
    assert {entry: arithmetic_of(entry) for entry in formats} == formats


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("times") / "step_times.npy"
    write_step_times(TIMES, path)
    return path


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell[0]}")
def test_a_written_file_answers_as_what_was_written(written, cell):
    """Half precision costs less than a per mille of a rate, and of its deviation."""
    network, gpu, precision = cell
    question, read = work(network, precision), step_times_from(np.load(written))
    assert seconds(question, gpu, read) == pytest.approx(seconds(question, gpu), rel=1e-3)
    assert variance(question, gpu, read) == pytest.approx(variance(question, gpu, TIMES), rel=0.02)
    assert read.group(question, card(gpu), TABLE[network]) == TIMES.group(question, card(gpu), TABLE[network])


def test_equal_step_times_make_equal_bytes(written, tmp_path):
    again = tmp_path / "again.npy"
    write_step_times(TIMES, again)
    assert again.read_bytes() == written.read_bytes()


# A network like measured ones takes their deviation, one like none takes little.


def two_families(low=-0.3, high=0.3):
    """Forty measured steps: one kind at the origin that is faster, another far off, slower."""
    rng = np.random.default_rng(0)
    near, far = rng.normal(0, 0.05, (20, 4)), rng.normal(0, 0.05, (20, 4)) + 10
    residuals = np.repeat([low, high], 20)
    return np.vstack([near, far]), residuals, np.full(40, 0.1**2)


@pytest.mark.parametrize(("path", "deviation"), [(0.0, -0.3), (10.0, 0.3)])
def test_a_network_like_measured_ones_takes_their_deviation(path, deviation):
    """Little is left to doubt of a network among many that are like it."""
    features, residuals, noise = two_families()
    kinship = kinship_of(features, residuals, noise)
    mean, variance = kinship.deviation(np.full(4, path))
    assert mean == pytest.approx(deviation, abs=0.1)
    between, doubt = kinship.deviation(np.full(4, 5.0))
    assert abs(between) < abs(mean)
    assert variance < doubt


@given(st.lists(st.floats(-50, 50), min_size=4, max_size=4))
def test_the_doubt_is_never_negative_nor_more_than_without_relatives(path):
    kinship = kinship_of(*two_families())
    mean, variance = kinship.deviation(np.array(path))
    assert 0 <= variance <= 0.03 + 1e-9
    assert abs(mean) <= 0.45


def test_one_level_of_all_is_no_deviation_of_some():
    """Where every step deviates alike, so does a strange one."""
    features, _, noise = two_families()
    kinship = kinship_of(features, np.full(40, 0.2), noise)
    mean, _ = kinship.deviation(np.array([30.0, -30.0, 3.0, 0.0]))
    assert mean == pytest.approx(0.2)


def test_relatives_lie_near_each_other_by_what_they_compute():
    """ResNet-34 is nearer to ResNet-50 than a transformer is, in training and in inference."""
    facts = [TABLE[name] for name in ("resnet50", "resnet101", "vit_b_16")]
    for task in (Task.TRAINING, Task.INFERENCE):
        result = features_of(facts, [task] * 3, TIMES.posterior)
        assert np.isfinite(result).all()
        apart = np.linalg.norm(result - result[0], axis=1)
        assert 0 < apart[1] < apart[2]
