"""Choices made from answers: what counts as exact, met and overspent, and what a trial changes."""

import json
from pathlib import Path

import pytest

from benchmarks.decisions import (
    MOST_OF_A_SOURCE,
    POLICIES,
    Candidate,
    Question,
    figures,
    main,
    single_gpu_prices,
)
from benchmarks.truth.asking import Answer
from benchmarks.truth.rows import rows_of

_STEP = {"source": "somebody", "network": "resnet50", "task": "training", "stack": "eager", "gpu": "T4"}
(ROW,) = rows_of([_STEP | {"precision": "fp32", "batch_size": "32", "step_seconds": "0.1"}])
HEAD = "source,network,task,stack,precision,gpu,gpu_count,batch_size,input,step_seconds\n"


def candidate(usd, measured, median, width=1.25):
    answer = Answer(median / width, median, median * width)
    return Candidate(f"{usd} dollars", usd, measured, answer, ROW)


CHEAP, DEAR = candidate(1, 110, 100), candidate(3, 300, 310)
BOUND, MEDIAN, EXPECTED = POLICIES["bound"], POLICIES["median"], POLICIES["expected"]


def test_the_bound_or_a_trial_decides_and_figures_count_what_a_miss_costs():
    assert BOUND(Question((CHEAP, DEAR), 75)) is CHEAP
    assert BOUND(Question((CHEAP, DEAR), 95)) is DEAR
    assert MEDIAN(Question((CHEAP, DEAR), 95)) is EXPECTED(Question((CHEAP, DEAR), 95)) is CHEAP
    assert BOUND(Question((CHEAP, DEAR), 400)) is EXPECTED(Question((CHEAP, DEAR), 400)) is None
    safe = candidate(1.1, 300, 310)
    assert MEDIAN(Question((CHEAP, safe), 99)) is CHEAP
    assert EXPECTED(Question((CHEAP, safe), 99)) is safe
    slow = candidate(1, 80, 100)
    assert BOUND(Question((CHEAP, DEAR), 95).after_trial()).gpu == CHEAP.gpu
    assert EXPECTED(Question((slow, DEAR), 95).after_trial()).gpu == DEAR.gpu
    question = Question((CHEAP, DEAR), 50)
    assert question.after_trial() is question
    learnt = Question((slow, candidate(3, 300, 90)), 95)
    assert EXPECTED(Question((slow, DEAR), 95, lambda tried: learnt).after_trial()) is None
    questions = [Question((CHEAP, DEAR), target) for target in (75, 95, 400)]
    counted = figures(questions, BOUND)
    assert counted["exact_percent"] == pytest.approx(66.67)
    assert counted["met_percent"] == 100
    assert counted["overspend_percent"] == 100  # nothing over the first, 200 % over the second
    missed, silent = Question((slow, DEAR), 95), Question((slow, DEAR), 290)
    assert figures([missed], MEDIAN)["regret_percent"] == pytest.approx(33.33)  # $1 lost on the way to $3
    assert figures([silent], lambda _: None)["regret_percent"] == 100
    assert figures([silent], EXPECTED)["regret_percent"] == 0


@pytest.mark.slow
def test_clouds_sell_single_gpus():
    prices = single_gpu_prices("list")
    assert {"T4", "L4"} <= set(prices)
    assert all(usd > 0 for usd in prices.values())
    assert single_gpu_prices()["RTX 4090"] < prices["RTX 4090"]  # a marketplace's


@pytest.fixture
def rows(tmp_path):
    file = tmp_path / "rows.csv"
    line = "somebody,resnet50,training,eager,{},{},1,32,3x224x224,{}\n"
    steps = (("T4", "fp32", 0.4), ("V100", "fp32", 0.1), ("A100", "fp32", 0.05), ("V100", "amp", 0.05))
    file.write_text(HEAD + "".join(line.format(precision, gpu, step) for gpu, precision, step in steps))
    return str(file)


@pytest.mark.slow
def test_the_command_draws_from_rows_and_counts_where_the_fastest_setting_is_predicted(rows, capsys):
    main(["--rows", rows, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "advisor.decisions/2"
    assert document["sources"] == {"somebody": MOST_OF_A_SOURCE}
    assert document["old_form"]["questions"] == 15
    assert 0 <= document["bound"]["exact_percent"] <= document["expected_with_trial"]["exact_percent"] <= 100
    file = Path(rows)
    file.write_text(file.read_text().replace("resnet50", "bert-base-uncased").replace("3x224x224", ""))
    main(["--rows", rows, "--settings", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document == {"cells": 1, "auto_measured": 1, "fastest_percent": 100.0, "missed": {}}
