"""`advisor predict`, `compare`, `memory`, `gpus` and `networks` as a user calls them."""

import json
from pathlib import Path

import pytest

from advisor.errors import DataError
from advisor.models.performance import load_model


def test_a_card_with_a_host_of_ones_own_is_predicted_as_an_instance(ask, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    code, _, err = ask("predict", "--task", "generation", "--model", "llama-3.1-8b", "--gpu", "T4")
    assert (code, "`advisor catalog import own_machines.csv`" in err) == (2, True)
    machines = Path(__file__).parents[3] / "docs" / "examples" / "own_machines.csv"
    assert ask("catalog", "import", str(machines))[0] == 0
    named = ("--instance", "workstation", "--cloud", "lab")
    generation = ("predict", "--task", "generation", "--model", "llama-3.2-3b")
    assert ask(*generation, *named, "--disk", "local")[0] == 0
    assert ask("predict", "--task", "inference", "--model", "resnet50", *named)[0] == 0


RESNET = ("--task", "training", "--model", "resnet50")


@pytest.mark.parametrize(
    ("command", "option", "names"),
    [
        (("compare", *RESNET), "--gpu", ("T4", "A10G")),
        (("compare", "--task", "training", "--model", "vgg16"), "--instance", ("g5.xlarge", "g6.xlarge")),
        (("compare", "--task", "training", "--gpu", "T4,L4"), "--model", ("resnet50", "vgg16")),
        (("recommend", *RESNET), "--gpu", ("T4", "L4")),
        (("catalog", "list"), "--gpu", ("T4", "L4")),
    ],
)
def test_a_list_may_be_given_again_or_with_commas(command, option, names, shown):
    again = [word for name in names for word in (option, name)]
    ways = [option, ",".join(names)], again, [f"{option}={name}" for name in names]
    first, *others = (shown(*command, *words, "-o", "json") for words in ways)
    assert others == [first, first]
    assert all(name in first for name in names)


@pytest.mark.slow
def test_another_input_size_is_traced(answer):
    words = ("memory", "--model", "alexnet", "--gpu", "T4")
    small, own = answer(*words, "--input-size", "128"), answer(*words)
    assert small["parts_mib"]["activations"] < own["parts_mib"]["activations"]


@pytest.fixture
def listed(answer):
    return {row["name"]: row for row in answer("networks")["networks"]}


def test_a_rate_is_told_for_every_network(listed):
    """What others measured on some GPU with PyTorch, as ResNet-50, is more than modelled."""
    assert set(listed) == set(load_model().table.names)
    for row in listed.values():
        assert set(row["rates"]) == {"training", "inference"}
        assert None not in row["rates"].values()
        for task, rate in row["rates"].items():
            assert (rate == "published") == (row["gpus_measured"][task] > 0)
    assert listed["resnet50"]["rates"]["inference"] == "published"


@pytest.mark.parametrize(
    ("search", "result"),
    [
        ("shufflenet_v2_x0", ["shufflenet_v2_x0_5"]),
        ("ShuffleNet_V2_X?_0", ["shufflenet_v2_x1_0", "shufflenet_v2_x2_0"]),
        ("advisor/bert_base*", ["bert_base", "bert_base_squad"]),
        ("yolov5[sm]", ["yolov5m", "yolov5s"]),
    ],
)
def test_a_search_is_a_part_or_a_pattern_of_a_name(answer, search, result):
    assert [row["name"] for row in answer("networks", search)["networks"]] == result


def test_without_a_performance_model_the_list_still_comes(ask, monkeypatch):
    def damaged():
        raise DataError("the model is damaged; install the package again")

    monkeypatch.setattr("advisor.cli.answering.load_model", damaged)
    code, out, err = ask("networks", "-o", "json")
    assert (code, "damaged" in err) == (0, True)
    assert all(rate is None for row in json.loads(out)["networks"] for rate in row["rates"].values())
