"""`advisor schedule add --report .. --send ..` as a user types it."""

import json
from importlib.resources import files

import jsonschema
import pytest

from advisor.cli.main import run as advisor

PLAN = "workloads:\n- {task: inference, model: googlenet, target_throughput: 500}\n"
HOOK = "https://hooks.example.com/services/swordfish"
TIMES = ("--cron", "0 3 * * 1", "--report-format", "md")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN)
    return tmp_path


def add(*options):
    return advisor(["schedule", "add", *TIMES, *options, "--", "fit"])


def shown(capsys):
    capsys.readouterr()
    assert advisor(["schedule", "show", "fit", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema = files("advisor.render") / "schemas/schedule.schema.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    return document["schedule"]["reporting"]


def test_what_is_reported_is_kept_and_shown_without_secrets(folder, capsys):
    assert add("--report", "plan.yaml", "--send", HOOK, "--send", "file:out/", "--send-when", "changed") == 0
    assert shown(capsys) == {
        "plan": "plan.yaml",
        "format": "md",
        "only_changes": True,
        "send": ["https://hooks.example.com/..", f"file:{folder}/out/"],
    }
    for command in (["show", "fit"], ["list"]):
        assert advisor(["schedule", *command]) == 0
        assert "swordfish" not in capsys.readouterr().out


def test_without_a_report_nothing_is_told_of_one(folder, capsys):
    assert add() == 0
    assert shown(capsys) is None


def test_the_same_schedule_again_is_there_already_and_another_report_is_refused(folder, capsys):
    assert add("--report", "plan.yaml", "--send", HOOK) == 0
    assert add("--report", "plan.yaml", "--send", HOOK) == 0
    assert add("--report", "plan.yaml", "--send", "env:OTHER") == 2
    assert "there is a schedule 'fit' already" in capsys.readouterr().err
