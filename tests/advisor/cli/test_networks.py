"""`advisor networks` says what can be asked for, and never claims to know more than it does."""

from __future__ import annotations

import json
import subprocess
import sys

from advisor.cli import main, networks
from advisor.errors import DataError
from models.performance import load_model
from models.zoo import NETWORKS


def _listed(capsys):
    assert main.run(["networks", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "advisor.networks/1"
    return {row["name"]: row for row in document["networks"]}


def test_every_network_is_listed_with_its_size_and_unit(capsys):
    rows = _listed(capsys)
    assert list(rows) == list(NETWORKS)
    assert all(row["parameters"] > 0 and row["gmacs_per_sample"] > 0 for row in rows.values())
    lstm = rows["lstm_ptb_medium"]
    assert (lstm["unit"], lstm["samples_per_row"], lstm["input_shape"]) == ("token", 35, [35])
    assert rows["nasnetalarge"]["needs"] == "zoo"
    assert rows["cifar10_cnn"]["tasks"] == ["training", "inference"]


def test_a_rate_is_told_for_exactly_the_networks_that_can_be_predicted(capsys):
    predicted = set(load_model().networks)
    for name, row in _listed(capsys).items():
        assert set(row["rates"]) == {"training", "inference"}
        told = {rate is not None for rate in row["rates"].values()}
        assert told == {name in predicted}


def test_a_rate_that_others_measured_is_called_published(capsys):
    """Some GPU's ResNet-50 was measured with PyTorch, so it is more than modelled."""
    assert _listed(capsys)["resnet50"]["rates"]["inference"] == "published"


def test_the_table_fits_all_networks_and_says_so_where_nothing_is_known(capsys):
    assert main.run(["networks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(NETWORKS)
    assert "61.95 M" in next(line for line in lines if line.startswith("yolov3"))
    assert next(line for line in lines if line.startswith("bert_base ")).endswith(" -")


def test_without_a_performance_model_the_list_still_comes(capsys, monkeypatch):
    def damaged():
        raise DataError("the model is damaged; install the package again")

    monkeypatch.setattr("models.performance.load_model", damaged)
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
    assert networks.FORMAT.known == ("table", "json")
