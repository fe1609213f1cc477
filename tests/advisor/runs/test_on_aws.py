"""A scheduled sweep on AWS: each occurrence is a sweep of its own there."""

import json
import shlex
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from advisor.cli.main import run as advisor
from advisor.cli.questions import question_from
from advisor.cli.schedule import checked_command
from advisor.cli.sweep import run as sweep_run
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.runs.cloud.exchange import End, Phase, StateLog, object_of
from advisor.runs.cloud.plan import launches, sweep_id
from advisor.runs.fitting import after_sweep
from advisor.runs.jobs import execute
from advisor.runs.schedules import ADVISOR, month_cost, started_as
from advisor.runs.sweep_questions import SweepRun
from advisor.store.measurements import open_store
from advisor.store.records import NewRun, RunState
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import this_process
from tests.advisor.store.schedules import schedule
from tests.builders import keep
from tests.sweeps.builders import measurement

COMMAND = tuple(
    shlex.split(
        "sweep run --networks resnet50 --tasks training --vcpus 1,2 --memory 4GiB --disks gp3 --on aws "
        "--instance g4dn.xlarge --budget 5USD --instance-profile none"
    )
)
DUE = datetime(2026, 11, 23, 2, tzinfo=UTC)
WEEK = timedelta(days=7)


def occurrence(due):
    """The words behind `advisor` of the run that is due then."""
    return started_as(checked_command(COMMAND).words, due.timestamp())[len(ADVISOR) :]


def id_of(due):
    context = sweep_run.make_context("run", occurrence(due)[2:])
    since = context.params["fresh_since"]
    (launch,) = launches(question_from(SweepRun, context.params), since)
    return sweep_id(launch)


def row(began):
    return measurement(started_at=began.isoformat(), step_seconds=60 * (0.1, 0.101))


def measured_there(bed, due, instance_id):
    """What a guest leaves in the bucket: a row that began after the due time, and its end."""
    box = ResultBucket(bed.aws(), "us-east-1", "results", f"sweeps/{id_of(due)}/g4dn.xlarge")
    box.put_once(*object_of(row(due + timedelta(minutes=9))))
    StateLog(box, instance_id, bed.clock).note(Phase.ENDED, End.DONE, 0, "1 trial")


def guest_of(bed, due):
    """Has the next instance measure for 20 minutes, and power off."""

    def finish(machine):
        measured_there(bed, due, machine.id)
        bed.end(machine.id, "Client.InstanceInitiatedShutdown")

    def on_answer(request):
        if request.operation == "RunInstances" and (machines := bed.instances("running")):
            bed.faulty.on_answer = lambda _: None
            moment = bed.clock.now() + timedelta(minutes=20)
            bed.clock.at(moment, lambda: finish(machines[0]))

    bed.faulty.on_answer = on_answer


@pytest.mark.slow
def test_an_occurrence_launches_once_however_often_it_is_tried(account, capsys, tmp_path):
    for weeks, launched in ((0, 1), (0, 1), (1, 2)):
        due = DUE + weeks * WEEK
        guest_of(account, due)
        assert advisor(occurrence(due)) == 0
        out = capsys.readouterr().out
        assert len(account.instances()) == launched
    document = json.loads(out)
    assert document["measured_now"] == 1
    assert 0 < document["spent_usd"] < 0.2
    with closing(open_store()) as store:
        began = [row.started_at for row in (*store.earlier(), *store.all())]
    assert began == [(DUE + n * WEEK + timedelta(minutes=9)).isoformat() for n in range(2)]


@pytest.mark.slow
def test_a_retried_run_takes_what_the_one_before_it_had_measured(account, tmp_path):
    """A controller was killed when its guest was nearly done: nothing is launched again."""
    keep(row(DUE - WEEK))
    measured_there(account, DUE, "i-0")
    checked = checked_command(COMMAND)
    with closing(ScheduleBook()) as book:
        facts = {"command": checked.words, "folder": str(tmp_path), "run_usd": checked.run_usd}
        new = schedule(timezone="Europe/Berlin", budget_usd=20.0, **facts)
        kept, due = book.add(new, now=DUE.timestamp() - 60), DUE.timestamp()
        owner = this_process()
        book.runs.claim(kept.number, due, [NewRun(due)])
        lock = book.runs.begin(1, owner, log="/log", now=due)
        book.runs.hand_back(1, owner, "ended in its middle", None)
        lock.release()
        ending = execute(book, 1, follow=lambda run: after_sweep(run.due_at), report=lambda *_: {})
        spent, _ = month_cost(book, kept, due)
    assert (ending.state, ending.trials) == (RunState.DONE, 1), ending.note
    assert ending.cost_usd is None  # the one before it spent something; all of it is counted
    assert spent == 5.0
    assert ending.report["drift"]["compared"] == 1
    assert account.instances() == []


def test_such_a_run_may_cost_its_own_budget_and_its_instance_gets_the_settings_of_a_step():
    checked = checked_command(COMMAND)
    assert (checked.run_usd, checked.usd_per_hour) == (5.0, None)
    assert checked.words[:-1] == COMMAND  # and its owner, who is part of the sweep's id
    assert json.dumps(checked_command((*COMMAND, "--owner", "ada")).words).count("owner") == 1

    def arguments(*words):
        context = sweep_run.make_context("run", [*COMMAND[2:], *words])
        (launch,) = launches(question_from(SweepRun, context.params))
        return launch.arguments

    plain, question = arguments(), ("--measure-seconds=30", "--stack=compile")
    assert not any(word.startswith(("--stack", "--memory-format", "--cudnn-benchmark")) for word in plain)
    text = arguments(*question, "--cudnn-benchmark")
    # A flag is a word of its own: the guest's command takes them as this one did.
    assert question_from(SweepRun, sweep_run.make_context("run", list(text)).params).cudnn_benchmark
    assert {word for word in text if word not in plain} == {*question, "--cudnn-benchmark"}
