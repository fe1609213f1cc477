"""How long a run is, asked on the command line."""

import csv
import io
import json
from importlib.resources import files

import jsonschema
import pytest

SCHEMA = json.loads((files("advisor.render") / "schemas/recommendation.schema.json").read_text())
QUESTION = ("recommend", "--task", "training", "--model", "resnet50")


def test_epochs_are_samples_of_the_data_set(ask):
    runs = [
        json.loads(ask(*QUESTION, *length, "-o", "json")[1])
        for length in (("--epochs", "2"), ("--samples", "2562334"))
    ]
    for document in runs:
        jsonschema.validate(document, SCHEMA)
    first, second = (document["recommendation"]["run"] for document in runs)
    assert first == second
    assert runs[0]["request"]["epochs"] == 2


def test_every_format_tells_the_run(ask):
    question = (*QUESTION, "--epochs", "90")
    document = json.loads(ask(*question, "-o", "json")[1])
    row = next(csv.DictReader(io.StringIO(ask(*question, "-o", "csv")[1])))
    said = document["recommendation"]["run"]
    assert float(row["run_hours_upper"]) == said["hours"]["upper"]
    assert float(row["run_usd_median"]) == said["usd"]["median"]
    assert "run_usd_median" in ask(*question, "-o", "md")[1]
    text = ask(*question)[1]
    assert "90 epochs" in text
    assert len(text.splitlines()) <= 27
    assert max(map(len, text.splitlines())) <= 100


def test_predict_tells_the_run_of_one_instance(ask):
    question = ("predict", "--task", "preprocessing", "--model", "resnet50", "--instance")
    code, out, _ = ask(*question, "c7i.2xlarge", "--samples", "1000000", "-o", "json")
    one = json.loads(out)
    hours = one["run"]["hours"]["median"]
    assert code == 0
    assert hours * 3600 * one["predicted"]["throughput"]["median"] == pytest.approx(1e6)
    assert "1 million samples" in ask(*question, "c7i.2xlarge", "--samples", "1000000")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--epochs", "0"], 2, "--epochs must be a number above 0"),
        (["--epochs", "many"], 2, "--epochs must be a number above 0"),
        (["--epochs", "1e306"], 2, "more than can be counted"),
        (["--samples", "1.5"], 2, "whole number"),
        (["--epochs", "2", "--samples", "4"], 2, "give one of them"),
        (["--max-hours", "5"], 2, "--max-hours limits a run; say how long it is with --epochs"),
        (["--max-cost", "5"], 2, "--max-cost limits a run"),
        (["--epochs", "90", "--max-hours", "0.1"], 3, "relax --max-hours to"),
        pytest.param(
            ["--epochs", "90", "--max-cost", "0.1"], 3, "relax --max-cost to", marks=pytest.mark.slow
        ),
    ],
)
def test_each_refusal_is_one_line_with_the_way_out(ask, arguments, code, said):
    got, _, err = ask(*QUESTION, *arguments)
    assert (got, len(err.strip().splitlines())) == (code, 1)
    assert said in err


def test_less_than_a_sample_is_no_run(ask):
    code, out, err = ask(*QUESTION, "--epochs", "1e-9")
    assert (code, out) == (2, "")
    assert "run at least one" in err
