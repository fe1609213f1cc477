"""What if an instance had another host, and how a rate moves with it."""

import pytest

ASK = {"task": "inference", "model": "googlenet", "instance": "g4dn.xlarge", "disk": "gp3:500GiB"}


@pytest.fixture
def predicted(service):
    def ask(**words):
        answer = service.post("/v1/predict", json=ASK | words)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


def test_a_curve_says_what_each_question_alone_would(predicted):
    """Batch and disk are held, so that only what is varied moves."""
    fixed = {"batch_size": 32}
    curve = predicted(
        **fixed, curve={"vcpus": [1, 3, 8], "memory": ["8GiB", "64GiB"], "disk": ["gp3:500GiB", "st1:500GiB"]}
    )["curve"]
    for at in curve["vcpus"]:
        alone = predicted(**fixed, vcpus=at["vcpus"])
        assert at["throughput"] == pytest.approx(alone["predicted"]["throughput"])
        assert (at["physical_cores"], at["bottleneck"]) == (alone["physical_cores"], alone["bottleneck"])
    for at in curve["disk"]:
        alone = predicted(**fixed | {"disk": at["order"]})
        assert at["throughput"] == pytest.approx(alone["predicted"]["throughput"])
    assert [at["memory_mib"] for at in curve["memory"]] == [8192, 65536]


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        ({}, "some of vcpus, memory, disk"),
        ([1], "takes an object"),
        ({"vcpus": []}, "a list of 1 to 256"),
        ({"vcpus": [1.5]}, "whole number"),
        ({"memory": [4]}, "must be a text"),
        ({"disk": ["gp3,io2"]}, "one disk a point"),
        ({"disk": ["nope:1TiB"]}, "unknown disk"),
        ({"vcpus": [1] * 200, "memory": ["1GiB"] * 100}, "up to 256 points, not 300"),
    ],
)
def test_a_curve_that_cannot_be_drawn_is_refused(refused, curve, said):
    assert said in refused(422, "/v1/predict", ASK | {"curve": curve})["detail"]
