"""Several GPUs of a host: what each keeps of its rate, and how that enters a prediction."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import STEP_SIGMA, DiskRate, Node, Precision, Provenance, Stage, Task, Workload
from advisor.domain import ScalingObservation as Row
from advisor.infra.build.fitting.bundled_model import PUBLISHED_FOLDER
from advisor.infra.build.fitting.scaling import fit_scaling, read_scaling, scaling_document
from advisor.models.bayes import gaussian_multiplier
from advisor.models.performance import load_model, paced_gpu, scaling
from advisor.models.performance.scaling import (
    LATENCY_SECONDS,
    PAYLOAD_SHARE,
    all_reduce_seconds,
    bundled_scaling,
)
from advisor.sweeps.anchors import read_anchor

from .test_prediction import GPUS, machine, predict, workload

any_task = st.sampled_from(list(Task))
on_gpus = st.sampled_from((Task.TRAINING, Task.INFERENCE))
gpus = st.sampled_from(GPUS)


@given(on_gpus, gpus, st.integers(1, 64), st.sampled_from((0.5, 0.8, 0.9)), st.floats(0, 20))
def test_efficiency_is_a_share_that_never_rises_with_the_gpus_or_the_gradients(
    task, gpu, count, confidence, pace
):
    model, card = bundled_scaling(), paced_gpu(gpu)
    entry, more = (model.of(task, card, n, confidence).with_pace(pace) for n in (count, count + 1))
    assert 0 < more.efficiency <= entry.efficiency <= 1
    assert entry.with_pace(2 * pace).efficiency <= entry.efficiency
    assert entry.efficiency * np.exp(entry.widths.upper) <= 1 + 1e-12
    assert more.speed_up > entry.speed_up
    assert more.widths.lower >= entry.widths.lower


def test_one_gpu_scales_nothing_and_apart_nodes_share_nothing_but_gradients():
    model, card = bundled_scaling(), paced_gpu("T4")
    for alone in ((Task.TRAINING, card, 1), (Task.TRAINING, None, 4), (Task.PREPROCESSING, card, 4)):
        assert model.of(*alone, 0.9) is scaling.ALONE
    before = bundled_scaling().of(Task.TRAINING, paced_gpu("T4"), 4, 0.9)
    other, between = measured_on("V100", 4, 0.5), replace(measured_on("T4", 4, 0.5), nodes=2)
    after = before.given([other, between], paced_gpu("T4"), 0.9)
    assert after.efficiency == pytest.approx(before.efficiency)
    # With a network beyond any, each keeps its own rate.
    request = Workload(network="resnet50", task=Task.TRAINING, batch_size=64)
    many, entry = (load_model().predict([(request, of_t4(nodes, 1e9))])[0] for nodes in (8, 1))
    assert many.median == pytest.approx(entry.median, rel=0.01)
    samples = replace(request, task=Task.PREPROCESSING)
    many, entry = (load_model().predict([(samples, of_t4(nodes, 10.0))])[0] for nodes in (8, 1))
    assert many == entry
    # Nor does a network of unknown size, whose anchor states no weights.
    law = scaling.node_law(())
    assert law.efficiency(0.1, 0.0, 4, 25.0, 0.9)[0] == pytest.approx(1.0, abs=0.01)
    # Each sends half of them, adds, and sends half of the sums: as many bytes as it has.
    wire_seconds = 8e9 / (PAYLOAD_SHARE * 10e9)
    assert all_reduce_seconds(1e9, 2, 10.0) == pytest.approx(wire_seconds + 2 * LATENCY_SECONDS)


@given(any_task, gpus, st.integers(1, 256), st.integers(2, 192), st.floats(10, 4000), st.integers(1, 15))
def test_more_gpus_on_the_same_host_are_never_slower(task, gpu, batch, vcpus, read, count):
    """Its vCPUs and its disk are the same; only RAM for one more process is taken."""
    question = workload(task=task, batch_size=batch)
    host = machine(gpu, vcpus, read, memory_mib=4_000_000)
    few, many = (predict(question, replace(host, gpu_count=n)) for n in (count, count + 1))
    assert many.median >= few.median * (1 - 1e-12)
    assert many.lower >= few.lower * (1 - 1e-12)
    assert many.stage_rates[Stage.HOST] == few.stage_rates[Stage.HOST]
    assert many.stage_rates[Stage.STORAGE] == few.stage_rates[Stage.STORAGE]


def test_cards_that_cannot_reach_each_other_are_kept_apart_and_nvlink_carries_large_gradients():
    kinds = dict.fromkeys(("RTX 3090", "GTX 1080 Ti"), "training/consumer")
    kinds |= dict.fromkeys(("Quadro RTX 8000", "RTX A6000", "RTX PRO 6000", "T4"), "training/pcie")
    kinds["A100-SXM4-40GB"] = "training/nvlink"
    assert {name: scaling.kind_of(Task.TRAINING, name) for name in kinds} == kinds
    assert scaling.kind_of(Task.INFERENCE, "A100-SXM4-40GB") == "inference"
    question, host = workload(), machine()
    entry, four = (load_model().host_memory_mib(question, replace(host, gpu_count=n)) for n in (1, 4))
    assert four > entry + 3000
    # NVIDIA's BERT and Transformer examples keep 0.85 or more on eight GPUs of a board.
    model = bundled_scaling()
    board, bus, apart = (
        model.of(Task.TRAINING, paced_gpu(gpu), 8, 0.9).with_pace(4.0).efficiency
        for gpu in ("A100-SXM4-40GB", "A10G", "RTX 3090")
    )
    assert board > 0.83 > bus > 0.6 > apart


def test_what_ships_is_what_the_rows_give_and_a_predictor_knows_a_measured_node():
    fitted = scaling_document(fit_scaling(read_scaling(PUBLISHED_FOLDER / "scaling.csv")))
    shipped = bundled_scaling()
    for name in ("exponents", "seconds_per_gb", "residuals", "largest", "gradient_gb_per_second"):
        assert fitted[name] == getattr(shipped, name), name
    question = workload(task=Task.TRAINING, batch_size=64)
    host = replace(machine("T4", 96, 4000, memory_mib=1_000_000), gpu_count=4)
    model = load_model()
    slow = replace(model, scaling_rows=(measured_on("T4", 4, 0.5),))
    (before,), (after,) = model.predict([(question, host)]), slow.predict([(question, host)])
    assert after.gpu_efficiency < 0.7 < before.gpu_efficiency
    assert after.median < before.median


def measured_on(gpu, ranks, efficiency):
    seconds = {"one_step_seconds": 0.2, "step_seconds": 0.2 / efficiency, "all_reduce_seconds": 0.05}
    group = {"gpu": paced_gpu(gpu), "backend": "nccl", "ranks": ranks, "nodes": 1, "gbit_per_second": None}
    return Row(**group, gradient_bytes=1e8, **seconds)


@pytest.mark.parametrize("efficiency", [0.6, 0.8, 0.99, 1.02])
def test_what_was_measured_of_such_gpus_moves_their_scaling_and_narrows_it(efficiency):
    shipped = bundled_scaling().of(Task.TRAINING, paced_gpu("T4"), 4, 0.9)
    measured = measured_on("T4", 4, efficiency)
    pace = measured.gradient_bytes / measured.one_step_seconds / 1e9
    before = shipped.with_pace(pace)
    after = shipped.given([measured], paced_gpu("T4"), 0.9).with_pace(pace)
    low, high = sorted((before.efficiency, min(1.0, efficiency)))
    assert low <= after.efficiency <= high
    assert abs(after.efficiency - min(1.0, efficiency)) < abs(before.efficiency - efficiency)
    assert after.widths.lower < before.widths.lower
    assert after.efficiency * np.exp(after.widths.upper) <= 1 + 1e-12
    # Two GPUs tell four nearly as well: exponents of cards differ by 0.03 a doubling.
    fewer = shipped.given([measured_on("T4", 2, efficiency)], paced_gpu("T4"), 0.9)
    assert fewer.widths.lower < gaussian_multiplier(0.9) * np.hypot(STEP_SIGMA, 0.03)


# The all-reduce between nodes: bytes, ranks and the network's rate.


# What `tests/host/nodes.py` measured on 2026-11-23: four network namespaces, gloo, real TCP.
FILES = sorted((Path(__file__).parents[2] / "data" / "nodes").glob("*.json"))

BYTES, RATES = st.floats(1.0, 1e12), st.floats(0.01, 4000.0)


def measured(path):
    """The row of a file, and its workload's network and batch."""
    (row,) = read_anchor(path, paced_gpu, Precision.FP32).scaling
    return row


