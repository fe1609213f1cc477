"""GPU memory: exact parts are exact, more never takes less, and a verdict keeps to its bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import Observation, Precision, Task, Workload
from advisor.errors import UsageError
from advisor.infra.build.networks.memory import FACTS, facts_row, table_of
from advisor.models.performance import paced_gpu
from advisor.models.performance.memory.peak import (
    PeakModel,
    Verdict,
    gpu_peak,
    largest_batch,
    needed_card_mib,
)
from advisor.models.performance.memory.steps import (
    Conditions,
    MemoryProfile,
    MemoryTable,
    Optimizer,
    Point,
    bundled_memory,
    bundled_profile,
    step_memory,
)
from advisor.models.performance.own_networks import AnchoredMemory, peaks_of

pytestmark = pytest.mark.vector

_TRAINED = (Point(1, 10.0, 115.0, 130.0), Point(8, 80.0, 160.0, 190.0), Point(64, 640.0, 650.0, 700.0))
_SERVED = (Point(1, 0.0, 5.0, 22.0), Point(64, 0.0, 320.0, 340.0))
PROFILE = MemoryProfile("small", 110.0, 100.0, "fake", {"training/fp32": _TRAINED, "inference/fp32": _SERVED})
NAMES = ("resnet50", "vgg16", "googlenet", "deeplabv3_resnet50", "yolov3", "bert_base_squad")
NAMES += ("lstm_ptb_large", "timm/nasnetalarge")
# Between replayed batches both sides of a comparison are rounded.
_EQUAL = 1.001
batches = st.integers(1, 4096)
networks = st.sampled_from(NAMES)


def training(batch, **changes):
    return Conditions(**{"task": Task.TRAINING, "batch_size": batch, **changes})


@pytest.mark.parametrize("optimizer", list(Optimizer))
@pytest.mark.slow
def test_the_optimiser_holds_exactly_what_torch_says(optimizer):
    import torch

    layer = torch.nn.Linear(300, 200)
    made = {
        Optimizer.SGD: lambda p: torch.optim.SGD(p, 0.1),
        Optimizer.MOMENTUM: lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        Optimizer.ADAM: torch.optim.Adam,
    }[optimizer](layer.parameters())
    layer(torch.ones(1, 300)).sum().backward()
    made.step()
    values = [value for state in made.state.values() for value in state.values() if torch.is_tensor(value)]
    held = sum(value.nbytes for value in values if value.ndim)
    mib = sum(parameter.nbytes for parameter in layer.parameters()) / 2**20
    profile = MemoryProfile("one", mib, mib, "fake", PROFILE.steps)
    parts = step_memory(profile, training(4, optimizer=optimizer))
    assert parts.optimizer_mib == pytest.approx(held / 2**20)
    assert parts.gradients_mib == pytest.approx(mib)


def test_parts_add_up_at_a_known_batch_and_follow_straight_lines_between_and_beyond():
    """torch updates all tensors at once; at batch 1 that is the peak."""
    parts = step_memory(PROFILE, training(64))
    assert parts.tensors_mib == pytest.approx(110 + 100 + 650)
    assert parts.reserved_mib == pytest.approx(110 + 100 + 700)
    assert (parts.gradients_mib, parts.optimizer_mib, parts.saved_mib) == (100.0, 100.0, 550.0)
    assert PROFILE.at("training/fp32", 36).reserved == pytest.approx(445.0)
    # Beyond the last one all grows with what the forward pass leaves, by 10 a row.
    assert PROFILE.at("training/fp32", 120).reserved == pytest.approx(1260.0)
    plain, adam = (step_memory(PROFILE, training(1, optimizer=entry)) for entry in ("momentum", "adam"))
    assert adam.optimizer_mib == 200.0
    assert adam.temporary_mib + adam.saved_mib > plain.temporary_mib + plain.saved_mib


@given(networks, batches, st.sampled_from(list(Precision)), st.sampled_from(list(Optimizer)))
def test_more_rows_never_take_less_and_bounds_stand_in_order(name, batch, precision, optimizer):
    profile = bundled_profile(name)
    entry, two = (
        gpu_peak(profile, training(size, precision=precision, optimizer=optimizer))
        for size in (batch, batch + 1)
    )
    assert entry.upper_mib <= two.upper_mib * (1 + 1e-9)
    assert entry.lower_mib <= entry.median_mib <= entry.upper_mib
    total = entry.step.tensors_mib + entry.context_mib + entry.overhead_mib
    assert total == pytest.approx(entry.median_mib)
    assert entry.step.saved_mib >= 0 <= entry.step.temporary_mib


@given(
    st.sampled_from(sorted(bundled_memory())),
    st.sampled_from(list(Precision)),
    st.integers(1, 300),
    st.floats(1_000, 200_000),
)
def test_no_network_needs_more_for_less_work(key, precision, batch, card):
    """Inference no more than training, 16 bits of weights no more than 32, a batch no more than a
    larger one: medians, bounds and chances alike."""
    profile = bundled_memory()[key]

    def peak(task, size=batch, **changes):
        conditions = Conditions(task=task, batch_size=size, precision=precision)
        return gpu_peak(profile, replace(conditions, **changes))

    inference, larger = peak(Task.INFERENCE), peak(Task.INFERENCE, batch + 1)
    pairs = [(inference, larger), (inference, peak(Task.INFERENCE, precision=Precision.FP32))]
    if f"training/{'16bit' if precision in (Precision.AMP, Precision.BF16) else 'fp32'}" in (profile.steps):
        training = peak(Task.TRAINING, optimizer=Optimizer.SGD)
        keeping = peak(Task.INFERENCE, keeps_graph=True)
        pairs += [(inference, training), (inference, keeping), (training, peak(Task.TRAINING))]
        pairs.append((training, peak(Task.TRAINING, batch + 1, optimizer=Optimizer.SGD)))
        assert keeping.upper_mib <= training.upper_mib * _EQUAL
    if precision is not Precision.FP16:  # casts beside fp32 weights may take more than they save
        del pairs[1]
    for less, more in pairs:
        for bound in ("lower_mib", "median_mib", "upper_mib"):
            assert getattr(less, bound) <= getattr(more, bound) * _EQUAL
        assert less.probability_fits(card) >= more.probability_fits(card) - 1e-9


def test_fp16_takes_half_of_fp32_beside_the_context_and_checkpointing_saves():
    """Weights, their gradients and all that a step makes are 16 bits wide."""
    profile = bundled_profile("resnet50")
    whole, half = (
        gpu_peak(profile, training(64, precision=precision)) for precision in (Precision.FP32, Precision.FP16)
    )
    assert half.step.weights_mib == whole.step.weights_mib / 2
    beside = (entry.median_mib - entry.context_mib for entry in (half, whole))
    assert next(beside) == pytest.approx(next(beside) / 2)
    assert gpu_peak(profile, training(64, checkpointing=True)).median_mib < whole.median_mib


@given(networks, st.floats(4_000, 200_000), st.sampled_from([Task.TRAINING, Task.INFERENCE]))
def test_the_largest_batch_fits_and_the_next_one_does_not(name, card, task):
    profile, conditions = bundled_profile(name), Conditions(task=task, batch_size=1)
    largest = largest_batch(profile, conditions, card)
    if largest is None:
        assert gpu_peak(profile, conditions).verdict(card) is not Verdict.FITS
        return
    index, above = (
        gpu_peak(profile, Conditions(task=task, batch_size=size)) for size in (largest, largest + 1)
    )
    assert index.verdict(card) is Verdict.FITS
    assert above.verdict(card) is not Verdict.FITS


@given(networks, batches, st.floats(2_000, 300_000))
def test_a_verdict_and_its_probability_say_the_same(name, batch, card):
    peak = gpu_peak(bundled_profile(name), training(batch))
    probability = peak.probability_fits(card)
    assert 0 < probability < 1
    verdict = peak.verdict(card)
    assert (verdict is Verdict.FITS) <= (probability >= 0.94)
    assert (verdict is Verdict.DOES_NOT_FIT) <= (probability <= 0.06)


def test_less_is_known_where_nothing_was_calibrated():
    def width(name, **changes):
        peak = gpu_peak(bundled_profile(name), Conditions(batch_size=64, **changes))
        return peak.calibrated, peak.upper_mib / peak.median_mib

    known, known_width = width("resnet50", task=Task.TRAINING)
    inference, wider = width("resnet50", task=Task.INFERENCE)
    words, widest = width("bert_base_squad", task=Task.TRAINING)
    assert (known, inference, words) == (True, False, False)
    assert known_width < wider == pytest.approx(widest)


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(UsageError, match="preprocessing takes no GPU memory"):
        Conditions(task=Task.PREPROCESSING, batch_size=1)
    with pytest.raises(UsageError, match="in training only"):
        Conditions(task=Task.INFERENCE, batch_size=1, checkpointing=True)
    with pytest.raises(UsageError, match="was not traced as training/16bit"):
        step_memory(PROFILE, training(4, precision=Precision.BF16))
    with pytest.raises(UsageError, match="did you mean"):
        needed_card_mib(Workload(network="resnet5", task=Task.TRAINING, batch_size=1))


def facts(scale):
    return {f"{p}_{name}": scale * (1 + i) for p in ("fp32", "amp") for i, name in enumerate(FACTS)}


def test_a_row_tells_the_steps_that_were_replayed():
    key = ("torchvision", "net", "3x224x224")
    other = ("timm", "net", "seq:128")
    rows = [facts_row(key, 9.0, 8.0, {"training": facts(1.0)})]
    table = MemoryTable(table_of([*rows, facts_row(other, 7.0, 7.0, {"inference": facts(3.0)})]))
    images, words = table[key], table[other]
    assert (images.weights_mib, images.trained_mib, words.weights_mib) == (9.0, 8.0, 7.0)
    assert (images.takes_images, words.takes_images) == (True, False)
    assert set(words.steps) == {"inference/fp32", "inference/16bit"}
    assert "inference/fp32/gradients" in images.steps
    assert images.steps["training/fp32"][0] == pytest.approx((1.0, 3.0, 3.0, 6.0), rel=1e-3)


def test_larger_images_take_as_much_as_more_of_the_usual_ones():
    usual, larger = bundled_profile("resnet50"), bundled_profile("resnet50", "3x448x448")
    four, entry = usual.at("training/fp32", 128), larger.at("training/fp32", 32)
    assert entry.peak == pytest.approx(four.peak, rel=0.02)
    assert larger.weights_mib == usual.weights_mib


def test_a_bound_is_the_conformal_rank_of_the_held_out_errors():
    errors = tuple(np.linspace(-0.09, 0.1, 20).tolist())
    model = PeakModel(context_mib=0.0, errors=errors, trained_on="")
    low, high = model.bounds(0.9)
    assert high == pytest.approx(np.exp(errors[18]))  # ceil(21 * 0.9) = the 19th
    assert low == pytest.approx(np.exp(errors[1]))
    assert 0 < model.probability_below(0.0) < 0.5 < model.probability_below(1e9) < 1


# From what anchors saw: never less than it takes.


def observed_peak(batch_size=32, peak_mib=None):
    workload = Workload(network="n", task=Task.TRAINING, batch_size=batch_size)
    return Observation(workload=workload, gpu=paced_gpu("T4"), seconds=0.25, peak_mib=peak_mib)


def needed(memory, batch):
    return memory.needed_card_mib(Workload(network="n", task=Task.TRAINING, batch_size=batch))


def test_peaks_that_anchors_saw_grow_along_their_line_and_never_shrink_with_the_batch():
    memory = AnchoredMemory(((8, 1000.0), (16, 1800.0)))
    assert needed(memory, 32) - needed(memory, 16) == pytest.approx(16 * 100 * 1.1 / 0.98)
    assert needed(memory, 12) == needed(memory, 16)
    memory = peaks_of([observed_peak(batch_size=8, peak_mib=1000.0)])
    assert needed(memory, 16) > 2 * 1000
    assert needed(memory, 1) == needed(memory, 8)
    memory = peaks_of([observed_peak(*each) for each in ((8, 2000.0), (16, 1500.0), (8, 1900.0))])
    sizes = [needed(memory, batch) for batch in (1, 8, 9, 16, 17, 300)]
    assert sizes == sorted(sizes)
    assert needed(peaks_of([observed_peak()]), 64) == 0


@pytest.mark.parametrize(
    ("network", "size", "optimizer", "fits", "crashed"),
    [
        ("pix2pixhd", "36x1024x2048", "adam", {24: 1, 48: 2}, {11: 1, 24: 2}),
        ("maskrcnn_resnet50_fpn", "3x800x1333", "momentum", {6: 1, 8: 2, 24: 8, 48: 16}, {11: 8, 24: 16}),
        ("timm/nasnetalarge", "3x331x331", "momentum", {11: 8, 24: 16}, {8: 16, 11: 32}),
    ],
)
def test_lambda_s_largest_batches_of_2020_are_not_contradicted(network, size, optimizer, fits, crashed):
    """Batches by a card's GiB; Mask R-CNN's backbone was twice as deep, NASNet ran in TensorFlow."""
    profile = bundled_profile(network, size)

    def verdict(gib, batch):
        step = training(batch, optimizer=Optimizer(optimizer))
        return gpu_peak(profile, step).verdict(1024 * gib)

    assert Verdict.DOES_NOT_FIT not in {verdict(*entry) for entry in fits.items()}
    assert Verdict.FITS not in {verdict(*entry) for entry in crashed.items()}
