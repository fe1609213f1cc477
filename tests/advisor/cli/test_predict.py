"""`advisor predict` of types that cannot be priced or judged, and where a price is from."""

import json
import shlex
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import validate

GPU_SCHEMA = json.loads((files("advisor.render") / "schemas/gpu-prediction.schema.json").read_text())
QUESTION = ("predict", "--task", "inference", "--model", "googlenet")


@pytest.mark.parametrize(
    ("instance", "said"),
    [
        (
            ("ecs.ebmgn6i.24xlarge", "--cloud", "alibaba", "--region", "cn-heyuan"),
            "no disk of known rate and price holds imagenet",
        ),
        (("standard_NC6_promo",), "cannot be judged: not known of it"),
        (("g4dn.xlrge",), "did you mean g4dn.xlarge"),
    ],
)
def test_a_type_that_cannot_be_judged_says_why(ask, instance, said):
    code, _, err = ask(*QUESTION, "--instance", *instance)
    assert code == 2
    assert said in err


def test_the_region_and_the_terms_of_a_price_are_told(ask):
    spot = (*QUESTION, "--instance", "g4dn.xlarge", "--market", "spot")
    _, out, _ = ask(*spot)
    assert "us-east-1, spot" in out
    assert "interrupted within a month" in out
    assert max(map(len, out.splitlines())) <= 100
    assert json.loads(ask(*spot, "-o", "json")[1])["region"] == "us-east-1"


def test_another_host_is_asked_about_in_the_same_words(ask):
    what_if = (*QUESTION, "--instance", "g4dn.xlarge", "--vcpus", "16", "--memory", "24GiB")
    _, out, _ = ask(*what_if)
    assert "as if it had 16 vCPUs (8 cores) and 24 GiB RAM" in " ".join(out.split())
    assert "no price" in out
    document = json.loads(ask(*what_if, "-o", "json")[1])
    assert document["what_if"]["vcpus"] == {"real": 4, "asked": 16}


@pytest.mark.parametrize(
    "wrong", [("--vcpus", "0"), ("--vcpus", "2.5"), ("--vcpus", "5000"), ("--memory", "24")]
)
def test_a_host_that_cannot_be_is_refused(ask, wrong):
    code, _, err = ask(*QUESTION, "--instance", "g4dn.xlarge", *wrong)
    assert code == 2
    assert err.startswith("advisor: ")


@pytest.mark.parametrize("gpu", ["RTX 5090", "NVIDIA GeForce RTX 3080 Laptop GPU", "T4", "h100"])
def test_a_card_by_itself_is_predicted_whoever_rents_it_out(ask, gpu):
    code, out, _ = ask(*QUESTION, "--gpu", gpu)
    assert code == 0
    assert "images/s (confidence 0.9)" in out
    document = json.loads(ask(*QUESTION, "--gpu", gpu, "-o", "json")[1])
    validate(document, GPU_SCHEMA)
    assert document["predicted"]["throughput"]["lower"] > 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((), "name an --instance"),
        (("--gpu", "RTX 5095"), "did you mean RTX 50"),
        (("--gpu", "T4", "--instance", "g4dn.xlarge"), "leave out --instance"),
        (("--gpu", "T4", "--vcpus", "8"), "leave out --vcpus"),
        (("--gpu", "RTX 4090", "--memory", "64GiB"), "`advisor catalog import own_machines.csv`"),
        (("--gpu", "NVIDIA A10-4Q"), "is a slice (4Q) of a card"),
    ],
)
def test_a_card_has_no_host_and_a_known_name(ask, wrong, said):
    code, _, err = ask(*QUESTION, *wrong)
    assert code == 2
    assert said in err


def test_a_card_that_nobody_rents_out_is_no_offer(ask):
    code, _, err = ask("recommend", "--task", "inference", "--model", "googlenet", "--gpu", "RTX 5090")
    assert code != 0
    assert "RTX 5090" in err


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


def test_what_runs_no_network_on_a_gpu_has_no_other_settings(ask):
    on_cpu = ("predict", "--task", "inference", "--model", "googlenet", "--instance", "c7i.xlarge")
    decoding = ("predict", "--task", "preprocessing", "--model", "googlenet", "--instance", "g4dn.xlarge")
    for question in (on_cpu, decoding):
        assert json.loads(ask(*question, "-o", "json")[1])["other_settings"] == []


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "--instance", "c6i.large"),
        ("compare", "--instance", "c6i.large", "--instance", "g5.xlarge"),
        ("recommend",),
    ],
)
@pytest.mark.parametrize(("cloud", "way_out"), [("AWS", "did you mean aws?"), ("foo", "it has: aws, ")])
def test_a_cloud_that_is_not_known_is_refused_everywhere(ask, command, cloud, way_out):
    """It once priced another region silently."""
    question = ("--task", "inference", "--model", "googlenet", "--cloud", cloud)
    code, out, err = ask(*command, *question)
    assert (code, out) == (2, "")
    assert f"no data on cloud '{cloud}'; {way_out}" in err


@pytest.mark.parametrize("place", [("--cloud", "gcp"), ("--cloud", "gcp", "--region", "us-central1")])
def test_an_instance_of_another_cloud_than_is_asked_for_is_refused(ask, place):
    code, _, err = ask(
        "predict", "--task", "training", "--model", "resnet50", "--instance", "g5.xlarge", *place
    )
    assert code == 2
    assert "g5.xlarge is a type of aws, not of gcp; give --cloud aws" in err


def test_a_region_of_the_default_cloud_says_nothing_of_another_clouds_type(ask):
    code, _, err = ask(
        *shlex.split("predict --task training --model resnet50 --instance g2-standard-4 --region"),
        "us-central1",
    )
    assert code == 2
    assert "give --cloud gcp" in err
