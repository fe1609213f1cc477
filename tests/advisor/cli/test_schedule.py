"""`advisor schedule` as a user types it."""

import json
import os
import shlex
import sys
from contextlib import closing
from importlib.resources import files

import jsonschema
import pytest
from click.testing import CliRunner

from advisor.cli.main import run as advisor
from advisor.cli.schedule import schedule
from advisor.store.records import Ending, NewRun, RunState
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import this_process

SCHEMAS = files("advisor.render") / "schemas"
WEEKLY = ("--cron", "0 3 * * 1", "--timezone", "Europe/Berlin")
SWEEP = ("sweep", "run", "--preset", "small")
GRID = (
    *shlex.split("sweep run --networks resnet50 --tasks training --vcpus 1,2 --memory 4GiB"),
    *shlex.split("--disks gp3 --accelerator emulated:T4"),
)
ON_AWS = (*GRID, "--on", "aws", "--instance", "g4dn.xlarge", "--budget", "5USD")
REPORT = {
    "fit": {
        "kept": "new",
        "why": "on 9 fresh trials ..",
        "new_model": "abc",
        "last_model": "def",
        "held_out_rows": 9,
        "fitted": 29,
        "last_is_held_out": True,
        "new_error_percent": {"median": 4.0, "p90": 9.0},
        "last_error_percent": {"median": 30.0, "p90": 40.0},
    },
    "drift": {
        "compared": 9,
        "beyond_interval": 1,
        "median_change_percent": -3.1,
        "changed": ["torch 2.13.0 -> 2.14.0"],
        "trials": [
            {
                "trial_id": "0123",
                "trial": "googlenet inference on cpu",
                "change_percent": -33.3,
                "before": {"lower": 99.0, "rate": 100.0, "upper": 101.0, "started_at": "then"},
                "now": {"lower": 66.0, "rate": 66.7, "upper": 67.0},
            }
        ],
        "last_model": {"rows": 9, "outside": 1, "expected": 1.8, "confidence": 0.9},
    },
    "sizing_report": {
        "headline": "What changed from 2026-10-01 to 2026-11-01: 1 of 1 workload, 1 pick",
        "changed": True,
        "error": None,
        "deliveries": [
            {"target": "s3://team/a", "state": "arrived", "attempts": 1, "error": None},
            {"target": "https://x/..", "state": "kept", "attempts": 4, "error": "it is away"},
        ],
    },
}


def ask(*arguments, exit_code=0):
    result = CliRunner().invoke(schedule, [*map(str, arguments)])
    assert result.exit_code == exit_code, result.output
    return result.stdout


def add(*options, command=SWEEP):
    return ask("add", *WEEKLY, *options, "--", *command)


def described(name, *arguments):
    """The document on stdout, held against its schema."""
    document = json.loads(ask(*arguments, "-o", "json"))
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    return document


def refused(capsys, *arguments):
    """What is said of a wrong command; exit code 2."""
    assert advisor(["schedule", *map(str, arguments)]) == 2
    return capsys.readouterr().err


@pytest.fixture
def ended():
    """A run of `sweep-run` that has ended, with its report."""
    add("--budget-per-month", "20USD", command=(*SWEEP, "--usd-per-hour", "0.5"))
    book = ScheduleBook()
    owner = this_process()
    (kept,) = book.all()
    due = kept.created_at + 60
    book.runs.claim(kept.number, due, [NewRun(due)])
    (run,) = book.runs.open()
    lock = book.runs.begin(run.number, owner, log="/log", now=due)
    ending = Ending(state=RunState.DONE, exit_code=0, cost_usd=0.25, trials=9, report=REPORT)
    book.runs.end(run.number, owner, ending, now=due + 600)
    lock.release()
    book.close()


def test_a_schedule_is_added_listed_shown_and_removed():
    said = add()
    assert "Added 'sweep-run': Mon " in said
    assert "03:00 CE" in said
    assert "advisor sweep run --preset small" in said
    assert "No daemon runs" in said
    assert "sweep-run  Mon " in ask("list")
    assert "No runs yet." in ask("show", "sweep-run")
    assert ask("remove", "sweep-run") == "Removed 'sweep-run'.\n"
    assert "No schedules yet" in ask("list")


def test_no_schedules_are_told_without_making_a_database(tmp_path, monkeypatch):
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/none.sqlite")
    assert "No schedules yet" in ask("list")
    assert described("schedules", "list")["schedules"] == []
    assert list(tmp_path.iterdir()) == []


def test_advisor_itself_may_stand_before_the_command():
    assert "advisor fit\n" in add("--name", "nightly", command=("advisor", "fit"))
    document = described("schedule", "show", "nightly")
    assert document["schedule"]["command"] == ["fit"]


