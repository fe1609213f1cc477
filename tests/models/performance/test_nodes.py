"""The all-reduce between nodes: bytes, ranks and the network's rate."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from advisor.domain import DiskRate, Node, Precision, Provenance, ScalingObservation, Stage, Task, Workload
from advisor.models.performance import load_model, paced_gpu
from advisor.models.performance.nodes import LATENCY_SECONDS, PAYLOAD_SHARE, all_reduce_seconds, node_law
from advisor.sweeps.anchors.files import read_anchor

# What `tests/host/nodes.py` measured on 2026-11-23: four network namespaces, gloo, real TCP.
FILES = sorted((Path(__file__).parents[2] / "data" / "nodes").glob("*.json"))

BYTES, RATES = st.floats(1.0, 1e12), st.floats(0.01, 4000.0)


def test_two_ranks_send_their_gradients_once():
    """Each sends half of them, adds, and sends half of the sums: as many bytes as it has."""
    wire_seconds = 8e9 / (PAYLOAD_SHARE * 10e9)
    assert all_reduce_seconds(1e9, 2, 10.0) == pytest.approx(wire_seconds + 2 * LATENCY_SECONDS)


@given(size=BYTES, ranks=st.integers(2, 512), rate=RATES)
def test_more_ranks_or_bytes_never_take_less(size, ranks, rate):
    one = all_reduce_seconds(size, ranks, rate)
    assert all_reduce_seconds(size, ranks + 1, rate) > one
    assert all_reduce_seconds(2 * size, ranks, rate) > one
    assert all_reduce_seconds(size, ranks, 2 * rate) < one


@given(size=BYTES, rate=RATES)
def test_bytes_on_the_wire_stay_below_twice_the_gradients(size, rate):
    """However many ranks: that is what makes the ring bandwidth-optimal."""
    ranks = np.array([2.0, 10.0, 1000.0])
    transfer = all_reduce_seconds(size, ranks, rate) - 2 * (ranks - 1) * LATENCY_SECONDS
    assert (transfer <= 2 * 8 * size / (PAYLOAD_SHARE * rate * 1e9) * (1 + 1e-6) + 1e-9).all()


def measured(path):
    """The row of a file, and its workload's network and batch."""
    (row,) = read_anchor(path, paced_gpu, Precision.FP32).scaling
    return row


ROWS = [measured(path) for path in FILES]


def lower_bound(law, row, confidence=0.9):
    """The efficiency that is promised where a row was measured."""
    kept = law.efficiency(
        row.one_step_seconds, row.gradient_bytes, row.ranks, row.gbit_per_second, confidence
    )
    return kept.median * np.exp(-kept.lower_width)


@pytest.mark.parametrize("row", ROWS, ids=[path.stem for path in FILES])
def test_the_model_tells_what_was_measured_within_a_tenth(row):
    model = all_reduce_seconds(row.gradient_bytes, row.ranks, row.gbit_per_second)
    assert float(model) == pytest.approx(row.all_reduce_seconds, rel=0.1)


@pytest.mark.parametrize("row", ROWS, ids=[path.stem for path in FILES])
@pytest.mark.parametrize("rows", [(), ROWS[:1], ROWS], ids=["unmeasured", "one row", "all rows"])
def test_no_more_efficiency_is_promised_than_was_measured(row, rows):
    """With no row, with one of another network or link, and with all of them."""
    assert lower_bound(node_law(rows), row) <= row.efficiency


rows = st.builds(
    ScalingObservation,
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


@given(st.lists(rows, min_size=1, max_size=3), st.sampled_from((0.5, 0.8, 0.9, 0.99)))
def test_no_more_is_promised_than_was_measured_whatever_that_was(measured, confidence):
    """Networks far below their rate, steps far longer than their parts, rows that disagree."""
    law = node_law(measured)
    for row in measured:
        assert 0 < lower_bound(law, row, confidence) <= row.efficiency * (1 + 1e-9)


def of_t4(nodes, gbit_per_second):
    """Nodes with a T4 of the emulated pace each."""
    return Node(
        vcpus=16,
        physical_cores=8,
        memory_mib=65_536,
        disk=DiskRate(type="any"),
        gpu=paced_gpu("T4"),
        nodes=nodes,
        gbit_per_second=gbit_per_second,
    )


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_the_predictor_promises_no_rate_above_the_measured_one(path):
    """All of four nodes, and one after the other."""
    row, model = measured(path), load_model()
    asked = Workload(network=path.stem.partition("-")[0], task=Task.TRAINING, batch_size=32)
    for rows in ((), tuple(ROWS)):
        asking = changed(model, scaling_rows=rows)
        (told,) = asking.predict([(asked, of_t4(row.nodes, row.gbit_per_second))])
        assert row.nodes * told.lower <= row.nodes * asked.batch_size / row.step_seconds
        assert told.bottleneck is Stage.NETWORK
        assert told.provenance is Provenance.MODELLED
        words = " ".join(map(str, told.extrapolation))
        assert ("nobody measured their network" in words) == (not rows)


def test_nodes_share_nothing_but_gradients():
    """With a network beyond any, each keeps its own rate."""
    asked = Workload(network="resnet50", task=Task.TRAINING, batch_size=64)
    many, one = (load_model().predict([(asked, of_t4(nodes, 1e9))])[0] for nodes in (8, 1))
    assert many.median == pytest.approx(one.median, rel=0.01)
