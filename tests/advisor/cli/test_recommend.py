"""`advisor recommend`, `predict`, `compare`, `memory` and `networks` as a user calls them."""

import csv
import io
import re
from pathlib import Path

import pytest
import yaml

from advisor.catalog import OfferQuery, load_catalog
from advisor.errors import DataError
from advisor.messages import format_rate
from advisor.models.performance import load_model
from advisor.questions.spec import CLOUD

pytestmark = pytest.mark.vector

QUESTION = ("recommend", "--task", "inference", "--model", "googlenet")
ROOT = Path(__file__).parents[3]
CATALOG, MODEL = load_catalog(), load_model()


@pytest.mark.parametrize(("today", "code"), [("2026-07-21", 0), ("2028-07-19", 0), ("2028-07-20", 5)])
def test_strict_takes_prices_for_as_long_as_their_source_keeps(ask, monkeypatch, today, code):
    """AWS's newest list is of 2026-07-20 and keeps for 730 days."""
    monkeypatch.setenv("ADVISOR_TODAY", today)
    assert ask(*QUESTION, "--strict")[0] == code


def test_a_printed_disk_can_be_asked_for(shown):
    asked = (*QUESTION, "--target-throughput", "1000")
    chosen = shown(*asked).splitlines()[0]
    disk = chosen.split(" + ")[1].split()[0]
    assert shown(*asked, "--disk", disk).splitlines()[0] == chosen


def test_a_damaged_model_is_named_with_the_way_out(stderr, tmp_path):
    shipped = Path("advisor/data/performance/default_model.json")
    damaged = tmp_path / "model.json"
    damaged.write_text((ROOT / shipped).read_text()[:-200])
    assert str(damaged) in stderr(*QUESTION, "--performance-model", damaged, code=1)


def test_help_names_every_cloud_that_is_ranked(shown):
    ranked = {offer.instance.cloud for offer in CATALOG.offers(OfferQuery(cloud="any"))}
    text = shown("recommend", "--help-all")
    named = " ".join(text.partition("--cloud ")[2].partition(" --region ")[0].split())
    assert ranked <= set(named.replace(",", "").split())
    assert [name for name in CATALOG.clouds if name not in CLOUD.help] == []
    of_task = re.findall(
        r"^  (--[a-z-]+)", shown("recommend", "--task", "finetuning", "--help-all"), re.MULTILINE
    )
    assert len(of_task) == len(set(of_task))
    assert not {"--engine", "--precision", "--guidance", "--epochs"} & set(of_task)


FEW = ("--target-throughput", "5000", "--gpu", "T4,L4,A10G")


@pytest.mark.parametrize("most", [1, 3, 10])
@pytest.mark.parametrize("more", [("--target-throughput", "500"), FEW, ()])
def test_every_format_has_as_many_specs(answer, shown, most, more):
    """--max-results counts the recommended one; the default counts as if it were written."""
    words = (*QUESTION, *more, *(() if most == 10 else ("--max-results", str(most))))
    document = answer(*words)
    specs = 1 + len(document["alternatives"])
    assert specs <= most
    assert len(list(csv.DictReader(io.StringIO(shown(*words, "-o", "csv"))))) == specs
    markdown = shown(*words, "-o", "md")
    others = markdown.partition("<summary>Alternatives</summary>")[2].partition("</details>")[0]
    rows = [line for line in others.splitlines() if line.startswith("| ")]
    assert len(rows[2:]) == specs - 1
    text = shown(*words, "--explain")
    table = text.partition("Alternatives")[2].partition("\n\n")[0].splitlines()
    # A row that has no room is folded: what goes on has no price.
    assert sum("$" in line for line in table) == specs - 1
    assert (document["others"] is None) == (specs == most)
    if document["others"]:
        assert document["others"] in markdown


