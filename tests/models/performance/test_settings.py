"""What other settings bring a GPU: only what rows tell, and surer than two rates apart."""

import math
from pathlib import Path

import pytest

from advisor.domain import MemoryFormat, Precision, Stack, Task, Tf32, Workload
from advisor.models.performance import load_model, paced_gpu
from advisor.models.performance.settings import MEASURED_ON
from advisor.models.performance.step_times import cell_of
from benchmarks.truth.asking import ScoredModel
from benchmarks.truth.gains import pairs_of
from benchmarks.truth.rows import Row, read_rows

ROWS = Path(__file__).parents[3] / "infra/build/performance_sources/observations.csv.gz"
MODEL = load_model()


def work(network="resnet50", task=Task.INFERENCE, batch=64, **changes):
    return Workload(network=network, task=task, batch_size=batch, **changes)


def gains(workload, gpu="A100-SXM4-40GB"):
    found = MODEL.setting_gains(workload, paced_gpu(gpu))
    return {one.setting.name: one.gain for one in found}


def test_the_chips_with_rows_are_those_that_the_tables_have():
    scored_model, found = ScoredModel(), {}
    for pair in pairs_of([row for row in read_rows(ROWS) if isinstance(row, Row)]):
        row = pair.before
        # NVIDIA's containers say nothing of PyTorch's own chips; older ones have no such units.
        if row.software.startswith("ngc") or (scored_model.gpu(row.gpu).capability or 0) < 7:
            continue
        bits = 32 if row.precision == "fp32" else 16
        found.setdefault((pair.change, row.task, bits), set()).add(scored_model.chip(row.gpu))
    assert found == dict(MEASURED_ON)


def test_a_gain_is_the_ratio_of_the_rates_and_surer_than_they_are_apart():
    before, gpu = work(), paced_gpu("T4")
    after = work(stack=Stack.COMPILE)
    facts, times = MODEL.table["resnet50"], MODEL.step_times
    gain = gains(before, "T4")["compile"]
    slow, fast = MODEL.predict_gpu([before], gpu)[0], MODEL.predict_gpu([after], gpu)[0]
    assert gain.factor.median == pytest.approx(fast.median / slow.median)
    each = times.estimates([(before, gpu), (after, gpu)], facts).variance
    found = times.posterior.differences([cell_of(before, gpu, facts)], [cell_of(after, gpu, facts)])
    assert found.variance[0] < each.sum()


def test_a_step_is_as_long_as_itself_without_doubt():
    cell = cell_of(work(), paced_gpu("T4"), MODEL.table["resnet50"])
    found = MODEL.step_times.posterior.differences([cell], [cell])
    assert (found.mean[0], found.variance[0]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("workload", "gpu", "told"),
    [
        (work(), "A100-SXM4-40GB", {"compile", "amp"}),
        (work(task=Task.TRAINING), "T4", {"amp"}),  # nobody compiled a training step
        (work("googlenet"), "A100-SXM4-40GB", {"amp"}),  # nor this network
        (work("googlenet", precision=Precision.AMP), "A10G", {"channels_last"}),
        (work(precision=Precision.AMP), "A10G", {"compile", "channels_last"}),
        (work(), "K80", set()),
        (work("bert-base-uncased", Task.TRAINING), "A100-SXM4-40GB", {"amp", "tf32"}),
        (work("bert-base-uncased", precision=Precision.AMP), "A10G", set()),
    ],
)
def test_what_no_row_has_is_not_told(workload, gpu, told):
    assert set(gains(workload, gpu)) == told


def test_what_a_workload_has_is_not_told_again():
    has = work(stack=Stack.COMPILE, memory_format=MemoryFormat.CHANNELS_LAST, precision=Precision.AMP)
    assert gains(has, "RTX 4090") == {}
    assert "tf32" not in gains(work("bert-base-uncased", tf32=Tf32.ON))


def test_a_network_with_such_rows_is_told_surer_than_one_without():
    def width(network):
        gain = gains(work(network, precision=Precision.AMP), "RTX 4090")["compile"]
        return gain.measured, math.log(gain.factor.upper / gain.factor.lower)

    (seen, narrow), (other, wide) = width("resnet50"), width("googlenet")
    assert (seen, other) == (True, False)
    assert narrow < wide
