"""`advisor schedule` as a user types it. `advisor schedule add --report .. --send ..` as a user types it."""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from advisor.store.records import Ending, NewRun, RunState
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import this_process

WEEKLY = ("--cron", "0 3 * * 1", "--timezone", "Europe/Berlin")
SWEEP = ("sweep", "run", "--preset", "small")
AWS = ("--on", "aws", "--instance", "g4dn.xlarge", "--budget", "5USD")
GRID = "--networks resnet50 --tasks training --vcpus 1,2 --memory 4GiB --disks gp3 --accelerator emulated:T4"
REPORT = json.loads((Path(__file__).parents[2] / "data" / "scheduled_run.json").read_text())


@pytest.fixture
def schedule(shown):
    return lambda *words, code=0: shown("schedule", *words, code=code)


@pytest.fixture
def add(schedule):
    return lambda *options, command=SWEEP: schedule("add", *WEEKLY, *options, "--", *command)


@pytest.fixture
def ended(add):
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


def test_a_schedule_is_added_listed_shown_and_removed(add, schedule):
    said = add()
    parts = (
        "Added 'sweep-run': first Mon ",
        "03:00 CE",
        "advisor sweep run --preset small",
        "No daemon runs",
    )
    assert [part for part in parts if part not in said] == []
    assert "Already there: 'sweep-run': first Mon " in add()
    assert "sweep-run  Mon " in schedule("list")
    assert "No runs yet." in schedule("show", "sweep-run")
    assert schedule("remove", "sweep-run") == "Removed 'sweep-run'.\n"
    assert "No schedules yet" in schedule("list")


def test_no_schedules_are_told_without_making_a_database(answer, schedule, tmp_path, monkeypatch):
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/none.sqlite")
    assert "No schedules yet" in schedule("list")
    assert answer("schedule", "list")["schedules"] == []
    assert list(tmp_path.iterdir()) == []


def test_advisor_itself_may_stand_before_the_command_and_without_a_report_there_is_none(add, answer):
    options = ("--name", "nightly", "--report-format", "md")
    assert "advisor fit\n" in add(*options, command=("advisor", "fit"))
    schedule = answer("schedule", "show", "nightly")["schedule"]
    assert (schedule["command"], schedule["reporting"]) == (["fit"], None)


def test_a_sweep_on_aws_is_added_with_its_owner_and_aws_is_not_asked(add, schedule, monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setitem(sys.modules, "botocore", None)
    grid = ("sweep", "run", *GRID.split(), *AWS, "--owner", "ada")
    add("--name", "gpu", "--budget-per-month", "20USD", command=grid)
    assert "--owner ada" in schedule("show", "gpu")
    add("--name", "small", command=(*SWEEP, *AWS))
    assert "--owner" in schedule("show", "small")


def test_a_run_is_told_with_its_cost_its_fit_and_what_drifted(schedule, ended):
    listed = schedule("list")
    assert "$0.250 of $20.00" in listed
    shown = schedule("show", "sweep-run")
    assert "done, 9 measured, 10 min, $0.250" in shown
    assert "kept the new model" in shown
    assert "drift: 1 of 9 rates beyond their interval" in shown
    assert "-33.3 %  googlenet inference on cpu" in shown
    assert "What changed from 2026-10-01" in shown
    assert "arrived: s3://team/a" in shown
    assert "failed: it is away" in shown


def test_the_documents_keep_their_schemas(answer, ended):
    with closing(ScheduleBook()) as book:
        lock = book.lead(this_process())
        listed = answer("schedule", "list")
        lock.release()
    assert listed["leader"]["pid"] == os.getpid()
    (row,) = listed["schedules"]
    assert (row["last_run"]["drift"], row["left_usd"]) == (REPORT["drift"], 19.75)
    assert answer("schedule", "show", "sweep-run")["runs"] == [row["last_run"]]


def test_unknown_names_get_the_nearest(add, stderr):
    add()
    assert "did you mean sweep-run" in stderr("schedule", "show", "sweeprun")
    assert "did you mean sweep-run" in stderr("schedule", "remove", "sweep-rum")


PLAN = "workloads:\n- {task: inference, model: googlenet, target_throughput: 500}\n"
HOOK = "https://hooks.example.com/services/swordfish"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN)
    return tmp_path


@pytest.fixture
def reporting(add, answer, folder):
    """What is kept of a report that a schedule sends."""

    def kept(*options):
        add("--report-format", "md", *options, command=("fit",))
        return answer("schedule", "show", "fit")["schedule"]["reporting"]

    return kept


def test_what_is_reported_is_kept_and_shown_without_secrets(reporting, schedule, folder):
    sends = ("--send", HOOK, "--send", "file:out/", "--send-when", "changed")
    kept = reporting("--report", "plan.yaml", *sends)
    assert kept.pop("send") == ["https://hooks.example.com/..", f"file:{folder}/out/"]
    assert kept == {"plan": "plan.yaml", "format": "md", "only_changes": True}
    for command in (["show", "fit"], ["list"]):
        assert "swordfish" not in schedule(*command)


def test_the_same_schedule_again_is_there_already_and_another_report_is_refused(reporting, stderr):
    same = reporting("--report", "plan.yaml", "--send", HOOK)
    assert reporting("--report", "plan.yaml", "--send", HOOK) == same
    other = ("--report-format", "md", "--report", "plan.yaml", "--send", "env:OTHER", "--", "fit")
    assert "there is a schedule 'fit' already" in stderr("schedule", "add", *WEEKLY, *other)