ROWS = [measured(path) for path in FILES]


def lower_bound(law, row, confidence=0.9):
    step = row.one_step_seconds, row.gradient_bytes
    median, lower, _ = law.efficiency(*step, row.ranks, row.gbit_per_second, confidence)
    return median * np.exp(-lower)


@pytest.mark.parametrize("row", ROWS, ids=[path.stem for path in FILES])
def test_the_model_tells_what_was_measured_within_a_tenth(row):
    model = all_reduce_seconds(row.gradient_bytes, row.ranks, row.gbit_per_second)
    assert float(model) == pytest.approx(row.all_reduce_seconds, rel=0.1)


@pytest.mark.parametrize("row", ROWS, ids=[path.stem for path in FILES])
@pytest.mark.parametrize("any_rows", [(), ROWS[:1], ROWS], ids=["unmeasured", "one row", "all any_rows"])
def test_no_more_efficiency_is_promised_than_was_measured(row, any_rows):
    """With no row, with one of another network or link, and with all of them."""
    assert lower_bound(scaling.node_law(any_rows), row) <= row.efficiency


any_rows = st.builds(
    Row,
    gpu=st.none(),
    backend=st.sampled_from(["gloo", "nccl"]),
    ranks=st.integers(2, 64),
    nodes=st.integers(2, 8),
    gbit_per_second=st.floats(0.1, 400),
    gradient_bytes=st.floats(1e6, 1e9),
    one_step_seconds=st.floats(0.01, 10),
    step_seconds=st.floats(10, 1000),
    all_reduce_seconds=st.floats(0.001, 100),
)


