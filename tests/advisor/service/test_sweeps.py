"""Sweeps over HTTP: planned before they start, one at a time, followed live, ended politely."""

import json
from contextlib import closing

import pytest
from click.testing import CliRunner

from advisor.cli.sweep import sweep as command
from advisor.runs.jobs import events_path, sweep_of
from advisor.service.problems import without_folders
from advisor.store.records import Ending, RunState
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import this_process
from tests.advisor.render.schemas import assert_keeps

GRID = {"networks": "googlenet", "tasks": "inference", "accelerator": "emulated:T4"}
GRID |= {"vcpus": [0.5, 1], "memory": "2GiB", "disks": "gp3"}
TYPED = {**GRID, "vcpus": "0.5,1"}
FLAGS = [*(f"--{name}={value}" for name, value in TYPED.items()), "-o", "json"]


class Nobody:
    """A process that never takes its run in hand."""

    def wait(self):
        return 0


@pytest.fixture
def book():
    with closing(ScheduleBook()) as book:
        yield book


@pytest.fixture
def client(service, monkeypatch):
    monkeypatch.setattr("advisor.runs.jobs.start_executor", lambda number, **_: Nobody())
    return service


def command_output(*arguments):
    return without_folders(json.loads(CliRunner().invoke(command, arguments).stdout))


def started(client, **changes):
    answer = client.post("/v1/sweeps", json={**GRID, **changes})
    assert answer.status_code == 202, answer.text
    return answer


def begun(book, sweep_id):
    """Taken in hand by a process: its number, its owner, and its lock."""
    number, owner = sweep_of(book, sweep_id).number, this_process()
    lock = book.runs.begin(number, owner, log=book.runs.numbered(number).log, now=1.0)
    return number, owner, lock


def ended(book, sweep_id):
    number, owner, lock = begun(book, sweep_id)
    book.runs.end(number, owner, Ending(state=RunState.DONE, exit_code=0), now=2.0)
    lock.release()


def lines_of(answer):
    return [line.split(": ", 1) for line in answer.text.splitlines() if ": " in line]


def test_a_dry_run_is_the_commands_plan_and_neither_it_nor_spending_starts_anything(client):
    answer = client.post("/v1/sweeps", json={**GRID, "dry_run": True})
    assert answer.status_code == 200
    assert answer.json() == command_output("plan", *FLAGS)
    assert client.get("/v1/sweeps").json()["sweeps"] == []
    words = {"preset": "small", "on": "aws", "instance": "g4dn.xlarge", "budget": "1USD"}
    for body in (words, {**words, "on": " AWS "}):
        assert client.post("/v1/sweeps", json=body).status_code == 403
    assert client.post("/v1/schedules", json={"cron": "@daily", "sweep": words}).status_code == 403
    assert client.get("/v1/sweeps").json()["sweeps"] == []


def test_a_started_sweep_is_where_its_location_says_with_the_commands_status(client):
    answer = started(client)
    path = answer.headers["location"]
    shown = client.get(path).json()
    assert (shown["id"], shown["state"]) == (answer.json()["id"], "starting")
    for document in (answer.json(), shown):
        assert_keeps(document, "sweep-job")
    status, commands = client.get(path).json()["status"], command_output("status", *FLAGS)
    assert {**status, "at": ""} == {**commands, "at": ""}
    assert client.get(f"{path}/trials").json() == command_output("list", *FLAGS)


def test_a_second_sweep_is_a_conflict_that_names_the_first(client, book):
    first = started(client).json()["id"]
    answer = client.post("/v1/sweeps", json=GRID)
    assert answer.status_code == 409
    assert answer.json()["sweep"] == first
    listed = client.get("/v1/sweeps").json()
    assert listed["running"] == [first]
    assert_keeps(listed, "sweep-jobs")
    ended(book, first)
    started(client)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"networks": "gogglenet"}, "googlenet"),
        ({"log_file": "/tmp/x"}, "log_file"),
        ({"ray_address": "10.0.0.1:6379"}, "ray_address"),
        ({"networks": "x.py:build"}, "allow-code"),
        ({"data": "/etc"}, "allow-data"),
    ],
)
def test_bad_input_is_refused_at_once_by_name(client, changes, said):
    answer = client.post("/v1/sweeps", json={**GRID, **changes})
    assert answer.status_code == 422
    assert said in answer.text
    assert client.get("/v1/sweeps").json()["sweeps"] == []


def test_what_is_not_there_is_not_found(client):
    for path in ("/v1/sweeps/x", "/v1/sweeps/x/events", "/v1/sweeps/x/trials"):
        assert client.get(path).status_code == 404
    assert client.delete("/v1/sweeps/20260101T000000-00000000").status_code == 404


def test_events_tell_what_happened_resume_and_end_with_the_sweep(client, book):
    path = started(client).headers["location"]
    job = sweep_of(book, path.rpartition("/")[2])
    stored = {"time": "t", "event": "stored", "status": "ok", "samples_per_second": 5}
    lines = (json.dumps({**stored, "trial_id": item}) for item in ("a", "b"))
    events_path(job).write_text("".join(f"{line}\n" for line in lines))
    ended(book, job.sweep_id)
    answer = client.get(f"{path}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    names = [value for name, value in lines_of(answer) if name == "event"]
    assert names == ["trial_done", "trial_done", "progress", "end"]
    first = next(value for name, value in lines_of(answer) if name == "id")
    rest = client.get(f"{path}/events", headers={"Last-Event-ID": first})
    names = [value for name, value in lines_of(rest) if name == "event"]
    assert names == ["trial_done", "progress", "end"]


def test_listeners_are_counted_and_leave_their_seats(client, book, monkeypatch):
    path = started(client).headers["location"]
    ended(book, path.rpartition("/")[2])
    monkeypatch.setattr("advisor.service.routes.sweeps.MOST_LISTENERS", 1)
    for _ in range(3):
        assert client.get(f"{path}/events").status_code == 200
    monkeypatch.setattr("advisor.service.routes.sweeps.MOST_LISTENERS", 0)
    answer = client.get(f"{path}/events")
    assert answer.status_code == 503
    assert answer.headers["retry-after"]


def test_a_running_sweep_is_asked_to_stop_and_one_that_ended_is_left(client, book):
    answer = started(client)
    path = answer.headers["location"]
    number, owner, lock = begun(book, answer.json()["id"])
    stopped = client.delete(path)
    assert (stopped.status_code, stopped.json()["state"]) == (202, "stopping")
    book.runs.end(number, owner, Ending(state=RunState.STOPPED, exit_code=143), now=2.0)
    lock.release()
    again = client.delete(path)
    assert (again.status_code, again.json()["state"]) == (200, "stopped")
