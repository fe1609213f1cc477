"""`advisor memory` from the outside: parts, GPUs and what-ifs."""

import pytest

OWN = """
import torch
INPUT_SHAPE = (3, 16, 16)
def build():
    print("a user's own words")
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(),
                               torch.nn.Linear(8 * 14 * 14, 10))
"""


@pytest.mark.slow
def test_an_own_network_is_traced_in_a_process_of_its_own(answer, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(OWN)
    document = answer("memory", "--model", f"{path}:build", "--gpu", "T4", "--input-size", "16")
    assert document["traced_on"] == "fake tensors"
    assert document["parts_mib"]["weights"] == pytest.approx(4 * 15_914 / 2**20, abs=0.001)


@pytest.mark.slow
def test_another_input_size_is_traced(answer):
    words = ("memory", "--model", "alexnet", "--gpu", "T4")
    small, own = answer(*words, "--input-size", "128"), answer(*words)
    assert small["parts_mib"]["activations"] < own["parts_mib"]["activations"]


@pytest.mark.slow
def test_a_file_that_fails_is_told_in_one_line(said, tmp_path):
    path = tmp_path / "net.py"
    path.write_text("def build():\n    return 3\n")
    assert "returns a int, not a torch.nn.Module" in said("memory", "--model", path)
