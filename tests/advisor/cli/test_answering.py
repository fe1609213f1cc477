"""`advisor predict`, `compare`, `memory`, `gpus` and `networks` as a user calls them."""

import json
from pathlib import Path

import pytest

from advisor.errors import DataError
from advisor.models.performance import load_model
from advisor.models.zoo.networks import NETWORKS


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


GPUS = ("compare", "--task", "training", "--model", "resnet50,vgg16", "--gpu", "T4,L4")
RESNET = ("--task", "training", "--model", "resnet50")


def test_an_old_price_is_told_as_an_estimate_in_the_csv_too(shown):
    words = ("compare", *RESNET, "--cloud", "runpod", "--instance", "1x-rtx-3090.community,1x-l4.secure")
    head, row, *_ = shown(*words, "-o", "csv").splitlines()
    assert head.endswith("price_kind,price_as_of,price_source,disk_price_kind")
    assert row.endswith(",estimated")


@pytest.mark.parametrize(("output", "headings"), [("csv", 1), ("md", 2)])
def test_tables_have_one_line_a_row(output, headings, shown):
    assert len(shown(*GPUS, "-o", output).splitlines()) == 4 + headings


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


def test_json_has_every_data_sheet_and_the_cheapest_offer(answer):
    """With prices dated; unknown values are null, never 0."""
    rows = {row["name"]: row for row in answer("gpus")["gpus"]}
    t4 = rows["T4"]
    assert t4["cheapest"]["instance_type"] == "g4dn.xlarge"
    assert t4["usd_per_gpu_hour"] == t4["cheapest"]["price"]["usd_per_hour"]
    assert t4["int8_tops"] == 130
    assert rows["TITAN V"]["usd_per_gpu_hour"] is None
    assert all(value != 0 for row in rows.values() for value in row.values())


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
