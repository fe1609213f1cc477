"""A model survives the way to disk, a bad file is told in one line; what a probe's layers tell of a GPU."""

import itertools
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import Observation, Precision, Protocol, Stack, Task, Workload
from advisor.errors import DataError
from advisor.models.performance import load_model, paced_gpu, save_model
from advisor.models.performance.fit import with_gpu
from advisor.models.performance.gpu_observations import GpuObservations, ProbedLayer, layers_of
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.persistence import bundled_step_times, content_id, to_document
from advisor.models.performance.step_times import cell_of
from tests.models.performance.test_prediction import machine, workload
from tests.rows import table


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.json"
    save_model(load_model(), path)
    return path


def test_a_saved_model_is_the_same_and_answers_without_its_ranges(saved):
    """Every number, and so the id, comes back unchanged."""
    assert to_document(load_model(saved)) == to_document(load_model())
    assert load_model(saved).id == load_model().id
    old = load_model(rewritten(saved, lambda document: document["pipeline"].pop("measured")))
    (prediction,) = old.predict([(workload(), machine())])
    expected = {distance.subject for distance in old.distances(workload(), machine(), prediction)}
    assert expected == {"gpu", "network", "cpu", "host_to_gpu"}


def test_what_was_measured_of_gpus_is_kept_and_told_again(tmp_path):
    """The file has the steps and layers, not what follows from them."""
    gpu = paced_gpu("T4")
    usual = Workload(network="resnet50", task=Task.TRAINING, batch_size=8)
    workload = replace(usual, stack=Stack.COMPILE, input="3x96x96")
    step = Observation(workload=workload, gpu=gpu, seconds=0.1, sigma=0.05, origin="trial a")
    named = {"name": "linear.deep", "backward": True, "precision": "amp", "sizes": SIZES["linear.deep"]}
    layer = ProbedLayer(**named, seconds=0.004, gpu=gpu)
    model = with_gpu(load_model(), GpuObservations((step,), (layer,)), load_model().step_times)
    save_model(model, tmp_path / "own.json")
    read = load_model(tmp_path / "own.json")
    assert read.gpu_observations == model.gpu_observations
    assert read.id == model.id != load_model().id
    assert to_document(read) == to_document(model)
    now, before, after = (entry.predict_gpu([usual], gpu)[0].median for entry in (model, load_model(), read))
    assert after == pytest.approx(now, rel=1e-12)
    assert after != before


def rewritten(path, change):
    """The same file with a changed content, and an id that vouches for it."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document | {"id": content_id(document)}))
    return path


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        *(("gpu_observations", {"steps": steps}) for steps in ([{}], None)),
        ("gpu_observations", {"layers": [{"gpu": "T4"}]}),
        ("gpu_observations", {"gpus": {"T4": {"name": 1}}}),
        *(("pipeline", {"measured": {"vcpus": span}}) for span in ([2, 1], [0, 1], 3, [1])),
        ("pipeline", {"measured": {"moons": [1, 2]}}),
        # Steps on a CPU that cannot be: of no rows, on less than no core, in no time.
        *(
            ("pipeline", {"cpu_steps": [["resnet50", None, "inference", *numbers]]})
            for numbers in ((0, 4.0, 0.5), (8, -1.0, 0.5), (8, 4.0, 0.0))
        ),
    ],
)
def test_observations_and_ranges_that_are_none_are_told(saved, part, damage):
    with pytest.raises(DataError, match=r"no performance model.*advisor fit"):
        load_model(rewritten(saved, lambda document: document[part].update(damage)))


@given(st.integers(0, 2_000))
def test_any_cut_file_is_told_as_no_model(cut):
    """A file that ends too early never loads and never shows a traceback's error."""
    text = json.dumps(to_document(load_model()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cut.json"
        path.write_text(text[:cut])
        with pytest.raises(DataError, match="advisor fit"):
            load_model(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"error_percent": 1.0}, r"damaged.*advisor fit"),
        ({"schema": "advisor.performance/99"}, r"advisor\.performance/99.*advisor fit"),
    ],
)
def test_a_changed_number_is_noticed_and_another_format_named_with_the_way_out(saved, changes, words):
    saved.write_text(json.dumps(json.loads(saved.read_text()) | changes))
    with pytest.raises(DataError, match=words):
        load_model(saved)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"absent\.json cannot be read"):
        load_model(tmp_path / "absent.json")


CASES = table("models_cases")

TABLE, TIMES = bundled_networks(), bundled_step_times()
# An Ada card's sheet under a name, and an architecture, that nobody measured.
CARD = replace(paced_gpu("L4"), name="Unheard-of 1", architecture="Newest", compute_capability="13.0")
RATES = ("memory_gb_per_second", "fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops")
TRUTH = replace(CARD, name="The true one", **{name: 0.6 * (getattr(CARD, name) or 0.0) for name in RATES})
CONVOLUTION = ("batch", "channels_in", "channels", "side", "kernel", "groups")
CONVOLUTIONS = {
    "conv3x3.wide": (64, 64, 64, 56, 3, 1),
    "conv3x3.deep": (64, 256, 256, 14, 3, 1),
    "conv1x1.wide": (64, 64, 256, 56, 1, 1),
    "conv1x1.deep": (64, 1024, 256, 14, 1, 1),
    "depthwise.wide": (64, 96, 96, 112, 3, 96),
}
SIZES = {
    **{name: dict(zip(CONVOLUTION, sizes, strict=True)) for name, sizes in CONVOLUTIONS.items()},
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
        of = {"name": name, "backward": backward, "precision": precision, "sizes": each}
        layer = ProbedLayer(**of, seconds=1.0, gpu=TRUTH)
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
    tasks, precisions = (Task.TRAINING, Task.INFERENCE), (Precision.FP32, Precision.AMP)
    cells = itertools.product(("resnet50", "vgg16", "mobilenet_v2", "vit_b_16"), tasks, precisions)
    shares = [moved_share(*cell, after) for cell in cells]
    assert np.median(shares) > 0.5
    assert 0.3 < min(shares) <= max(shares) < 1.2


def test_a_probed_card_is_told_as_such_and_hardly_moves_another_architecture():
    workload = Workload(network="resnet50", task=Task.TRAINING, batch_size=64, protocol=Protocol.BENCH)
    after = TIMES.condition([], TABLE, layers_of(FINGERPRINT, CARD))
    facts = TABLE.of(workload)
    notes = " ".join(map(str, after.notes(workload, CARD, facts)))
    assert "follows from what its layers took" in notes
    before = TIMES.estimates([(workload, CARD)], facts).variance[0]
    assert after.estimates([(workload, CARD)], facts).variance[0] < 0.75 * before
    other = [(replace(workload, protocol=Protocol.SCRIPT), paced_gpu("T4"))]
    before, now = (entry.estimates(other, facts).mean[0] for entry in (TIMES, after))
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
