"""`--anchor`: from what a user measured on one GPU to an answer for all others."""

import json

import numpy as np
import pytest

from advisor.catalog import load_catalog
from advisor.domain import Task, Workload
from advisor.models.network_columns import KINDS
from advisor.models.performance import load_model
from tests.sweeps.measure.test_network import validate
from tests.sweeps.test_anchors import a_document, a_run

MODEL, GPUS = load_model(), load_catalog().cards
BATCHES = (8, 16, 32, 64)


def captured(network):
    """As `advisor measure` writes it: sums by class of operation."""
    result = {}
    for kernel in MODEL.table[network].kernels[Task.TRAINING]:
        count = float(kernel["count"])
        amounts = {
            "count": count,
            "flops_per_sample": count * float(kernel["flops"]),
            "bytes_per_sample": 4 * count * float(kernel["sample_elements"]),
            "fixed_bytes": 4 * count * float(kernel["fixed_elements"]),
        }
        row = result.setdefault(KINDS[kernel["kind"]], dict.fromkeys(amounts, 0.0))
        row |= {name: row[name] + amount for name, amount in amounts.items()}
    return {"training": result}


def anchor(name="my_net", gpu="T4", cuda="Tesla T4", factor=1.0, like="resnet50", **changes):
    """What a network that is like `like` reaches on a GPU by the model, times a factor."""
    workload = Workload(network=like, task=Task.TRAINING, batch_size=1)
    batches = np.array(BATCHES, dtype=float)
    seconds = factor * MODEL.step_times.step_seconds(workload, GPUS[gpu], batches, MODEL.table)
    runs = [
        a_run(
            batch_size=batch,
            samples_per_second=batch / each,
            step_seconds=[each] * 5,
            gpu_peak_allocated_mib=400.0 + 90 * batch,
            gpu_peak_reserved_mib=500.0 + 100 * batch,
        )
        for batch, each in zip(BATCHES, seconds.tolist(), strict=True)
    ]
    document = a_document(*runs, what={"name": name}, device={"gpu": cuda}, captured=captured(like))
    document |= {"measured_at": "2026-11-21T00:00:00+00:00", "seconds": 60.0}
    document["machine"] |= {"cpu_model": "", "architecture": "", "cpus": 4, "physical_cores": 2}
    document["machine"]["memory_mib"] = 16000.0
    return document | changes


TRAINING = ("--task", "training", "--model")
PREDICT, RECOMMEND = ("predict", *TRAINING), ("recommend", *TRAINING)


@pytest.fixture
def put(tmp_path):
    """Write a document; returns its path as an option's value."""

    def write(document, name="anchor.json"):
        (tmp_path / name).write_text(json.dumps(document))
        return str(tmp_path / name)

    return write


def anchored(files):
    return [word for file in files for word in ("--anchor", file)]


@pytest.fixture
def accelerator(answer):
    """The GPU's likely rate and the interval of the whole, at batch 32."""

    def predicted(instance, *files):
        question = ("my_net", "--instance", instance, "--batch-size", "32", *anchored(files))
        document = answer(*PREDICT, *question)
        bounds = document["predicted"]["throughput"]
        return document["stage_rates"]["accelerator"], bounds["upper"] / bounds["lower"], document

    return predicted


@pytest.fixture
def recommended(answer):
    """An answer about my_net from its anchors."""
    return lambda *files, more=(): answer(*RECOMMEND, "my_net", *anchored(files), *more, quiet=True)


@pytest.fixture
def warned(stderr):
    """What is said of resnet50's anchors."""
    return lambda *files: stderr(*PREDICT, "resnet50", "--instance", "g4dn.8xlarge", *anchored(files), code=0)


@pytest.fixture
def refused(ask, put):
    """What is said of a document that can be no anchor: one line."""

    def text(document, model="my_net"):
        code, out, err = ask(*RECOMMEND, model, "--anchor", put(document))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert len(err) < 500
        assert "\x1b" not in err
        return err

    return text


def with_each_run(**changes):
    """An anchor whose runs are all changed alike."""
    document = anchor()
    return document | {"runs": [run | changes for run in document["runs"]]}


def test_an_anchors_rate_is_measured_on_its_gpu_and_wider_without_operations(accelerator, put, recommended):
    validate(anchor())
    rate, _, document = accelerator("g4dn.8xlarge", put(anchor()))
    measured = next(r for r in anchor()["runs"] if r["batch_size"] == 32)["samples_per_second"]
    assert rate == pytest.approx(measured, rel=0.05)
    assert document["predicted"]["provenance"] == "measured"
    assert not any("anchor" in note for note in document["extrapolation"])
    known, unknown = put(anchor()), put(anchor(captured={}), "unknown.json")
    _, narrow, _ = accelerator("g5.8xlarge", known)
    rate, wide, _ = accelerator("g5.8xlarge", unknown)
    assert rate > 0
    assert wide > narrow
    assert any("computes is not known" in warning for warning in recommended(unknown)["warnings"])


