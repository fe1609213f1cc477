"""`advisor memory` from the outside: parts, GPUs, what-ifs, schema, and errors with a way out."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest

from advisor.cli import main

SCHEMA = json.loads((files("advisor.render") / "schemas/memory.schema.json").read_text())
OWN = """
import torch
INPUT_SHAPE = (3, 16, 16)
def build():
    print("a user's own words")
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(),
                               torch.nn.Linear(8 * 14 * 14, 10))
"""


def answer(capsys, *arguments):
    assert main.run(["memory", *arguments, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    return document


def test_gpus_stand_in_order_and_a_larger_one_takes_no_smaller_batch(capsys):
    gpus = answer(capsys, "--model", "bert_base")["gpus"]
    assert [one["memory_mib"] for one in gpus] == sorted(one["memory_mib"] for one in gpus)
    batches = [one["largest_batch"] or 0 for one in gpus]
    assert batches == sorted(batches)
    probabilities = [one["probability"] for one in gpus]
    assert probabilities == sorted(probabilities)


def test_named_gpus_are_the_ones_that_are_shown(capsys):
    document = answer(capsys, "--model", "vgg16", "--gpu", "t4,L4")
    assert [one["name"] for one in document["gpus"]] == ["T4", "L4"]
    assert {
        one["memory_mib"] >= 40_000 for one in answer(capsys, "--model", "vgg16", "--gpu", "40GiB..")["gpus"]
    } == {True}


@pytest.mark.slow
def test_an_own_network_is_traced_in_a_process_of_its_own(capsys, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(OWN)
    document = answer(capsys, "--model", f"{path}:build", "--gpu", "T4", "--input-size", "16")
    assert document["traced_on"] == "fake tensors"
    assert document["parts_mib"]["weights"] == pytest.approx(4 * 15_914 / 2**20, abs=0.001)


@pytest.mark.slow
def test_another_input_size_is_traced(capsys):
    small = answer(capsys, "--model", "alexnet", "--input-size", "128", "--gpu", "T4")
    own = answer(capsys, "--model", "alexnet", "--gpu", "T4")
    assert small["parts_mib"]["activations"] < own["parts_mib"]["activations"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "resnet5"], "did you mean resnet50"),
        (["--model", "missing.py:build"], "there is no file"),
        (["--model", "resnet50", "--gpu", "T44"], "unknown GPU 'T44'; did you mean"),
        (["--model", "resnet50", "--gpu", "4000GiB.."], "no GPU is like what --gpu"),
        (["--model", "resnet50", "--batch-size", "0"], "must be a number above 0"),
        (["--model", "resnet50", "--batch-size", "1.5"], "must be a whole number"),
        (["--model", "resnet50", "--optimizer", "adem"], "did you mean adam"),
        (["--model", "resnet50", "--task", "preprocessing"], "unknown task"),
        (["--model", "resnet50", "--task", "inference", "--checkpointing"], "in training only"),
        (["--model", "resnet50", "--task", "inference", "--optimizer", "sgd"], "belongs to"),
        (["--model", "resnet50", "--keep-graph"], "belongs to inference"),
        (["--model", "bert_base", "--input-size", "64"], "does not take an input of 3x64x64"),
    ],
)
def test_what_cannot_be_asked_is_one_line_with_a_way_out(capsys, arguments, said):
    assert main.run(["memory", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_file_that_fails_is_told_in_one_line(capsys, tmp_path):
    path = tmp_path / "net.py"
    path.write_text("def build():\n    return 3\n")
    assert main.run(["memory", "--model", str(path)]) == 2
    assert "returns a int, not a torch.nn.Module" in capsys.readouterr().err
