"""How long a run is, asked on the command line."""

import pytest

QUESTION = ("recommend", "--task", "training", "--model", "resnet50")


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