def test_an_anchor_that_the_model_or_another_gpu_makes_very_unlikely_is_told(warned, put):
    assert "contradicts" not in warned(put(anchor("resnet50")))
    odd = warned(put(anchor("resnet50", factor=2.2), "odd.json"))
    assert "odd.json, run 1 (batch 8 on T4) contradicts the other anchors, or the model" in odd
    second = put(anchor("resnet50", gpu="L4", cuda="NVIDIA L4", factor=2.5), "second.json")
    assert "second.json, run 1 (batch 8 on L4) contradicts" in warned(put(anchor("resnet50")), second)


def test_anchors_that_differ_a_little_meet_and_those_that_differ_much_are_named(accelerator, stderr, put):
    first, second = put(anchor()), put(anchor(factor=1.45), "second.json")
    fast, _, _ = accelerator("g4dn.8xlarge", first)
    both, _, _ = accelerator("g4dn.8xlarge", first, second)
    assert fast / 1.45 < both < fast
    err = stderr(*RECOMMEND, "my_net", *anchored([first, put(anchor(factor=2), "third.json")]))
    assert "anchor.json, run 1" in err
    assert "third.json, run 1" in err


def test_the_anchors_peak_rejects_cards_and_its_absence_is_said(recommended, put):
    document = anchor()
    for each in document["runs"]:
        each["gpu_peak_reserved_mib"] = 1000.0 * each["batch_size"]
    answer = recommended(put(document), more=("--batch-size", "64", "--explain-rejected"))
    rejected = {row["instance_type"]: row["reason"] for row in answer["rejected"]}
    assert rejected["g4dn.xlarge"] == "gpu_memory"
    assert "p5.4xlarge" not in rejected
    document = recommended(put(with_each_run(gpu_peak_reserved_mib=None)))
    assert any("memory of my_net is not known" in warning for warning in document["warnings"])


HUGE = 10**400  # JSON has it, no float does


@pytest.mark.parametrize(
    ("model", "document", "words"),
    [
        ("my_net", anchor(cuda="NVIDIA A100-SXM4-40GB MIG 1g.5gb"), "is a slice"),
        ("my_net", anchor("vgg16", like="vgg16"), "but of vgg16"),
        ("vgg16", anchor("my_net"), "but of my_net"),
        ("my_net", anchor(factor=1e-3), "synchronize"),  # a loop that did not wait for its GPU
        ("my_net", anchor(device={"kind": "cpu", "gpu": None}), "on a CPU"),
        ("my_net", anchor(captured={"training": {"magic": {}}}), "magic"),
        ("my_net", anchor(captured={"training": {"linear": {"count": -1}}}), "captured"),
        ("my_net", anchor(captured={"training": {"linear": {"count": HUGE}}}), "captured"),
        ("my_net", anchor(runs=[]), "nothing was measured"),
        ("missing.py:build", {"schema": 1}, "no anchor"),
        ("my_net", with_each_run(step_seconds=[HUGE] * 5), "finite"),
        ("my_net", with_each_run(step_seconds=[1e300] * 5), "more than a day"),
        ("my_net", with_each_run(batch_size=HUGE), "batch size"),
        ("my_net", with_each_run(gpu_peak_reserved_mib=HUGE), "GPU memory"),
        ("my_net", with_each_run(task="\x1b[31m"), "Task"),
        *[(name, anchor(name), "") for name in ("", " ", "\x1b[31mred", "two\nlines")],
    ],
)
def test_what_cannot_be_an_anchor_is_refused_in_one_line(refused, model, document, words):
    assert words in refused(document, model)


@pytest.mark.parametrize(
    ("more", "way_out"),
    [
        (("--input", "3x384x384"), "my_net is known at 3x224x224 alone; leave out --input"),
        (("--precision", "amp"), "but of my_net training in fp32; ask for what they are of"),
    ],
)
def test_an_anchor_tells_of_its_own_input_and_precision_alone(stderr, put, more, way_out):
    assert way_out in stderr(*RECOMMEND, "my_net", "--anchor", put(anchor()), *more)


def test_a_question_takes_the_precision_that_its_anchor_was_measured_in(answer, put):
    """Nothing was measured of what a GPU's tensor cores would do with it."""
    document = answer(*RECOMMEND, "my_net", "--anchor", put(anchor()))
    chosen = document["recommendation"]
    assert (chosen["precision"], chosen["memory_format"]) == ("fp32", "contiguous")


DATA_DEPENDENT = """
import torch
class Branches(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x.flatten(1) if x.sum().item() > 0 else -x.flatten(1))
def build():
    return Branches(3 * 224 * 224, 10)
"""


@pytest.mark.slow
def test_a_network_that_torch_cannot_follow_is_answered_with_an_anchor(answer, stderr, put, tmp_path):
    (tmp_path / "net.py").write_text(DATA_DEPENDENT)
    reference = f"{tmp_path}/net.py:build"
    assert "cannot follow" in stderr(*RECOMMEND, reference)
    document = answer(*RECOMMEND, reference, "--anchor", put(anchor(captured={})))
    assert any("its anchor alone answers" in warning for warning in document["warnings"])
