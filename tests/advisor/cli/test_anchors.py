"""`--anchor`: from what a user measured on one GPU to an answer for all others."""

import json
import shlex
from importlib.resources import files

import jsonschema
import numpy as np
import pytest

from advisor.catalog import load_catalog
from advisor.cli.main import run
from advisor.domain import Task, Workload
from advisor.models.network_columns import KINDS
from advisor.models.performance import load_model

SCHEMA = json.loads((files("advisor.render") / "schemas/recommendation.schema.json").read_text())
MODEL, GPUS = load_model(), load_catalog().cards
BATCHES = (8, 16, 32, 64)
ANCHOR_SCHEMA = json.loads((files("advisor.sweeps.anchors.measure") / "anchor.schema.json").read_text())


def captured(network):
    """As `advisor measure` writes it: sums by class of operation."""
    found = {}
    columns = {
        "count": (None, 1.0),
        "flops_per_sample": ("flops", 1.0),
        "bytes_per_sample": ("sample_elements", 4.0),
        "fixed_bytes": ("fixed_elements", 4.0),
    }
    for kernel in MODEL.table[network].kernels[Task.TRAINING]:
        row = found.setdefault(KINDS[kernel["kind"]], dict.fromkeys(columns, 0.0))
        for name, (column, by) in columns.items():
            row[name] += by * float(kernel[column] if column else 1) * float(kernel["count"])
    return {"training": found}


def anchor(name="my_net", gpu="T4", cuda="Tesla T4", factor=1.0, like="resnet50", **changes):
    """What a network that is like `like` reaches on a GPU by the model, times a factor."""
    workload = Workload(network=like, task=Task.TRAINING, batch_size=1)
    batches = np.array(BATCHES, dtype=float)
    seconds = factor * MODEL.step_times.step_seconds(workload, GPUS[gpu], batches, MODEL.table)
    runs = [
        {
            "task": "training",
            "precision": "fp32",
            "input": "synthetic",
            "batch_size": batch,
            "status": "ok",
            "samples_per_second": batch / each,
            "step_seconds": [each] * 5,
            "warmup_step_seconds": [],
            "gpu_peak_allocated_mib": 400.0 + 90 * batch,
            "gpu_peak_reserved_mib": 500.0 + 100 * batch,
            "reason": "",
        }
        for batch, each in zip(BATCHES, seconds.tolist(), strict=True)
    ]
    document = {
        "schema": "advisor.anchor/1",
        "measured_at": "2026-11-21T00:00:00+00:00",
        "seconds": 60.0,
        "what": {"kind": "network", "name": name, "unit": "image", "input_shape": [3, 224, 224]},
        "device": {"kind": "cuda", "gpu": cuda, "threads": 4},
        "machine": {
            "cpu_model": "",
            "architecture": "",
            "cpus": 4,
            "physical_cores": 2,
            "memory_mib": 16000.0,
            "versions": {"torch": "2.13.0"},
        },
        "runs": runs,
        "captured": captured(like),
        "warnings": [],
    }
    return document | changes


@pytest.fixture
def put(tmp_path):
    """Write a document; returns its path as an option's value."""

    def write(document, name="anchor.json"):
        (tmp_path / name).write_text(json.dumps(document))
        return str(tmp_path / name)

    return write


