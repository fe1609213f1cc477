"""How far from the measurements a prediction is asked is told in numbers, and kept in the model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import IMAGENET, Precision, Stage, Task
from advisor.models.performance import load_model
from advisor.models.performance.distance import AS_GOOD_AS, stage_weights
from advisor.models.performance.machines import measured_ranges
from tests.models.performance.synthetic import measure, trials, true_parameters
from tests.models.performance.test_prediction import machine, predict, workload

MODEL = load_model()


def facts(workload_, resources):
    prediction = predict(workload_, resources)
    return {one.subject: one for one in MODEL.distances(workload_, resources, prediction)}


@given(st.floats(0.1, 200), st.floats(1, 4000), st.floats(1e3, 1e7))
def test_inside_means_between_what_was_measured_and_outside_says_how_far(vcpus, read, size):
    dataset = replace(IMAGENET, bytes_per_sample=size)
    asked = replace(workload(), dataset=dataset)
    found = facts(asked, machine(vcpus=vcpus, read=read))
    for name, value in (("vcpus", vcpus), ("disk_throughput", read), ("sample_bytes", size)):
        low, high = MODEL.pipeline.measured[name]
        assert found[name].inside == (low / AS_GOOD_AS <= value <= high * AS_GOOD_AS)
        assert value == pytest.approx(found[name].times * min(max(value, low), high))


def test_eight_vcpus_are_four_times_the_two_that_were_measured():
    found = facts(workload("alexnet"), machine(vcpus=8, memory_mib=400_000))
    assert str(found["vcpus"].detail) == "8 vCPUs, 4 times the 2 that were measured"
    assert found["vcpus"].matters
    assert found["vcpus"].stage is Stage.HOST


@pytest.mark.parametrize(
    ("gpu", "network", "inside", "said"),
    [
        ("T4", "googlenet", True, "was measured with other networks"),
        ("L40S", "googlenet", False, "its architecture (Ada) was"),
        ("RTX 5090", "googlenet", False, "neither RTX 5090 nor its architecture"),
    ],
)
def test_how_near_a_gpu_is_to_the_measured_ones_is_told(gpu, network, inside, said):
    found = facts(workload(network, Task.INFERENCE), machine(gpu))["gpu"]
    assert found.inside == inside
    assert said in str(found.detail)


def test_a_gpu_that_was_measured_in_another_precision_is_told_so():
    """A T4 in fp32 tells little of mixed precision, for which it has other units."""
    asked = replace(workload("googlenet", Task.INFERENCE), precision=Precision.AMP)
    found = facts(asked, machine("T4"))["gpu"]
    assert not found.inside
    assert str(found.detail) == "T4 was never measured in amp"


def test_a_network_is_measured_on_this_gpu_or_on_others_or_not_at_all():
    details = [
        facts(workload(network), machine(gpu))["network"]
        for network, gpu in (("resnet50", "A100-SXM4-40GB"), ("vgg16", "T4"), ("googlenet", "T4"))
    ]
    assert [one.inside for one in details] == [True, True, False]
    assert str(details[0].detail) == "resnet50 training in fp32 was measured on A100"


def test_preprocessing_stands_on_no_gpu_and_an_unknown_cpu_is_outside():
    unknown = replace(machine(), cpu=None)
    found = facts(workload(task=Task.PREPROCESSING), unknown)
    assert not {"gpu", "network", "host_to_gpu"} & set(found)
    assert not found["cpu"].inside
    assert "unknown" in str(found["cpu"].detail)


def test_a_stage_far_from_binding_does_not_matter():
    asked = workload(), machine(vcpus=96, read=4000.0)
    prediction = predict(*asked)
    weights = stage_weights(*asked, prediction, MODEL.pipeline)
    assert sum(weights.values()) == pytest.approx(1)
    assert max(weights, key=weights.get) is prediction.bottleneck
    found = facts(workload(), machine(vcpus=96, read=4000.0))
    assert not found["vcpus"].matters
    assert found["gpu"].matters


def test_the_ranges_are_those_of_the_trials():
    ranges = measured_ranges(measure(trials(), true_parameters()))
    assert ranges["vcpus"] == (0.5, 2.0)
    assert ranges["disk_throughput"] == (20.0, 125.0)
    assert "disk_iops" not in ranges
