"""What an anchor on one GPU says of all others, and how sure that is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.domain import Provenance
from models.performance.anchoring.calibration import pairs_of, ratio_residuals
from models.performance.anchoring.widths import GPU, NETWORK, UNKNOWN
from models.performance.published import PublishedRow
from models.performance.step_work import Stack

from .anchors import BATCHES, GPUS, MODEL, OWN, heard, modelled_seconds, trial

TARGETS = ("A10G", "L4", "V100-SXM2-16GB", "H100-SXM5-80GB", "T4")
LIKENESSES = st.sampled_from(["resnet50", "vgg16", None])


def rate(rates, gpu, batch=32, confidence=0.9):
    return rates.rates(GPUS[gpu], [batch], confidence)[0]


def width(found):
    return found.widths.lower + found.widths.upper


@settings(max_examples=25, deadline=None)
@given(st.floats(0.2, 5), st.sampled_from(TARGETS), LIKENESSES)
def test_anchors_k_times_as_slow_make_every_rate_k_times_as_slow(factor, target, like):
    trials = [trial(batch_size=8, step_seconds=0.08), trial(batch_size=64, step_seconds=0.45)]
    slower = [replace(one, step_seconds=factor * one.step_seconds) for one in trials]
    before, after = rate(heard(*trials, like=like), target), rate(heard(*slower, like=like), target)
    assert after.samples_per_second == pytest.approx(before.samples_per_second / factor)


@settings(max_examples=25, deadline=None)
@given(LIKENESSES, st.floats(1, 4), st.floats(1, 4))
def test_a_better_card_of_one_architecture_is_never_slower(like, compute, bandwidth):
    base = replace(GPUS["A10"], name="Card one")
    better = replace(
        base,
        name="Card two",
        fp32_tflops=compute * base.fp32_tflops,
        tf32_tflops=compute * base.tf32_tflops,
        memory_gb_per_second=bandwidth * base.memory_gb_per_second,
    )
    rates = heard(trial(), like=like)
    slow, fast = (rates.rates(gpu, BATCHES, 0.9) for gpu in (base, better))
    for one, other in zip(slow, fast, strict=True):
        assert other.samples_per_second >= one.samples_per_second * (1 - 1e-9)


def test_the_anchors_own_step_is_told_as_it_was_measured():
    found = rate(heard(trial(step_seconds=0.25), like="resnet50"), "T4")
    assert found.samples_per_second == pytest.approx(32 / 0.25)
    assert found.provenance is Provenance.MEASURED
    assert found.notes == ()


def test_the_order_of_anchors_does_not_matter():
    trials = [trial(), trial(batch_size=64, step_seconds=0.6), trial("L4", step_seconds=0.2)]
    one, other = heard(*trials, like="vgg16"), heard(*trials[::-1], like="vgg16")
    assert rate(one, "A10G").samples_per_second == pytest.approx(
        rate(other, "A10G").samples_per_second
    )


def test_an_anchor_narrows_what_is_said_of_a_network_that_nobody_measured():
    found = rate(heard(trial("V100-SXM2-16GB"), like="resnet50"), "L4")
    rates = replace(MODEL.gpu_rates, networks=frozenset())
    workload = heard(trial(), like="resnet50").workload
    without = rates.widths(replace(workload, network="resnet50"), GPUS["L4"], 0.9)
    assert found.widths.lower < without.lower
    assert found.widths.upper < without.upper
    assert found.provenance is Provenance.MODELLED


def test_knowing_less_of_a_network_is_never_surer():
    known = rate(heard(trial("V100-SXM2-16GB"), like="resnet50"), "L4")
    unknown = rate(heard(trial("V100-SXM2-16GB")), "L4")
    assert unknown.widths.lower > known.widths.lower
    assert unknown.widths.upper > known.widths.upper
    assert "is not known" in unknown.notes[0]


def test_a_trial_on_the_target_itself_makes_it_surer():
    seconds = modelled_seconds("resnet50", "L4", [32])[0]
    alone = rate(heard(trial(), like="resnet50"), "L4")
    both = rate(heard(trial(), trial("L4", step_seconds=seconds), like="resnet50"), "L4")
    assert width(both) < 0.7 * width(alone)


def test_more_anchors_that_agree_are_never_less_sure():
    def agreeing(*gpus):
        seconds = {gpu: modelled_seconds("resnet50", gpu, [32])[0] for gpu in gpus}
        return heard(*(trial(g, step_seconds=s) for g, s in seconds.items()), like="resnet50")

    assert width(rate(agreeing("V100-SXM2-16GB", "RTX 3090"), "L4")) <= width(
        rate(agreeing("V100-SXM2-16GB"), "L4")
    )


def test_batch_sizes_tell_what_an_unknown_network_is_like():
    seconds = modelled_seconds("vgg16", "T4", BATCHES)
    trials = [trial(batch_size=b, step_seconds=s) for b, s in zip(BATCHES, seconds, strict=True)]
    weights = heard(*trials).likeness.weights
    first = heard(trials[0]).likeness.weights
    assert weights["vgg16"] > first["vgg16"]
    assert sum(weights.values()) == pytest.approx(1)


def test_anchors_that_contradict_each_other_are_named_and_widen():
    good = modelled_seconds("resnet50", "V100-SXM2-16GB", [32])[0]
    other = modelled_seconds("resnet50", "RTX 3090", [32])[0]
    agreed = heard(
        trial("V100-SXM2-16GB", step_seconds=good),
        trial("RTX 3090", step_seconds=other),
        like="resnet50",
    )
    contradicted = heard(
        trial("V100-SXM2-16GB", step_seconds=good),
        trial("RTX 3090", step_seconds=8 * other),
        like="resnet50",
    )
    assert agreed.contradicting == ()
    assert len(contradicted.contradicting) == 2
    assert rate(contradicted, "L4").widths.lower > 2 * rate(agreed, "L4").widths.lower


def test_a_step_far_from_what_the_gpu_takes_is_not_trusted_for_others():
    seconds = modelled_seconds("resnet50", "V100-SXM2-16GB", [32])[0]
    usual, odd = (
        heard(trial("V100-SXM2-16GB", step_seconds=k * seconds), like="resnet50") for k in (1, 20)
    )
    assert usual.odd == 1
    assert odd.odd > 5
    assert rate(odd, "L4").widths.lower > rate(usual, "L4").widths.lower + 1
    assert width(rate(odd, "V100-SXM2-16GB")) == pytest.approx(width(rate(usual, "V100-SXM2-16GB")))


def test_a_batch_far_from_the_anchors_is_said_and_less_sure():
    rates = heard(trial(batch_size=1, step_seconds=0.02), like="resnet50")
    near, far = rate(rates, "L4", batch=1), rate(rates, "L4", batch=256)
    assert any("beyond the anchor's batch 1" in note for note in far.notes)
    assert not any("beyond" in note for note in near.notes)


def test_without_calibrated_ratios_the_wider_pools_of_older_models_count():
    rates = heard(trial("V100-SXM2-16GB"), like="resnet50")
    pools = {
        name: values
        for name, values in rates.modelled.residuals.items()
        if name not in (NETWORK, GPU, UNKNOWN)
    }
    older = replace(rates, modelled=replace(rates.modelled, residuals=pools))
    assert rate(older, "L4").widths.calibrated
    assert width(rate(older, "L4")) > 0


def test_ratios_pair_one_network_on_two_gpus_and_nothing_else():
    def row(gpu, network="resnet50", batch=16, seconds=0.1, stack="pytorch-2020"):
        stack = Stack(stack)
        t = trial(gpu)
        return PublishedRow(stack, t.gpu, network, t.task, t.precision, batch, seconds)

    rows = [row("T4"), row("L4"), row("L4", batch=32), row("L4", stack="mxnet"), row("L4", "vgg16")]
    pairs = list(pairs_of(rows))
    assert {(p.anchor.gpu.name, p.target.gpu.name) for p in pairs} == {("T4", "L4"), ("L4", "T4")}
    residuals = ratio_residuals(pairs, MODEL.gpu_rates.parameters, MODEL.table)
    # There and back is off by the same, the other way round.
    assert residuals.sum() == pytest.approx(0)
    assert np.abs(residuals).max() > 0


def test_the_networks_name_stands_in_the_note():
    assert rate(heard(trial(), like="vgg16"), "A10G").notes[0].startswith(f"{OWN} on A10G follows")
