"""`advisor doctor`: one screen, a JSON document, and an exit code that scripts can use."""

import json

import pytest

from advisor.cli import main
from advisor.runs.doctor import examining
from advisor.runs.doctor.finding import Finding, State

FINE = Finding(State.OK, "2.60.0", check="ray")
POOR = Finding(State.WARNING, "old", "upgrade", check="bundle")
BAD = Finding(State.PROBLEM, "none \x1b[2J", "be root", check="limits")


@pytest.fixture
def examined(monkeypatch):
    def install(*findings):
        question = []

        def examine(*, keep_leftovers):
            question.append(keep_leftovers)
            return list(findings)

        monkeypatch.setattr(examining, "examine", examine)
        return question

    return install


@pytest.mark.parametrize(("findings", "code"), [((FINE,), 0), ((FINE, POOR), 0), ((FINE, POOR, BAD), 1)])
def test_only_a_problem_is_an_exit_code_of_one(examined, capsys, findings, code):
    examined(*findings)
    assert main.run(["doctor"]) == code
    assert main.run(["doctor", "-o", "json"]) == code
    out = capsys.readouterr().out
    assert "\x1b" not in out.partition("{")[0]
    assert all(len(line) <= 100 for line in out.partition("{")[0].splitlines())


def test_what_to_do_stands_beneath_what_is_wrong(examined, capsys):
    examined(POOR)
    main.run(["doctor"])
    assert capsys.readouterr().out.splitlines() == [
        "warning  bundle               old",
        "                              -> upgrade",
    ]


def test_a_dry_run_removes_nothing(examined):
    question = examined(FINE)
    main.run(["doctor", "--dry-run"])
    main.run(["doctor"])
    assert question == [True, False]


@pytest.mark.machine
@pytest.mark.slow
def test_the_real_one_tells_every_check_once(capsys):
    code = main.run(["doctor", "--dry-run", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert code == (document["state"] == "problem")
    assert len(document["checks"]) == len({check["check"] for check in document["checks"]}) == 11
