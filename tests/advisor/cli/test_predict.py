"""`advisor predict` of types that cannot be priced or judged, and where a price is from."""

from pathlib import Path

import pytest

QUESTION = ("predict", "--task", "inference", "--model", "googlenet")


def test_the_region_and_the_terms_of_a_price_are_told(answer, shown):
    spot = (*QUESTION, "--instance", "g4dn.xlarge", "--market", "spot")
    out = shown(*spot)
    assert "us-east-1, spot" in out
    assert "interrupted within a month" in out
    assert max(map(len, out.splitlines())) <= 100
    assert answer(*spot)["region"] == "us-east-1"


def test_another_host_is_asked_about_in_the_same_words(answer, shown):
    what_if = (*QUESTION, "--instance", "g4dn.xlarge", "--vcpus", "16", "--memory", "24GiB")
    out = shown(*what_if)
    assert "as if it had 16 vCPUs (8 cores) and 24 GiB RAM" in " ".join(out.split())
    assert "no price" in out
    document = answer(*what_if)
    assert document["what_if"]["vcpus"] == {"real": 4, "asked": 16}


@pytest.mark.parametrize("gpu", ["RTX 5090", "NVIDIA GeForce RTX 3080 Laptop GPU", "T4", "h100"])
def test_a_card_by_itself_is_predicted_whoever_rents_it_out(answer, shown, gpu):
    out = shown(*QUESTION, "--gpu", gpu)
    assert "images/s (confidence 0.9)" in out
    document = answer(*QUESTION, "--gpu", gpu)
    assert document["predicted"]["throughput"]["lower"] > 0


@pytest.mark.parametrize(("gpu", "cloud"), [("RTX 4090", "aws"), ("RTX 4090", "gcp")])
def test_a_card_that_other_clouds_rent_out_is_looked_for_there(ask, gpu, cloud):
    """Who asks for one card is not helped by another one alone."""
    command = ("recommend", "--task", "inference", "--model", "resnet50", "--gpu", gpu)
    code, _, err = ask(*command, "--target-throughput", "100", "--cloud", cloud)
    assert code == 3
    assert "relax --cloud to any" in err.replace("\n  ", " ")
    assert ask(*command, "--target-throughput", "100", "--cloud", "any")[0] == 0


def test_a_card_with_a_host_of_ones_own_is_predicted_as_an_instance(ask, tmp_path, monkeypatch):
    """The way out that the refusal of a bare card names: also for what generates text."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    code, _, err = ask("predict", "--task", "generation", "--model", "llama-3.1-8b", "--gpu", "T4")
    assert (code, "`advisor catalog import own_machines.csv`" in err) == (2, True)
    machines = Path(__file__).parents[3] / "docs" / "examples" / "own_machines.csv"
    assert ask("catalog", "import", str(machines))[0] == 0
    named = ("--instance", "workstation", "--cloud", "lab")
    generation = ("predict", "--task", "generation", "--model", "llama-3.2-3b")
    assert ask(*generation, *named, "--disk", "local")[0] == 0
    assert ask("predict", "--task", "inference", "--model", "resnet50", *named)[0] == 0
