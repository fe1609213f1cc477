"""`advisor networks` says what can be asked for, and never claims to know more than it does."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from advisor.cli import main
from advisor.errors import DataError
from advisor.models.performance import load_model
from advisor.models.zoo.networks import NETWORKS


def _listed(capsys):
    assert main.run(["networks", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "advisor.networks/1"
    return {row["name"]: row for row in document["networks"]}


def test_every_network_is_listed_with_its_size_and_unit(capsys):
    rows = _listed(capsys)
    assert set(rows) >= set(NETWORKS)
    families = [row["family"] for row in rows.values()]
    assert families == sorted(families)
    assert all(row["parameters"] > 0 and row["gmacs_per_sample"] > 0 for row in rows.values())
    lstm = rows["lstm_ptb_medium"]
    assert (lstm["unit"], lstm["samples_per_row"], lstm["input_shape"]) == ("token", 35, [35])
    assert rows["nasnetalarge"]["needs"] == "zoo"
    assert rows["cifar10_cnn"]["tasks"] == ["training", "inference"]


def test_a_rate_is_told_for_every_network(capsys):
    rows = _listed(capsys)
    assert set(rows) == set(load_model().table.names)
    for row in rows.values():
        assert set(row["rates"]) == {"training", "inference"}
        assert None not in row["rates"].values()
        for task, rate in row["rates"].items():
            assert (rate == "published") == (row["gpus_measured"][task] > 0)


def test_a_rate_that_others_measured_is_called_published(capsys):
    """Some GPU's ResNet-50 was measured with PyTorch, so it is more than modelled."""
    assert _listed(capsys)["resnet50"]["rates"]["inference"] == "published"


def test_the_table_has_all_networks_where_all_are_asked_for(capsys):
    assert main.run(["networks", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(load_model().table.names)
    assert "61.95 M" in next(line for line in lines if " yolov3 " in line)


def test_without_a_search_families_are_told_in_a_screen_or_two(capsys):
    assert main.run(["networks"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
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
def test_a_search_is_a_part_or_a_pattern_of_a_name(capsys, search, found):
    assert main.run(["networks", search, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in document["networks"]] == found


def test_a_mistyped_search_is_told_what_is_near(capsys):
    assert main.run(["networks", "resnwt50"]) == 2
    assert "did you mean resnet50" in capsys.readouterr().err


def test_without_a_performance_model_the_list_still_comes(capsys, monkeypatch):
    def damaged():
        raise DataError("the model is damaged; install the package again")

    monkeypatch.setattr("advisor.cli.networks.load_model", damaged)
    assert main.run(["networks", "-o", "json"]) == 0
    said = capsys.readouterr()
    assert "damaged" in said.err
    rows = json.loads(said.out)["networks"]
    assert all(rate is None for row in rows for rate in row["rates"].values())


def test_listing_imports_nothing_heavy():
    heavy = ("torch", "torchvision", "timm", "pandas", "sklearn", "scipy", "ray", "boto3")
    code = (
        "import sys\nfrom advisor.cli.main import run\nassert run(['networks']) == 0\n"
        f"sys.exit(bool(set({heavy!r}) & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.returncode == 0


def test_an_unknown_format_is_refused(capsys):
    assert main.run(["networks", "-o", "yml"]) == 2
    assert "known: json, table" in capsys.readouterr().err