def test_what_was_measured_between_nodes_is_an_anchor(answer):
    """The doubt that nobody measured is gone, and the bounds are others."""
    run = "--precision amp --gpu A10G --target-throughput 4000 --max-nodes 4"
    nodes = ("recommend", "--task", "training", "--model", "resnet50", *run.split())
    measured = ROOT / "tests" / "data" / "nodes" / "resnet50-1gbit.json"
    before, after = answer(*nodes), answer(*nodes, "--anchor", measured)
    assert any("nobody measured" in warning for warning in before["warnings"])
    assert not any("nobody measured" in warning for warning in after["warnings"])
    lower = [each["recommendation"]["predicted"]["throughput"]["lower"] for each in (before, after)]
    assert lower[0] != lower[1]


EXPORTED = ("recommend", "--task", "training", "--model", "resnet50", "--target-throughput", "100")


def test_yaml_holds_what_json_holds_and_without_an_answer_nothing_is_exported(answer, shown):
    assert yaml.safe_load(shown(*EXPORTED, "--explain", "-o", "yaml")) == answer(*EXPORTED, "--explain")
    assert shown(*EXPORTED[:-1], "1e9", "--export", "ray", code=3) == ""


RESNET = ("--task", "training", "--model", "resnet50")


@pytest.mark.parametrize(
    ("command", "option", "names"),
    [
        (("compare", *RESNET), "--gpu", ("T4", "A10G")),
        (("compare", "--task", "training", "--model", "vgg16"), "--instance", ("g5.xlarge", "g6.xlarge")),
        (("compare", "--task", "training", "--gpu", "T4,L4"), "--model", ("resnet50", "vgg16")),
        (("recommend", *RESNET), "--gpu", ("T4", "L4")),
        (("catalog", "list"), "--gpu", ("T4", "L4")),
    ],
)
def test_a_list_may_be_given_again_or_with_commas(command, option, names, shown):
    again = [word for name in names for word in (option, name)]
    ways = [option, ",".join(names)], again, [f"{option}={name}" for name in names]
    first, *others = (shown(*command, *words, "-o", "json") for words in ways)
    assert others == [first, first]
    assert all(name in first for name in names)


@pytest.mark.slow
def test_another_input_size_is_traced(answer):
    words = ("memory", "--model", "alexnet", "--gpu", "T4")
    small, own = answer(*words, "--input-size", "128"), answer(*words)
    assert small["parts_mib"]["activations"] < own["parts_mib"]["activations"]


def test_a_rate_is_told_for_every_network_and_the_list_comes_without_a_performance_model(
    answer, stderr, monkeypatch
):
    """What others measured on some GPU with PyTorch, as ResNet-50, is more than modelled."""
    listed = {row["name"]: row for row in answer("networks")["networks"]}
    assert set(listed) == set(load_model().table.names)
    for row in listed.values():
        assert set(row["rates"]) == {"training", "inference"}
        assert None not in row["rates"].values()
        for task, rate in row["rates"].items():
            assert (rate == "published") == (row["gpus_measured"][task] > 0)
    assert listed["resnet50"]["rates"]["inference"] == "published"

    def damaged():
        raise DataError("the model is damaged; install the package again")

    monkeypatch.setattr("advisor.cli.answering.load_model", damaged)
    assert "damaged" in stderr("networks", code=0)
    assert all(rate is None for row in answer("networks")["networks"] for rate in row["rates"].values())


INFER = ("--task", "inference", "--model", "resnet50")


def test_an_instance_is_held_against_the_limits_of_the_question(answer, shown):
    ask = [*INFER, "--target-throughput", "1000", "--max-latency-ms", "50"]
    best = answer("recommend", *ask)["recommendation"]
    one = best["instance_type"]
    alone = answer("predict", *ask, "--instance", one)
    assert alone["batch_size"] == best["batch_size"]
    assert not [text for text in alone["warnings"] if "misses" in text]
    both = answer("compare", *ask, "--max-price", "0.6", "--instance", f"{one},g4dn.xlarge")
    dear, slow = both["rows"]
    assert dear["batch_size"] == best["batch_size"]
    assert any("is above $0.600/h" in text for text in dear["warnings"])
    assert any("below 1,000/s" in text for text in slow["warnings"])
    assert "\n  misses      its median is" in shown("predict", *ask, "--instance", "g4dn.xlarge")


