"""When a sweep is to measure anew, told by EventBridge Scheduler in the environment."""

from __future__ import annotations

import shlex

import pytest

from advisor.cli.questions import question_from
from advisor.cli.sweep import run as sweep_run
from advisor.runs.cloud.launches import launches
from advisor.runs.cloud.plan import sweep_id
from advisor.runs.sweep_questions import SweepRun

ON_AWS = (
    *shlex.split("--networks resnet50 --tasks training --vcpus 1 --memory 4GiB --disks gp3 --on"),
    *shlex.split("aws --instance g4dn.xlarge --budget 5USD --owner ada"),
)
# As <aws.scheduler.scheduled-time> is written.
FIRST, SECOND = "2026-11-16T02:00:00Z", "2026-11-23T02:00:00Z"


def named(monkeypatch, due, *more):
    """The id of the sweep that a container starts which was due then."""
    monkeypatch.setenv("ADVISOR_FRESH_SINCE", due)
    context = sweep_run.make_context("advisor sweep run", [*ON_AWS, *more])
    since = context.params["fresh_since"]
    (launch,) = launches(question_from(SweepRun, context.params), since)
    return sweep_id(launch)


@pytest.mark.parametrize("more", [(), ("--sweep-id", "weekly")])
def test_each_week_is_a_sweep_of_its_own_and_a_retry_goes_on_with_its_own(monkeypatch, more):
    first = named(monkeypatch, FIRST, *more)
    assert named(monkeypatch, FIRST, *more) == first
    assert named(monkeypatch, "2026-11-16T03:00:00+01:00", *more) == first
    assert named(monkeypatch, SECOND, *more) != first
    assert named(monkeypatch, "", *more) == named(monkeypatch, "", *more) != first


def test_the_words_of_a_command_win(monkeypatch):
    monkeypatch.setenv("ADVISOR_FRESH_SINCE", FIRST)
    context = sweep_run.make_context("run", [*ON_AWS, "--fresh-since", SECOND])
    assert context.params["fresh_since"].day == 23


def test_a_time_that_is_none_is_told_with_where_it_stands(monkeypatch, said):
    monkeypatch.setenv("ADVISOR_FRESH_SINCE", "<aws.scheduler.scheduled-time>")
    assert "ADVISOR_FRESH_SINCE" in said("sweep", "run", *ON_AWS)


def test_a_schedule_refuses_only_what_its_command_says(monkeypatch, tmp_path, shown):
    monkeypatch.setenv("ADVISOR_FRESH_SINCE", FIRST)
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path / 'x.sqlite'}")
    add = ("schedule", "add", "--cron", "0 3 * * 1", "--timezone", "UTC", "--")
    assert "fresh-since" not in shown(*add, "sweep", "run", "--preset", "small")
