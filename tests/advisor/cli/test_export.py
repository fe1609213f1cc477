"""`recommend --export` and `-o yaml` as a user calls them."""

from __future__ import annotations

import json

import pytest
import yaml

from advisor.cli.main import run
from advisor.render.export import FORMATS

ASK = ["recommend", "--task", "training", "--model", "resnet50", "--target-throughput", "100"]


@pytest.mark.parametrize("tool", FORMATS)
def test_the_export_is_of_the_recommended_instance_and_nothing_else(tool: str, capsys) -> None:
    """So that it can be piped into a file."""
    assert run([*ASK, "-o", "json"]) == 0
    chosen = json.loads(capsys.readouterr().out)["recommendation"]
    assert run([*ASK, "--export", tool]) == 0
    text = capsys.readouterr().out
    assert chosen["instance_type"] in text
    assert text.startswith("# resnet50 training")


def test_without_an_answer_nothing_is_exported(capsys) -> None:
    """An empty file is better than one that starts the wrong machine."""
    assert run([*ASK[:-1], "1e9", "--export", "ray"]) == 3
    assert capsys.readouterr().out == ""


def test_an_unknown_tool_is_refused(capsys) -> None:
    assert run([*ASK, "--export", "terrafrom"]) == 2
    assert "did you mean terraform?" in capsys.readouterr().err


def test_yaml_holds_what_json_holds(capsys) -> None:
    run([*ASK, "--explain", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    run([*ASK, "--explain", "-o", "yaml"])
    assert yaml.safe_load(capsys.readouterr().out) == document


@pytest.mark.parametrize(
    "option", [("-o", "json"), ("--explain",), ("--explain-rejected",), ("--max-results", "3")]
)
def test_what_an_export_would_ignore_is_refused(option, capsys) -> None:
    assert run([*ASK, "--export", "terraform", *option]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "--export prints a file" in said.err
    assert "leave out --" in said.err


@pytest.mark.parametrize("option", ["--explain", "--explain-rejected"])
def test_a_table_of_cells_explains_nothing(option, capsys) -> None:
    assert run([*ASK, option, "-o", "csv"]) == 2
    assert "goes with -o table, json or yaml" in capsys.readouterr().err
