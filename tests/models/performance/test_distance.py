"""How far from the measurements a prediction is asked is told in numbers, and kept in the model."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import IMAGENET, MemoryFormat, Precision, Stack, Task, Tf32, Workload
from advisor.models.performance import load_model, paced_gpu
from advisor.models.performance.distance import AS_GOOD_AS, stage_weights
from advisor.models.performance.machines import measured_ranges
from advisor.models.performance.settings import MEASURED_ON
from advisor.models.performance.step_times import cell_of
from benchmarks.truth.asking import ScoredModel
from benchmarks.truth.gains import pairs_of
from benchmarks.truth.rows import Row, read_rows
from tests.models.performance.synthetic import measure, trials, true_parameters
from tests.models.performance.test_prediction import machine, predict, workload

MODEL = load_model()


def facts(workload_, resources):
    prediction = predict(workload_, resources)
    return {distance.subject: distance for distance in MODEL.distances(workload_, resources, prediction)}


@given(st.floats(0.1, 200), st.floats(1, 4000), st.floats(1e3, 1e7))
def test_inside_means_between_what_was_measured_and_outside_says_how_far(vcpus, read, size):
    dataset = replace(IMAGENET, bytes_per_sample=size)
    changed = replace(workload(), dataset=dataset)
    result = facts(changed, machine(vcpus=vcpus, read=read))
    for name, value in (("vcpus", vcpus), ("disk_throughput", read), ("sample_bytes", size)):
        low, high = MODEL.pipeline.measured[name]
        assert result[name].inside == (low / AS_GOOD_AS <= value <= high * AS_GOOD_AS)
        assert value == pytest.approx(result[name].times * min(max(value, low), high))


@pytest.mark.parametrize(
    ("gpu", "precision", "inside", "said"),
    [
        ("T4", Precision.FP32, True, "was measured with other networks"),
        ("T4", Precision.AMP, False, "T4 was never measured in amp"),  # for which it has other units
        ("L40S", Precision.FP32, False, "its architecture (Ada) was"),
        ("RTX 5090", Precision.FP32, False, "neither RTX 5090 nor its architecture"),
    ],
)
def test_how_near_a_gpu_is_to_the_measured_ones_is_told(gpu, precision, inside, said):
    result = facts(workload("googlenet", Task.INFERENCE, precision=precision), machine(gpu))["gpu"]
    assert result.inside == inside
    assert said in str(result.detail)


def test_a_network_is_measured_on_this_gpu_or_others_and_an_unknown_cpu_is_outside():
    pairs = (("resnet50", "A100-SXM4-40GB"), ("vgg16", "T4"), ("googlenet", "T4"))
    details = [facts(workload(network), machine(gpu))["network"] for network, gpu in pairs]
    assert [detail.inside for detail in details] == [True, True, False]
    assert str(details[0].detail) == "resnet50 training in fp32 was measured on A100"
    result = facts(workload(task=Task.PREPROCESSING), replace(machine(), cpu=None))
    assert not {"gpu", "network", "host_to_gpu"} & set(result)
    assert not result["cpu"].inside
    assert "unknown" in str(result["cpu"].detail)


def test_a_stage_far_from_binding_does_not_matter():
    request = workload(), machine(vcpus=96, read=4000.0)
    prediction = predict(*request)
    weights = stage_weights(*request, prediction, MODEL.pipeline)
    assert sum(weights.values()) == pytest.approx(1)
    assert max(weights, key=weights.get) is prediction.bottleneck
    result = facts(workload(), machine(vcpus=96, read=4000.0))
    assert not result["vcpus"].matters
    assert result["gpu"].matters


def test_the_ranges_and_chips_are_those_of_the_trials():
    ranges = measured_ranges(measure(trials(), true_parameters()))
    assert (ranges["vcpus"], ranges["disk_throughput"]) == ((0.5, 2.0), (20.0, 125.0))
    assert "disk_iops" not in ranges
    scored_model, result = ScoredModel(), {}
    for pair in pairs_of([row for row in read_rows(ROWS) if isinstance(row, Row)]):
        row = pair.before
        # NVIDIA's containers say nothing of PyTorch's own chips; older ones have no such units.
        if row.software.startswith("ngc") or (scored_model.gpu(row.gpu).capability or 0) < 7:
            continue
        bits = 32 if row.precision == "fp32" else 16
        result.setdefault((pair.change, row.task, bits), set()).add(scored_model.chip(row.gpu))
    assert result == dict(MEASURED_ON)


# What other settings bring a GPU: only what rows tell, and surer than two rates apart.

ROWS = Path(__file__).parents[3] / "infra/build/performance_sources/observations.csv.gz"


def work(network="resnet50", task=Task.INFERENCE, batch=64, **changes):
    return Workload(network=network, task=task, batch_size=batch, **changes)


def gains(workload, gpu="A100-SXM4-40GB"):
    result = MODEL.setting_gains(workload, paced_gpu(gpu))
    return {entry.setting.name: entry.gain for entry in result}


def test_a_gain_is_the_ratio_of_the_rates_and_a_step_is_as_long_as_itself():
    before, gpu = work(), paced_gpu("T4")
    after = work(stack=Stack.COMPILE)
    facts, times = MODEL.table["resnet50"], MODEL.step_times
    gain = gains(before, "T4")["compile"]
    slow, fast = MODEL.predict_gpu([before], gpu)[0], MODEL.predict_gpu([after], gpu)[0]
    assert gain.factor.median == pytest.approx(fast.median / slow.median)
    each = times.estimates([(before, gpu), (after, gpu)], facts).variance
    result = times.posterior.differences([cell_of(before, gpu, facts)], [cell_of(after, gpu, facts)])
    assert result.variance[0] < each.sum()
    cell = cell_of(before, gpu, facts)
    result = times.posterior.differences([cell], [cell])
    assert (result.mean[0], result.variance[0]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("workload", "gpu", "expected"),
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
def test_what_no_row_has_is_not_told(workload, gpu, expected):
    assert set(gains(workload, gpu)) == expected


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