def test_a_sweep_on_aws_is_added_with_its_owner_and_aws_is_not_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setitem(sys.modules, "botocore", None)
    add("--name", "gpu", "--budget-per-month", "20USD", command=(*ON_AWS, "--owner", "ada"))
    assert "--owner ada" in ask("show", "gpu")
    add("--name", "small", command=("sweep", "run", "--preset", "small", *ON_AWS[-6:]))
    assert "--owner" in ask("show", "small")


def test_a_run_is_told_with_its_cost_its_fit_and_what_drifted(ended):
    listed = ask("list")
    assert "$0.250 of $20.00" in listed
    assert "1 of 9 rates drifted beyond their interval (torch 2.13.0 -> 2.14.0)" in listed
    shown = ask("show", "sweep-run")
    assert "done, 9 measured, 10 min, $0.250" in shown
    assert "kept model abc (new)" in shown
    assert "-33.3 %  100 -> 66.7/s  googlenet inference on cpu" in shown
    assert "What changed from 2026-10-01" in shown
    assert "sent to s3://team/a" in shown
    assert "kept, to be tried again: it is away" in shown


def test_a_run_that_was_left_out_hides_no_drift(ended):
    with closing(ScheduleBook()) as book:
        (kept,) = book.all()
        due = kept.created_at + 120
        skipped = NewRun(due, RunState.SKIPPED, "the run before it was still going")
        book.runs.claim(kept.number, due, [skipped])
    listed = ask("list")
    assert "skipped" in listed
    assert "1 of 9 rates drifted" in listed


def test_the_documents_keep_their_schemas(ended):
    with closing(ScheduleBook()) as book:
        lock = book.daemon.take(this_process())
        listed = described("schedules", "list")
        lock.release()
    assert listed["leader"]["pid"] == os.getpid()
    (one,) = listed["schedules"]
    assert one["last_run"]["drift"] == REPORT["drift"]
    assert one["left_usd"] == 19.75
    shown = described("schedule", "show", "sweep-run")
    assert shown["runs"] == [one["last_run"]]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((), "no command is given"),
        (("sweep", "status"), "`sweep status` cannot be scheduled"),
        (("rm", "-rf", "/"), "`rm -rf` cannot be scheduled"),
        (("sweep", "run"), "a sweep needs --networks"),
        ((*SWEEP, "--tasks", "training"), "--preset decides about --tasks already"),
        ((*SWEEP, "--budget", "5USD"), "only with --adaptive"),
        ((*SWEEP, "--nonsense"), "No such option"),
        ((*GRID, "--networks", "resnt50"), "did you mean resnet50"),
        ((*GRID, "--disks", "gp9"), "did you mean gp3"),
        ((*GRID, "--accelerator", "emulated:T5"), "unknown GPU 'T5'"),
        ((*GRID, "--adaptive", "--budget", "5USD"), "needs the price of this host"),
        ((*GRID, "--region", "us-east-1"), "only with --on aws"),
        ((*ON_AWS, "--networks", "resnt50"), "did you mean resnet50"),
        ((*ON_AWS, "--budget", "5h"), "takes a --budget of money"),
        ((*ON_AWS, "--instance", "g4dn.xlrge"), "did you mean g4dn.xlarge"),
        ((*ON_AWS, "--instance", "t2.nano"), "take a larger --instance"),
        ((*ON_AWS, "--region", "us-est-1"), "unknown region 'us-est-1'"),
        ((*ON_AWS, "--ray-address", "auto"), "--ray-address is a cluster of yours"),
        ((*ON_AWS, "--dry-run"), "leave --dry-run out"),
        ((*SWEEP, "-o", "json"), "leave -o out"),
        ((*SWEEP, "--fresh-since", "2026-11-21T03:00Z"), "leave --fresh-since out"),
        (("fit", "--out"), "requires an argument"),
        (("catalog", "refresh", "--market", "spott"), "did you mean spot"),
    ],
)
def test_a_command_that_would_be_refused_is_refused_when_it_is_added(capsys, command, words):
    assert words in refused(capsys, "add", *WEEKLY, "--", *command)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cron", "0 3 * *"), "has 4 fields"),
        (("--cron", "0 3 30 2 *"), "bad day-of-month"),
        ((*WEEKLY[:2], "--timezone", "Berlin"), "Europe/Berlin"),
        ((*WEEKLY, "--misfire", "later"), "unknown misfire 'later'"),
        ((*WEEKLY, "--name", "../up"), "must be up to 64 letters"),
        ((*WEEKLY, "--budget-per-month", "20trials"), "is money, as 20USD"),
        ((*WEEKLY, "--budget-per-month", "20USD"), "needs to know what a run costs"),
    ],
)
def test_wrong_options_are_refused_with_the_way_out(capsys, options, words):
    assert words in refused(capsys, "add", *options, "--", *SWEEP)


def test_unknown_names_get_the_nearest(capsys):
    add()
    assert "did you mean sweep-run" in refused(capsys, "show", "sweeprun")
    assert "did you mean sweep-run" in refused(capsys, "remove", "sweep-rum")
