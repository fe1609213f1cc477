"""Several GPUs and several instances from the command line, on what ships."""

import csv
import io
import json
import shlex
from pathlib import Path

import pytest

SERVING = ("recommend", "--task", "inference", "--model", "googlenet")


def test_a_table_for_a_pull_request_says_how_many_only_where_some_are_several(ask):
    question = (*SERVING, "--target-throughput", "5000", "-o", "md")
    assert "| count |" not in ask(*question)[1]
    assert "| count |" in ask(*question, "--max-count", "8")[1]


def test_a_csv_has_the_count_of_each_spec(ask):
    _, out, _ = ask(*SERVING, "--target-throughput", "5000", "--max-count", "8", "-o", "csv")
    assert {int(row["count"]) for row in csv.DictReader(io.StringIO(out))} - {1}


@pytest.mark.parametrize("most", ["0", "-1", "1.5", "many"])
@pytest.mark.parametrize("option", ["--max-count", "--max-gpus"])
def test_a_number_that_is_none_is_refused_by_name(ask, option, most):
    code, _, err = ask(*SERVING, option, most)
    assert code == 2
    assert option in err


NODES = (
    *shlex.split("recommend --task training --model resnet50 --precision amp --gpu A10G"),
    *shlex.split("--target-throughput 4000 --max-nodes 4"),
)
MEASURED = Path(__file__).parents[2] / "data" / "nodes" / "resnet50-1gbit.json"


def test_what_was_measured_between_nodes_is_an_anchor(ask):
    """The doubt that nobody measured is gone, and the bounds are others."""
    _, before, _ = ask(*NODES, "-o", "json")
    code, after, _ = ask(*NODES, "--anchor", str(MEASURED), "-o", "json")
    assert code == 0
    assert any("nobody measured" in warning for warning in json.loads(before)["warnings"])
    assert not any("nobody measured" in warning for warning in json.loads(after)["warnings"])
    lower = [json.loads(out)["recommendation"]["predicted"]["throughput"]["lower"] for out in (before, after)]
    assert lower[0] != lower[1]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--task", "inference", "--max-nodes", "2"), "--max-nodes"),
        (("--task", "training", "--max-nodes", "65"), "--max-nodes"),
        (("--task", "inference", "--anchor", str(MEASURED)), "anchor"),
    ],
)
def test_nodes_only_train(ask, options, field):
    code, out, err = ask("recommend", "--model", "resnet50", *options)
    assert (code, out) == (2, "")
    assert field in err
