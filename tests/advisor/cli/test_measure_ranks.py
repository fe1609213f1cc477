"""`advisor measure --ranks`: how a training scales over processes, and what it refuses."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import advisor.sweeps.anchors.measure as package

SCHEMA = json.loads((Path(package.__file__).parent / "anchor.schema.json").read_text())
TRAINING = ("measure", "--model", "googlenet", "--task", "training")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accelerator", "runs"), [(("--accelerator", "emulated:T4"), 0), (("--batch-size", "2"), 1)]
)
def test_two_ranks_of_one_node(ask, tmp_path, accelerator, runs):
    """Torchrun starts two; what they keep of their rate is in the file, with the all-reduce alone.
    Where the CPU computes, the rank that ran alone is a run like any other."""
    file = tmp_path / "anchor.json"
    options = ("--ranks", "2", "--minutes", "0.05", "--out", str(file), *accelerator)
    code, out, err = ask(*TRAINING, *options)
    assert code == 0, err
    document = json.loads(file.read_text())
    Draft202012Validator(SCHEMA).validate(document)
    (row,) = document["scaling"]
    assert (row["ranks"], row["nodes"], row["backend"]) == (2, 1, "gloo")
    assert row["gradient_bytes"] == pytest.approx(4 * 6_624_904, rel=1e-4)
    assert len(document["runs"]) == runs
    assert f"{row['efficiency']:.1%} of 2 times the rate of one" in " ".join(out.split())


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--nodes", "2"), "--nodes"),
        (("--ranks", "1", "--nodes", "2"), "--rendezvous"),
        (("--ranks", "1", "--nodes", "2", "--rendezvous", "10.0.0.5"), "HOST:PORT"),
        (("--ranks", "1", "--nodes", "2", "--node-rank", "3"), "node 3 of 2"),
        (("--ranks", "2", "--accelerator", "cuda:T4"), "emulated:GPU"),
        (("--ranks", "2", "--accelerator", "emulated:T5"), "T5"),
        (("--ranks", "2", "--task", "inference"), "--ranks"),
    ],
)
def test_what_goes_not_together_is_refused_before_anything_starts(ask, options, field):
    """Ranks train a network, and nodes know where the first one is."""
    code, out, err = ask("measure", "--model", "googlenet", *options)
    assert (code, out) == (2, "")
    assert field in err