@pytest.fixture
def ask(capsys):
    """Ask about training; returns (exit code, stdout, stderr)."""

    def command(verb, model, *arguments):
        code = run([verb, "--task", "training", "--model", model, *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def accelerator(ask, model, instance, *arguments):
    """The GPU's likely rate and the interval of the whole, at batch 32."""
    asked = ("--instance", instance, "--batch-size", "32", "-o", "json", *arguments)
    code, out, err = ask("predict", model, *asked)
    assert code == 0, err
    document = json.loads(out)
    bounds = document["predicted"]["throughput"]
    spread = bounds["upper"] / bounds["lower"]
    return document["stage_rates"]["accelerator"], spread, document


def accelerator_warnings(ask, *anchors):
    """What is said of resnet50's anchors."""
    asked = [word for file in anchors for word in ("--anchor", file)]
    code, _, err = ask("predict", "resnet50", "--instance", "g4dn.8xlarge", "-o", "json", *asked)
    assert code == 0, err
    return err.splitlines()


def test_the_tests_anchors_are_what_measure_writes():
    jsonschema.validate(anchor(), ANCHOR_SCHEMA)


def test_an_own_network_is_recommended_for_from_its_anchor(ask, put):
    file = put(anchor())
    code, out, err = ask("recommend", "my_net", "--anchor", file, "--target-throughput", "150", "-o", "json")
    document = json.loads(out)
    jsonschema.validate(document, SCHEMA)
    assert (code, err, document["request"]["model"]) == (0, "", "my_net")
    assert document["recommendation"]["predicted"]["throughput"]["lower"] >= 150


def test_on_the_anchors_own_gpu_its_rate_is_measured(ask, put):
    rate, _, document = accelerator(ask, "my_net", "g4dn.8xlarge", "--anchor", put(anchor()))
    measured = next(r for r in anchor()["runs"] if r["batch_size"] == 32)["samples_per_second"]
    assert rate == pytest.approx(measured, rel=0.05)
    assert document["predicted"]["provenance"] == "measured"
    assert not any("anchor" in note for note in document["extrapolation"])


def test_an_own_network_is_known_at_the_input_of_its_anchor_alone(ask, put):
    code, _, err = ask("recommend", "my_net", "--anchor", put(anchor()), "--input", "3x384x384")
    assert code == 2
    assert "my_net is known at 3x224x224 alone; leave out --input" in err


def test_an_anchor_that_the_model_makes_very_unlikely_is_told(ask, put):
    usual, odd = put(anchor("resnet50")), put(anchor("resnet50", factor=2.2), "odd.json")
    said = [" ".join(accelerator_warnings(ask, file)) for file in (usual, odd)]
    assert "contradicts" not in said[0]
    assert "odd.json, run 1 (batch 8 on T4) contradicts the other anchors, or the model" in said[1]


def test_a_gpu_that_contradicts_another_is_told(ask, put):
    first = put(anchor("resnet50"))
    second = put(anchor("resnet50", gpu="L4", cuda="NVIDIA L4", factor=2.5), "second.json")
    said = " ".join(accelerator_warnings(ask, first, second))
    assert "second.json, run 1 (batch 8 on L4) contradicts" in said


def test_without_operations_the_answer_is_wider_and_says_so(ask, put):
    known, unknown = put(anchor()), put(anchor(captured={}), "unknown.json")
    _, narrow, _ = accelerator(ask, "my_net", "g5.8xlarge", "--anchor", known)
    rate, wide, _ = accelerator(ask, "my_net", "g5.8xlarge", "--anchor", unknown)
    assert rate > 0
    assert wide > narrow
    _, out, _ = ask("recommend", "my_net", "--anchor", unknown, "-o", "json")
    assert any("computes is not known" in one for one in json.loads(out)["warnings"])


def test_what_nobody_told_the_operations_of_is_as_its_anchor_on_its_card(ask, put):
    unknown = put(anchor(captured={}, factor=6))
    rate, _, document = accelerator(ask, "my_net", "g4dn.8xlarge", "--anchor", unknown)
    measured = next(r for r in anchor(factor=6)["runs"] if r["batch_size"] == 32)
    assert rate == pytest.approx(measured["samples_per_second"], rel=0.07)
    assert document["predicted"]["provenance"] == "measured"


def test_anchors_that_differ_a_little_meet_and_those_that_differ_much_are_named(ask, put):
    first, second = put(anchor()), put(anchor(factor=1.45), "second.json")
    third = put(anchor(factor=2), "third.json")
    fast, _, _ = accelerator(ask, "my_net", "g4dn.8xlarge", "--anchor", first)
    both, _, _ = accelerator(ask, "my_net", "g4dn.8xlarge", "--anchor", first, "--anchor", second)
    assert fast / 1.45 < both < fast
    code, _, err = ask("recommend", "my_net", "--anchor", first, "--anchor", third)
    assert code == 2
    assert "anchor.json, run 1" in err
    assert "third.json, run 1" in err


def test_a_card_with_too_little_memory_is_rejected_by_the_anchors_peak(ask, put):
    document = anchor()
    for each in document["runs"]:
        each["gpu_peak_reserved_mib"] = 1000.0 * each["batch_size"]
    code, out, _ = ask(
        "recommend",
        "my_net",
        "--anchor",
        put(document),
        *shlex.split("--batch-size 64 --explain-rejected -o json"),
    )
    rejected = {one["instance_type"]: one["reason"] for one in json.loads(out)["rejected"]}
    assert code == 0
    assert rejected["g4dn.xlarge"] == "gpu_memory"
    assert "p5.4xlarge" not in rejected


def test_unknown_memory_is_said(ask, put):
    document = anchor()
    for each in document["runs"]:
        each["gpu_peak_reserved_mib"] = None
    _, out, _ = ask("recommend", "my_net", "--anchor", put(document), "-o", "json")
    assert any("memory of my_net is not known" in one for one in json.loads(out)["warnings"])


def impossible():
    """A loop that did not wait for its GPU."""
    return anchor(factor=1e-3)


@pytest.mark.parametrize(
    ("model", "document", "words"),
    [
        ("my_net", anchor(cuda="NVIDIA A100-SXM4-40GB MIG 1g.5gb"), "is a slice"),
        ("my_net", anchor("vgg16", like="vgg16"), "but of vgg16"),
        ("vgg16", anchor("my_net"), "but of my_net"),
        ("my_net", impossible(), "synchronize"),
        ("my_net", anchor(device={"kind": "cpu", "gpu": None}), "on a CPU"),
        ("my_net", anchor(captured={"training": {"magic": {}}}), "magic"),
        ("my_net", anchor(captured={"training": {"linear": {"count": -1}}}), "captured"),
        ("missing.py:build", {"schema": 1}, "no anchor"),
    ],
)
def test_what_cannot_be_an_anchor_is_refused_in_one_line(ask, put, model, document, words):
    code, out, err = ask("recommend", model, "--anchor", put(document))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


HUGE = 10**400  # JSON has it, no float does


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"step_seconds": [HUGE] * 5}, "finite"),
        ({"step_seconds": [1e300] * 5}, "more than a day"),
        ({"batch_size": HUGE}, "batch size"),
        ({"gpu_peak_reserved_mib": HUGE}, "GPU memory"),
        ({"task": "\x1b[31m"}, "Task"),
    ],
)
def test_numbers_that_nothing_can_be_computed_with_are_refused(ask, put, changes, words):
    document = anchor()
    for each in document["runs"]:
        each.update(changes)
    code, out, err = ask("recommend", "my_net", "--anchor", put(document))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert len(err) < 500
    assert "\x1b" not in err


