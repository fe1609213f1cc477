"""What a probe's layers tell of a GPU that nobody measured networks on."""

import itertools
import json

import numpy as np
import pytest
from msgspec.structs import replace

from advisor.domain import Precision, Protocol, Task, Workload
from advisor.models.performance import paced_gpu
from advisor.models.performance.gpu_observations import ProbedLayer, layers_of
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.step_times import cell_of
from advisor.models.performance.step_times_file import bundled_step_times
from tests.rows import table

CASES = table("models_cases")

TABLE, TIMES = bundled_networks(), bundled_step_times()
# An Ada card's sheet under a name, and an architecture, that nobody measured.
CARD = replace(paced_gpu("L4"), name="Unheard-of 1", architecture="Newest", compute_capability="13.0")
RATES = ("memory_gb_per_second", "fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops")
TRUTH = replace(CARD, name="The true one", **{name: 0.6 * (getattr(CARD, name) or 0.0) for name in RATES})
CONVOLUTION = ("batch", "channels_in", "channels", "side", "kernel", "groups")
SIZES = {
    "conv3x3.wide": dict(zip(CONVOLUTION, (64, 64, 64, 56, 3, 1), strict=True)),
    "conv3x3.deep": dict(zip(CONVOLUTION, (64, 256, 256, 14, 3, 1), strict=True)),
    "conv1x1.wide": dict(zip(CONVOLUTION, (64, 64, 256, 56, 1, 1), strict=True)),
    "conv1x1.deep": dict(zip(CONVOLUTION, (64, 1024, 256, 14, 1, 1), strict=True)),
    "depthwise.wide": dict(zip(CONVOLUTION, (64, 96, 96, 112, 3, 96), strict=True)),
    "linear.deep": {"batch": 64, "channels_in": 4096, "channels": 4096},
    "batch_norm.wide": {"batch": 64, "channels_in": 64, "side": 56},
    "pooling.wide": {"batch": 64, "channels_in": 64, "side": 112},
    "elementwise.wide": {"batch": 64, "channels_in": 256, "side": 56},
    "lstm.wide": {"batch": 64, "steps": 35, "units": 200},
}
GEMM = 8192


def seconds_on_the_true_card(layer):
    mean = TIMES.posterior.predict([replace(layer, gpu=TRUTH).cell()]).mean[0]
    constant = TIMES.posterior.mean[TIMES.posterior.names.index("constant")]
    return float(np.exp(mean) - np.exp(constant))


def fingerprint_of_the_true_card(noise=0.05):
    """As `advisor.sweeps.probe.session` keeps it, with the noise of a probe."""
    rng = np.random.default_rng(7)
    figures = {"gpu.device_copy": {"value": 0.6 * 240.0, "unit": "GB/s"}}
    sizes = {f"operations.{name}": each for name, each in SIZES.items()}

    def timed(name, precision, backward, each):
        layer = ProbedLayer(
            name=name, backward=backward, precision=precision, sizes=each, seconds=1.0, gpu=TRUTH
        )
        return seconds_on_the_true_card(layer) * np.exp(noise * rng.standard_normal())

    for name, precision, backward in itertools.product(SIZES, ("fp32", "amp"), (False, True)):
        way = "backward" if backward else "forward"
        seconds = 0.01 if "lstm" in name else timed(name, precision, backward, SIZES[name])
        figures[f"operations.{precision}.{name}.{way}.time"] = {"value": 1e3 * seconds, "unit": "ms"}
    for precision in ("fp32", "tf32", "fp16", "bf16"):
        each = dict.fromkeys(("batch", "channels_in", "channels"), GEMM)
        rate = 2 * GEMM**3 / timed("gemm", precision, False, each) / 1e12
        figures[f"gemm.cuda.{precision}"] = {"value": rate, "unit": "TFLOP/s"}
        sizes[f"gemm.cuda.{precision}"] = {"size": GEMM}
    return {"operations_device": "cuda", "figures": figures, "sizes": sizes}


FINGERPRINT = fingerprint_of_the_true_card()


def moved_share(network, task, precision, after):
    """Of the way from what the sheet tells to the truth."""
    workload = Workload(network=network, task=task, batch_size=64, precision=precision)

    def logs(times, gpu):
        cell = cell_of(workload, gpu, TABLE.of(workload))
        return times.posterior.predict([cell]).mean[0]

    sheet, truth = logs(TIMES, CARD), logs(TIMES, TRUTH)
    return (logs(after, CARD) - sheet) / (truth - sheet)


def test_networks_on_a_card_slower_than_its_sheet_move_more_than_half_way_to_the_truth():
    """40 % slower in everything; no network was measured on it."""
    layers = layers_of(FINGERPRINT, CARD)
    assert len(layers) > 30
    after = TIMES.condition([], TABLE, layers)
    shares = [
        moved_share(*cell, after)
        for cell in itertools.product(
            ("resnet50", "vgg16", "mobilenet_v2", "vit_b_16"),
            (Task.TRAINING, Task.INFERENCE),
            (Precision.FP32, Precision.AMP),
        )
    ]
    assert np.median(shares) > 0.5
    assert min(shares) > 0.3
    assert max(shares) < 1.2


def test_a_probed_card_is_told_as_such_and_hardly_moves_another_architecture():
    workload = Workload(network="resnet50", task=Task.TRAINING, batch_size=64, protocol=Protocol.BENCH)
    after = TIMES.condition([], TABLE, layers_of(FINGERPRINT, CARD))
    facts = TABLE.of(workload)
    notes = " ".join(map(str, after.notes(workload, CARD, facts)))
    assert "follows from what its layers took" in notes
    before = TIMES.estimates([(workload, CARD)], facts).variance[0]
    assert after.estimates([(workload, CARD)], facts).variance[0] < 0.75 * before
    after = TIMES.condition([], TABLE, layers_of(FINGERPRINT, CARD))
    workload = Workload(network="resnet50", task=Task.TRAINING, batch_size=64)
    before, now = (
        entry.estimates([(workload, paced_gpu("T4"))], TABLE.of(workload)).mean[0] for entry in (TIMES, after)
    )
    assert abs(now - before) < 0.05


def test_layers_as_short_as_their_launch_are_left_out():
    short = json.loads(json.dumps(FINGERPRINT))
    short["figures"]["operations.amp.linear.deep.forward.time"]["value"] = 0.03
    names = [(entry.name, entry.precision, entry.backward) for entry in layers_of(short, CARD)]
    assert ("linear.deep", "amp", False) not in names
    assert not any(name.startswith("lstm") for name, *_ in names)


@pytest.mark.parametrize("changes", CASES["a_fingerprint_of_before_or_a_damaged_one_tells_nothing"])
def test_a_fingerprint_of_before_or_a_damaged_one_tells_nothing(changes):
    damaged = {**FINGERPRINT, **changes}
    if "operations_device" in changes:
        assert all(entry.name in ("gemm", "copy") for entry in layers_of(damaged, CARD))
    else:
        assert layers_of(damaged, CARD) == []
