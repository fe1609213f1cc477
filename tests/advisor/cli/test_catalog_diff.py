"""`advisor catalog diff` and `refresh`: what changed in prices, and for saved answers."""

from __future__ import annotations

import json
import shlex
from datetime import date

import pytest

from advisor.catalog.overlay import Overlay, keep_overlay
from advisor.domain import Market, Price
from tests.advisor.live.aws import T4, fill, known_prices
from tests.advisor.live.conftest import no_real_aws, recorded  # noqa: F401
from tests.infra.live.recorded import product

QUESTION = (*shlex.split("--task inference --model googlenet --target-throughput 500 --region us-east-1"),)
GENERATION = ("--task", "generation", "--model", "Llama-3.1-8B")


@pytest.fixture
def saved(shown, tmp_path):
    """A saved answer by the snapshot that ships."""
    path = tmp_path / "answer.json"
    path.write_text(shown("recommend", *QUESTION, "-o", "json"))
    return path


def refreshed(folder, name, usd):
    """A folder in which one type's on-demand price in us-east-1 was refreshed."""
    price = Price(usd_per_hour=usd, kind="list", as_of=date(2026, 11, 21), source="AWS")
    return keep_overlay(folder, "aws", Overlay({(name, "us-east-1", Market.ON_DEMAND): price}))


@pytest.fixture
def difference(answer):
    return lambda *words: answer("catalog", "diff", *words)


def test_one_refreshed_price_is_the_one_change(difference, tmp_path):
    file = refreshed(tmp_path / "own", "g5.xlarge", 0.5)
    for location in (file, str(file.parent)):
        where = ("--region", "us-east-1", "--market", "on-demand")
        (row,) = difference("bundle", location, *where)["prices"]
        assert (row["instance_type"], row["region"]) == ("g5.xlarge", "us-east-1")
        assert (row["old"]["usd_per_hour"], row["new"]["usd_per_hour"]) == (1.006, 0.5)
        assert row["percent"] == pytest.approx(100 * (0.5 / 1.006 - 1))


@pytest.mark.parametrize(
    "question",
    [
        QUESTION,
        (*GENERATION, "--users", "40", "--cloud", "any", "--market", "any"),
        GENERATION,
        ("--task", "finetuning", "--tokens", "50000000", "--cloud", "any", *GENERATION[2:]),
    ],
)
def test_a_catalogue_does_not_differ_from_itself_and_prices_saved_answers_as_they_say(
    difference, shown, tmp_path, question
):
    path = tmp_path / "answer.json"
    path.write_text(shown("recommend", *question, "-o", "json"))
    same = ("bundle", "bundle", "--region", "us-east-1", "--answers", path)
    document = difference(*same)
    assert document["prices"] == []
    assert {row["changed"] for row in document["totals"]} == {0}
    (row,) = document["answers"]
    same_pick = {"new": row["recommended"], "old": row["recommended"], "changed": False}
    assert row["cheapest"] == row["cheapest"] | same_pick
    for spec in row["specs"]:
        assert spec["old"] == spec["new"] == pytest.approx(spec["saved_usd_per_hour"])
    assert "stays the choice" in shown("catalog", "diff", *same)


def test_what_becomes_cheaper_overtakes_in_a_saved_answer(difference, shown, saved, tmp_path):
    document = json.loads(saved.read_text())
    pick, other = document["recommendation"], document["alternatives"][-1]
    tenth = other["price"]["usd_per_hour"] / 10
    file = refreshed(tmp_path / "own", other["instance_type"], tenth)
    words = ("bundle", file, "--region", "us-east-1", "--answers", saved)
    (row,) = difference(*words)["answers"]
    first, cheapest = row["specs"][0], row["cheapest"]
    assert cheapest["changed"] is True
    assert cheapest["old"]["instance_type"] == pick["instance_type"]
    assert cheapest["new"]["instance_type"] == other["instance_type"]
    assert first["old"] == first["new"] == pytest.approx(first["saved_usd_per_hour"])
    out = shown("catalog", "diff", *words)
    assert f"{other['instance_type']} becomes the choice, before {pick['instance_type']}" in out


@pytest.fixture
def aws(recorded, monkeypatch):  # noqa: F811
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-21")
    fill(recorded, known_prices(T4))
    return recorded


REFRESH = ("catalog", "refresh", *[f"--instance={name}" for name in T4])


def test_what_changed_is_told_and_used_until_it_is_forgotten(answer, shown, ask, aws):
    aws.products["g4dn.xlarge"] = [product("g4dn.xlarge", "0.4")]
    code, out, err = ask(*REFRESH)
    assert code == 0
    assert "6 of 6 prices taken on 2026-11-21, 4 of them new or changed; 0 refused" in out
    assert "-24 %" in next(line for line in out.splitlines() if line.startswith("g4dn.xlarge"))
    assert "on-demand prices: 3 of 3" in err
    assert len(shown("catalog", "refresh", "--show").splitlines()) == 7
    listed = answer("catalog", "list", "--instance", "g4dn.xlarge", "--region", "us-east-1")
    prices = {offer["market"]: offer["price"] for offer in listed["offers"]}
    assert prices["on-demand"]["usd_per_hour"] == 0.4
    assert prices["spot"]["kind"] == "observed"
    assert "refreshed prices of AWS 2026-11-21" in " ".join(listed["sources"])
    assert ask("catalog", "refresh", "--forget") == (0, "", "back to the snapshot\n")
    assert ask("catalog", "refresh", "--forget") == (0, "", "nothing had been refreshed\n")
