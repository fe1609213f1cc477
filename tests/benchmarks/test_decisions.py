"""Choices made from answers: what counts as exact, met and overspent, and what a trial changes."""

import json

import pytest

from benchmarks.decisions import (
    Candidate,
    Question,
    figures,
    main,
    single_gpu_prices,
    with_one_trial,
    without_trial,
)
from benchmarks.truth.asking import Answer
from benchmarks.truth.rows import rows_of

(ROW,) = rows_of(
    [
        {
            "source": "somebody",
            "network": "resnet50",
            "task": "training",
            "stack": "eager",
            "precision": "fp32",
            "gpu": "T4",
            "batch_size": "32",
            "step_seconds": "0.1",
        }
    ]
)
HEAD = "source,network,task,stack,precision,gpu,gpu_count,batch_size,input,step_seconds\n"


def candidate(usd, measured, median, width=1.25):
    answer = Answer(median / width, median, median * width)
    return Candidate(f"{usd} dollars", usd, measured, answer, ROW)


CHEAP, DEAR = candidate(1, 110, 100), candidate(3, 300, 310)


def test_without_a_trial_the_bound_decides():
    assert without_trial(Question((CHEAP, DEAR), 75)).chosen is CHEAP
    assert without_trial(Question((CHEAP, DEAR), 95)).chosen is DEAR
    assert without_trial(Question((CHEAP, DEAR), 400)).chosen is None


def test_a_trial_finds_the_cheaper_one_that_was_not_sure():
    choice = with_one_trial(Question((CHEAP, DEAR), 95))
    assert (choice.chosen, choice.trials) == (CHEAP, 1)


def test_a_trial_that_misses_leaves_what_is_sure():
    slow = candidate(1, 80, 100)
    choice = with_one_trial(Question((slow, DEAR), 95))
    assert (choice.chosen, choice.trials) == (DEAR, 1)


def test_what_is_sure_already_is_not_tried():
    assert with_one_trial(Question((CHEAP, DEAR), 50)).trials == 0


def test_a_trial_answers_the_others_anew():
    slow = candidate(1, 80, 100)
    learnt = Question((slow, DEAR), 95, lambda tried: (slow, candidate(3, 300, 90)))
    assert with_one_trial(learnt).chosen is None


def test_figures_count_exact_met_and_overspent():
    questions = [Question((CHEAP, DEAR), target) for target in (75, 95, 400)]
    found = figures(questions, [without_trial(one) for one in questions])
    assert found["exact_percent"] == pytest.approx(66.67)
    assert found["met_percent"] == 100
    assert found["overspend_percent"] == 100  # nothing over the first, 200 % over the second


@pytest.mark.slow
def test_clouds_sell_single_gpus():
    prices = single_gpu_prices()
    assert {"T4", "L4"} <= set(prices)
    assert all(usd > 0 for usd in prices.values())


@pytest.mark.slow
def test_the_command_draws_questions_from_rows(tmp_path, capsys):
    rows = tmp_path / "rows.csv"
    line = "somebody,resnet50,training,eager,fp32,{},1,32,3x224x224,{}\n"
    rows.write_text(HEAD + line.format("T4", 0.4) + line.format("V100", 0.1))
    main(["--rows", str(rows), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "advisor.decisions/1"
    assert document["questions"] == 10
    assert 0 <= document["without_trial"]["exact_percent"] <= 100
