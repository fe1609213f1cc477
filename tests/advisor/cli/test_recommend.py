"""The main question from the command line, on the bundled catalogue and performance model."""

import csv
import io
import shlex
from pathlib import Path

import pytest
import yaml

from advisor.catalog import OfferQuery, load_catalog
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
    chosen = shown(*QUESTION, "--target-throughput", "1000").splitlines()[0]
    disk = chosen.split(" + ")[1].split()[0]
    again = shown(*QUESTION, "--target-throughput", "1000", "--disk", disk).splitlines()[0]
    assert again == chosen


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
    nodes = (
        *shlex.split("recommend --task training --model resnet50 --precision amp --gpu A10G"),
        *shlex.split("--target-throughput 4000 --max-nodes 4"),
    )
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