@given(st.lists(any_rows, min_size=1, max_size=3), st.sampled_from((0.5, 0.8, 0.9, 0.99)))
def test_no_more_is_promised_than_was_measured_whatever_that_was(measured, confidence):
    """Networks far below their rate, steps far longer than their parts, any_rows that disagree."""
    law = scaling.node_law(measured)
    for row in measured:
        assert 0 < lower_bound(law, row, confidence) <= row.efficiency * (1 + 1e-9)


def of_t4(nodes, gbit_per_second):
    host = {"vcpus": 16, "physical_cores": 8, "memory_mib": 65_536, "disk": DiskRate(type="any")}
    return Node(**host, gpu=paced_gpu("T4"), nodes=nodes, gbit_per_second=gbit_per_second)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_the_predictor_promises_no_rate_above_the_measured_one(path):
    """All of four nodes, and one after the other."""
    row, model = measured(path), load_model()
    request = Workload(network=path.stem.partition("-")[0], task=Task.TRAINING, batch_size=32)
    for any_rows in ((), tuple(ROWS)):
        asking = replace(model, scaling_rows=any_rows)
        (expected,) = asking.predict([(request, of_t4(row.nodes, row.gbit_per_second))])
        assert row.nodes * expected.lower <= row.nodes * request.batch_size / row.step_seconds
        assert expected.bottleneck is Stage.NETWORK
        assert expected.provenance is Provenance.MODELLED
        words = " ".join(map(str, expected.extrapolation))
        assert ("nobody measured their network" in words) == (not any_rows)
