"""A file of one's own answers as itself, whatever it is called, and its faults are one line."""

import json
import re
import shlex
import shutil

import pytest

import advisor
from advisor.cli.main import run

pytest.importorskip("torch")

NETWORK = """
import os, sys
from torch import nn
INPUT_SHAPE = (3, 32, 32)
class Net(nn.Sequential):
    def forward(self, images):
        {fault}
        return super().forward(images)
def build():
    return Net(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
"""
ON = ("--instance", "g5.xlarge", "-o", "json")


@pytest.fixture(autouse=True)
def _where_files_are_named_like_known_networks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "tiny.py").write_text(NETWORK.format(fault="pass"))
    for name in ("resnet50.py", "models/unet3d.py", "ViT-B-16.py"):
        shutil.copy("tiny.py", name)


def _median(ask, model, *more):
    code, out, err = ask("predict", "--task", "training", "--model", model, *ON, *more)
    assert code == 0, err
    document = json.loads(out)
    assert document["request"]["model"] == model
    return document["predicted"]["throughput"]["median"]


@pytest.mark.slow
def test_a_file_named_like_a_known_network_is_the_one_that_is_predicted(ask, tmp_path):
    tiny = _median(ask, "tiny.py:build")
    same = ["resnet50.py", "./resnet50.py:build", f"{tmp_path}/resnet50.py:build"]
    for model in (*same, "models/unet3d.py:build", "ViT-B-16.py"):
        assert _median(ask, model) == pytest.approx(tiny, rel=1e-6), model
    assert _median(ask, "resnet50") < tiny / 2


@pytest.mark.slow
def test_every_command_takes_the_file(answer, shown, stderr):
    """`recommend`, `compare`, `memory`, `report` and a sweep's plan, and the Python API."""
    question = {"task": "training", "target_throughput": 100}
    of_tiny, own = (advisor.recommend(model=model, **question) for model in ("tiny.py", "resnet50.py"))
    assert own.request.model == "resnet50.py"
    assert own.recommendation.instance_type == of_tiny.recommendation.instance_type
    models = ("--model", "tiny.py,resnet50.py,resnet50", "--gpu", "T4", "--batch-size", "8")
    rows = answer("compare", "--task", "training", *models)["rows"]
    rates = [row["predicted"]["throughput"]["median"] for row in rows]
    assert rates[0] == pytest.approx(rates[1], rel=1e-6)
    assert rates[2] < rates[0] / 2
    traced = answer("memory", "--model", "resnet50.py", "--gpu", "T4")
    assert (traced["traced_on"], traced["parts_mib"]["weights"] < 1) == ("fake tensors", True)
    out = shown("report", "--task", "training", "--model", "resnet50.py", "--format", "json")
    assert json.loads(out)["workloads"][0]["recommendation"]["request"]["model"] == "resnet50.py"
    trial = shlex.split("--networks resnet50.py --tasks inference --vcpus 1 --memory 2GiB --disks gp3")
    assert "give --accelerator cpu" in stderr("sweep", "plan", *trial)
    assert "/resnet50.py" in shown("sweep", "plan", *trial, "--accelerator", "cpu", "-o", "json")


@pytest.mark.slow
def test_what_a_file_prints_stays_out_of_the_answer(capfd, tmp_path):
    prints = "\nprint('loaded')\nos.system('echo raw')"
    (tmp_path / "net.py").write_text(NETWORK.format(fault="pass") + prints)
    assert run(["recommend", "--task", "training", "--model", "net.py", "-o", "json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["request"]["model"] == "net.py"
    assert "loaded" in err
    assert "raw" in err


FAULTS = {
    "raise ValueError('no such shape\\nmore')": "cannot follow {} .* .ValueError: no such shape.",
    "sys.exit(3)": "cannot follow {} .* .SystemExit: 3.",
    "os._exit(3)": "tracing {} failed: the worker ended with exit code 3; run the file by itself",
    "os.kill(os.getpid(), 11)": r"tracing {} failed: .* .signal 11.; run the file by itself",
    "raise KeyboardInterrupt": "tracing {} failed: .*: KeyboardInterrupt; run the file by itself",
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_file_does_while_it_is_traced_is_one_line_and_no_traceback(ask, fault, tmp_path):
    (tmp_path / "net.py").write_text(NETWORK.format(fault=fault))
    code, out, err = ask("memory", "--task", "training", "--model", "net.py", "--gpu", "T4")
    assert (code, out) == (2, "")
    assert re.search(FAULTS[fault].format("net.py"), err), err
    assert len(err.strip().splitlines()) == 1
    assert not any(word in err for word in ("Traceback", 'File "', "^^^"))