def test_the_users_own_data_may_have_another_number_of_samples(answer):
    ask = ("predict", *RESNET, "--instance", "g5.xlarge", "--epochs", "10")
    few = answer(*ask, "--dataset-samples", "50k")
    assert few["run"]["samples"] == 500_000
    assert few["request"]["dataset"]["samples"] == 50_000
    assert few["run"]["hours"]["median"] < answer(*ask)["run"]["hours"]["median"] / 10


SERVED = ("--task", "generation", "--users", "20", "--model")


def test_a_start_file_serves_the_formats_checkpoint_and_what_drafts_stands_in_the_answer(shown):
    started = ("--precision", "fp8", "--export", "skypilot")
    known = shown("recommend", *SERVED, "Qwen/Qwen3-32B", *started)
    assert "vllm serve Qwen/Qwen3-32B-FP8 " in known
    base = shown("recommend", *SERVED, "meta-llama/Llama-3.1-8B", *started)
    assert "vllm serve meta-llama/Llama-3.1-8B " in base
    assert "instruction-tuned model: nvidia/Llama-3.1-8B-Instruct-FP8" in base
    ask = ("recommend", *SERVED, "meta-llama/Llama-3.1-70B", "--max-tpot-ms", "22", "--explain")
    text = shown(*ask, "--draft-model", "meta-llama/Llama-3.1-8B", "--draft-acceptance", "0.7,4")
    words = " ".join(text.split())
    assert words.count("4 tokens a step drafted by meta-llama/Llama-3.1-8B") == 2  # runs, and assumed


def test_loads_have_the_percentile_that_is_limited(answer, shown):
    ask = ("recommend", *SERVED, "meta-llama/Llama-3.1-8B", "--max-ttft-ms", "p99:2000")
    document, text = answer(*ask), shown(*ask, "--explain")
    assert "p99 TTFT ms" in text
    assert "(limit 2 s; 90 % sure of" in text
    for point in document["serving"]["front"]:
        told = format_rate(1000 * point["percentiles"]["ttft_seconds"]["p99"]["median"])
        assert f" {told} " in text
    assert "--max-ready-s" not in text  # nobody asked how soon it serves


def test_a_quota_says_what_it_costs(shown):
    """The short answer and `--explain` name the cheaper spec, in the letters that people type."""
    asked = ("recommend", "--task", "inference", "--model", "resnet50", "--target-throughput", "2000")
    unlimited = shown(*asked, "--quota", "G=400")
    name, usd = unlimited.split(" + ")[0], unlimited.split("   ")[1].split("/")[0]
    assert "leaves out" not in unlimited
    for more in ((), ("--explain",)):
        text = " ".join(shown(*asked, "--quota", "G=8", *more).split())
        assert f"quota G=8 leaves out {name} ({usd}/h, " in text
        assert "which needs G=16; P is taken as unlimited (--quota)" in text
    text = shown(*asked, "--quota", "G=0,P=0", code=3)
    assert "--quota G=16,P=0 (not G=0,P=0)" in text
    assert "L-" not in text


def test_a_region_is_one_and_an_answer_names_the_clouds_that_have_it(shown, stderr):
    for region in ("us-east-1,eu-west-1", "any"):
        for cloud in ("aws", "any"):
            said = stderr(*QUESTION, "--region", region, "--cloud", cloud)
            assert "--region takes one region; ask once for each of them" in said
    text = shown(*QUESTION, "--target-throughput", "500", "--cloud", "any", "--region", "eu-central-1")
    assert "only aws, alibaba: no other cloud names a region eu-central-1" in " ".join(text.split())


def test_a_cloud_whose_commitments_nobody_lists_says_so(shown):
    text = shown(*QUESTION, "--cloud", "azure", "--market", "commitment-3y", code=3)
    assert "commitment prices are not known offline: azure" in " ".join(text.split())
