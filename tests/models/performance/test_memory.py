"""GPU memory: exact parts are exact, more never takes less, and a verdict keeps to its bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Precision, Task, Workload
from advisor.errors import UsageError
from models.performance.memory import (
    Conditions,
    MemoryProfile,
    Optimizer,
    Verdict,
    bundled_profiles,
    gpu_peak,
    largest_batch,
    needed_card_mib,
    step_memory,
)
from models.zoo.networks import NETWORKS

PROFILE = MemoryProfile(
    name="small",
    weights_mib=110.0,
    trained_mib=100.0,
    traced="fake",
    steps={
        "training/fp32": ((2, 20.0, 120.0), (16, 160.0, 170.0), (128, 1280.0, 1290.0)),
        "inference/fp32": ((2, 1.0, 10.0), (128, 64.0, 640.0)),
    },
)
batches = st.integers(1, 4096)
networks = st.sampled_from(sorted(bundled_profiles()))


def training(batch, **changes):
    return Conditions(**{"task": Task.TRAINING, "batch_size": batch, **changes})


def test_every_network_of_the_zoo_is_profiled_in_every_way():
    """What `advisor memory` can be asked of a built-in network needs no torch."""
    assert set(bundled_profiles()) == set(NETWORKS)
    for profile in bundled_profiles().values():
        assert len(profile.steps) == 8, profile.name


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
    held = sum(
        value.nbytes
        for state in made.state.values()
        for value in state.values()
        if torch.is_tensor(value) and value.ndim
    )
    mib = sum(one.nbytes for one in layer.parameters()) / 2**20
    profile = MemoryProfile("one", mib, mib, "fake", PROFILE.steps)
    parts = step_memory(profile, training(4, optimizer=optimizer))
    assert parts.optimizer_mib == pytest.approx(held / 2**20)
    assert parts.gradients_mib == pytest.approx(mib)


def test_parts_at_a_traced_batch_add_up_to_the_trace():
    parts = step_memory(PROFILE, training(128))
    assert parts.total_mib == pytest.approx(110 + 100 + 1290)
    assert (parts.gradients_mib, parts.optimizer_mib) == (100.0, 100.0)


def test_adam_needs_a_copy_in_its_update_where_activations_are_few():
    """torch updates all tensors at once; at batch 1 that is the peak."""
    plain, adam = (step_memory(PROFILE, training(1, optimizer=one)) for one in ("momentum", "adam"))
    assert adam.optimizer_mib == 200.0
    assert adam.temporary_mib + adam.saved_mib > plain.temporary_mib + plain.saved_mib


@given(networks, batches, st.sampled_from(list(Precision)), st.sampled_from(list(Optimizer)))
def test_more_rows_never_take_less_and_bounds_stand_in_order(name, batch, precision, optimizer):
    profile = bundled_profiles()[name]
    one, two = (
        gpu_peak(profile, training(size, precision=precision, optimizer=optimizer))
        for size in (batch, batch + 1)
    )
    assert one.upper_mib <= two.upper_mib * (1 + 1e-9)
    assert one.lower_mib <= one.median_mib <= one.upper_mib
    total = one.step.total_mib + one.context_mib + one.overhead_mib
    assert total == pytest.approx(one.median_mib)
    assert one.step.saved_mib >= 0 <= one.step.temporary_mib


@given(networks, st.floats(4_000, 200_000), st.sampled_from([Task.TRAINING, Task.INFERENCE]))
def test_the_largest_batch_fits_and_the_next_one_does_not(name, card, task):
    profile, conditions = bundled_profiles()[name], Conditions(task=task, batch_size=1)
    found = largest_batch(profile, conditions, card)
    if found is None:
        assert gpu_peak(profile, conditions).verdict(card) is not Verdict.FITS
        return
    at, above = (
        gpu_peak(profile, Conditions(task=task, batch_size=size)) for size in (found, found + 1)
    )
    assert at.verdict(card) is Verdict.FITS
    assert above.verdict(card) is not Verdict.FITS


@given(networks, batches, st.floats(2_000, 300_000))
def test_a_verdict_and_its_probability_say_the_same(name, batch, card):
    peak = gpu_peak(bundled_profiles()[name], training(batch))
    probability = peak.probability_fits(card)
    assert 0 < probability < 1
    verdict = peak.verdict(card)
    assert (verdict is Verdict.FITS) <= (probability >= 0.94)
    assert (verdict is Verdict.DOES_NOT_FIT) <= (probability <= 0.06)


def test_less_is_known_where_nothing_was_calibrated():
    profile = bundled_profiles()["resnet50"]
    known, widened = (
        gpu_peak(profile, training(64, precision=one)) for one in (Precision.AMP, Precision.FP32)
    )
    assert known.calibrated
    assert not widened.calibrated
    assert widened.upper_mib / widened.median_mib > known.upper_mib / known.median_mib


def test_16_bits_checkpointing_and_no_grad_save_memory():
    profile = bundled_profiles()["resnet50"]
    plain = gpu_peak(profile, training(64)).median_mib
    assert gpu_peak(profile, training(64, precision=Precision.AMP)).median_mib < plain
    assert gpu_peak(profile, training(64, checkpointing=True)).median_mib < plain
    careful, careless = (
        Conditions(task=Task.INFERENCE, batch_size=64, keeps_graph=kept) for kept in (False, True)
    )
    assert gpu_peak(profile, careful).median_mib < gpu_peak(profile, careless).median_mib


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(UsageError, match="preprocessing takes no GPU memory"):
        Conditions(task=Task.PREPROCESSING, batch_size=1)
    with pytest.raises(UsageError, match="in training only"):
        Conditions(task=Task.INFERENCE, batch_size=1, checkpointing=True)
    with pytest.raises(UsageError, match="was not traced as training/16bit"):
        step_memory(PROFILE, training(4, precision=Precision.BF16))
    with pytest.raises(UsageError, match="did you mean resnet50"):
        needed_card_mib(Workload(network="resnet5", task=Task.TRAINING, batch_size=1))
    with pytest.raises(UsageError, match="confidence must lie"):
        gpu_peak(PROFILE, training(4), confidence=1.0)
