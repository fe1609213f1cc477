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
def found(monkeypatch):
    def install(*findings):
        asked = []

        def examine(*, keep_leftovers):
            asked.append(keep_leftovers)
            return list(findings)

        monkeypatch.setattr(examining, "examine", examine)
        return asked

    return install


@pytest.mark.parametrize(("findings", "code"), [((FINE,), 0), ((FINE, POOR), 0), ((FINE, POOR, BAD), 1)])
def test_only_a_problem_is_an_exit_code_of_one(found, capsys, findings, code):
    found(*findings)
    assert main.run(["doctor"]) == code
    assert main.run(["doctor", "-o", "json"]) == code
    told = capsys.readouterr().out
    assert "\x1b" not in told.partition("{")[0]
    assert all(len(line) <= 100 for line in told.partition("{")[0].splitlines())


def test_what_to_do_stands_beneath_what_is_wrong(found, capsys):
    found(POOR)
    main.run(["doctor"])
    assert capsys.readouterr().out.splitlines() == [
        "warning  bundle               old",
        "                              -> upgrade",
    ]


def test_a_dry_run_removes_nothing(found):
    asked = found(FINE)
    main.run(["doctor", "--dry-run"])
    main.run(["doctor"])
    assert asked == [True, False]


@pytest.mark.machine
@pytest.mark.slow
def test_the_real_one_tells_every_check_once(capsys):
    code = main.run(["doctor", "--dry-run", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert code == (document["state"] == "problem")
    assert len(document["checks"]) == len({one["check"] for one in document["checks"]}) == 11
