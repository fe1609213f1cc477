"""`advisor networks` says what can be asked for, and never claims to know more than it does."""

import json

import pytest

from advisor.errors import DataError
from advisor.models.performance import load_model
from advisor.models.zoo.networks import NETWORKS


@pytest.fixture
def listed(answer):
    return {row["name"]: row for row in answer("networks")["networks"]}


def test_every_network_is_listed_with_its_size_and_unit(listed):
    assert set(listed) >= set(NETWORKS)
    families = [row["family"] for row in listed.values()]
    assert families == sorted(families)
    assert all(row["parameters"] > 0 and row["gmacs_per_sample"] > 0 for row in listed.values())
    lstm = listed["lstm_ptb_medium"]
    assert (lstm["unit"], lstm["samples_per_row"], lstm["input_shape"]) == ("token", 35, [35])
    assert listed["nasnetalarge"]["needs"] == "zoo"
    assert listed["cifar10_cnn"]["tasks"] == ["training", "inference"]


def test_a_rate_is_told_for_every_network(listed):
    """What others measured on some GPU with PyTorch, as ResNet-50, is more than modelled."""
    assert set(listed) == set(load_model().table.names)
    for row in listed.values():
        assert set(row["rates"]) == {"training", "inference"}
        assert None not in row["rates"].values()
        for task, rate in row["rates"].items():
            assert (rate == "published") == (row["gpus_measured"][task] > 0)
    assert listed["resnet50"]["rates"]["inference"] == "published"


def test_the_table_has_all_networks_where_all_are_asked_for(shown):
    lines = shown("networks", "--all").splitlines()
    assert len(lines) == 1 + len(load_model().table.names)
    assert "61.95 M" in next(line for line in lines if " yolov3 " in line)


def test_without_a_search_families_are_told_in_a_screen_or_two(shown):
    *lines, last = shown("networks").splitlines()
    resnets = next(line for line in lines if line.startswith("resnet "))
    assert int(resnets.split()[1]) >= 9
    assert "families" in last
    assert "--all" in last


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("shufflenet_v2_x0", ["shufflenet_v2_x0_5"]),
        ("ShuffleNet_V2_X?_0", ["shufflenet_v2_x1_0", "shufflenet_v2_x2_0"]),
        ("advisor/bert_base*", ["bert_base", "bert_base_squad"]),
        ("yolov5[sm]", ["yolov5m", "yolov5s"]),
    ],
)
def test_a_search_is_a_part_or_a_pattern_of_a_name(answer, search, found):
    assert [row["name"] for row in answer("networks", search)["networks"]] == found


def test_without_a_performance_model_the_list_still_comes(ask, monkeypatch):
    def damaged():
        raise DataError("the model is damaged; install the package again")

    monkeypatch.setattr("advisor.cli.answering.load_model", damaged)
    code, out, err = ask("networks", "-o", "json")
    assert (code, "damaged" in err) == (0, True)
    assert all(rate is None for row in json.loads(out)["networks"] for rate in row["rates"].values())