def test_a_count_that_no_float_holds_and_a_file_without_runs_are_refused(ask, put):
    counted = anchor(captured={"training": {"linear": {"count": HUGE}}})
    for document, words in ((counted, "captured"), (anchor(runs=[]), "nothing was measured")):
        code, out, err = ask("recommend", "my_net", "--anchor", put(document))
        assert (code, out) == (2, "")
        assert words in err


@pytest.mark.parametrize("name", ["", " ", "\x1b[31mred", "two\nlines"])
def test_a_name_that_cannot_be_shown_is_refused(ask, put, name):
    code, out, err = ask("recommend", name, "--anchor", put(anchor(name)))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "\x1b" not in err


def test_a_batch_beyond_every_gpu_is_refused_without_overflow(ask):
    code, out, err = ask("recommend", "resnet50", "--batch-size", "1e308")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--batch-size must be at most" in err


def test_other_tasks_and_precisions_are_named(ask, put):
    code, _, err = ask("recommend", "my_net", "--anchor", put(anchor()), "--precision", "amp")
    assert code == 2
    assert "--task training --precision fp32" in err


def test_an_unknown_network_is_told_of_anchors(ask):
    code, _, err = ask("recommend", "my_net")
    assert code == 2
    assert "--anchor FILE" in err


OWN = """
import torch
def build():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 7, 2, 3), torch.nn.ReLU(), torch.nn.Conv2d(64, 256, 3, 2, 1),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(256, 10))
"""
DATA_DEPENDENT = """
import torch
class Branches(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x.flatten(1) if x.sum().item() > 0 else -x.flatten(1))
def build():
    return Branches(3 * 224 * 224, 10)
"""


@pytest.mark.slow
def test_an_own_network_without_any_measurement_is_answered_from_what_torch_tells(ask, tmp_path):
    (tmp_path / "net.py").write_text(OWN)
    code, out, err = ask("recommend", f"{tmp_path}/net.py:build", "-o", "json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["recommendation"]["predicted"]["provenance"] == "modelled"
    assert any("was never measured" in one for one in document["warnings"])


@pytest.mark.slow
def test_what_an_own_network_prints_stays_out_of_the_answer(capfd, tmp_path):
    raw = OWN.replace("    return", "    os.write(1, b'raw\\n')\n    return")
    chatty = "import os\nprint('imported')\nos.system('echo started')\n"
    (tmp_path / "net.py").write_text(raw + chatty)
    own = f"{tmp_path}/net.py:build"
    code = run(["recommend", "--task", "training", "--model", own, "-o", "json"])
    said = capfd.readouterr()
    assert code == 0, said.err
    assert json.loads(said.out)["request"]["model"] == own
    assert all(word in said.err for word in ("imported", "started", "raw"))


@pytest.mark.slow
def test_a_network_that_torch_cannot_follow_is_refused_and_answered_with_an_anchor(ask, put, tmp_path):
    (tmp_path / "net.py").write_text(DATA_DEPENDENT)
    reference = f"{tmp_path}/net.py:build"
    code, _, err = ask("recommend", reference)
    assert (code, "cannot follow" in err) == (2, True)
    code, out, _ = ask("recommend", reference, "--anchor", put(anchor(captured={})), "-o", "json")
    assert code == 0
    assert any("its anchor alone answers" in one for one in json.loads(out)["warnings"])
