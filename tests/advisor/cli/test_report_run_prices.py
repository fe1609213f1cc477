"""What a run costs lies as far apart as its price does: reports say so in every form."""

import json

import pytest

from advisor.units import format_usd

NETWORK = ("training", "--model", "resnet50", "--epochs", "10", "--gpu", "T4")
LANGUAGE = ("finetuning", "--model", "meta-llama/Llama-3.1-8B", "--tokens", "1e8")
ON_SPOT = ("--market", "spot", "--date", "2026-11-22")


def told(ask, question, form, language="en", where=ON_SPOT):
    options = ("--format", form, "--language", language, "--task", *question, *where)
    code, out, err = ask("report", *options)
    assert code == 0, err
    return out


def ends(document):
    (section,) = document["workloads"]
    run = section["recommendation"]["recommendation"]["run"]
    return [format_usd(run["usd_by_price"][end]) for end in ("low", "high")]


@pytest.mark.parametrize("question", [NETWORK, LANGUAGE])
def test_a_run_on_spot_says_between_what_it_lies_by_its_price(ask, question) -> None:
    """The numbers of the JSON, in text for people, in both languages."""
    low, high = ends(json.loads(told(ask, question, "json")))
    for form in ("md", "html"):
        english, chinese = (told(ask, question, form, language) for language in ("en", "zh-CN"))
        assert f"by its price {low} to {high}" in english.replace("\\$", "$")
        assert f"因价格不确定为 {low} 至 {high}" in chinese.replace("\\$", "$")


def test_a_run_at_a_recent_list_price_has_no_such_sentence(ask) -> None:
    """Its disk is free, and its price is what will be paid."""
    where = ("--market", "on-demand", "--disk", "instance_store", "--date", "2026-07-21")
    text = told(ask, NETWORK, "md", where=where)
    assert "Run costs: median" in text
    assert "by its price" not in text
