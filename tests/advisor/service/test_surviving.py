"""kill -9 of a real server: what was acknowledged stays, and a real sweep goes on."""

import http.client
import json
import time

import pytest

from benchmarks.served import Served
from tests.advisor.service.kills import Series, made_photographs
from tests.processes import gone

SWEEP = {
    "networks": "googlenet",
    "tasks": "preprocessing",
    "vcpus": [0.5, 1, 2],
    "memory": "1GiB",
    "disks": "unlimited",
    "accelerator": "cpu",
    "data": "photos",
    "iterations": 8,
    "executor": "process",
}


def events_of(server, path, last_id=None):
    """(id, event, data) as they come; the connection ends with the server, or with the sweep."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", f"{path}/events", headers={"Last-Event-ID": last_id or "-"})
    answer, told = connection.getresponse(), {}
    try:
        for line in answer:
            name, colon, value = line.decode().strip().partition(": ")
            if colon and name:
                told[name] = value
            elif not name and told:
                yield told.get("id"), told.get("event"), json.loads(told.get("data", "null"))
                told = {}
    except (OSError, http.client.HTTPException):
        return
    finally:
        connection.close()


def shown(server, path, state):
    """The sweep's document as soon as it has that state."""
    for _ in range(600):
        job = server.ask("GET", path)[1]
        if job["state"] == state:
            return job
        assert job["runs"], job
        time.sleep(0.1)
    raise AssertionError(job)


def started(server):
    """The sweep's document. Another test's sweep may have this machine: there is one at a time."""
    for _ in range(2400):
        status, job = server.ask("POST", "/v1/sweeps", SWEEP)
        if status != 409:
            assert status == 202, job
            return job
        time.sleep(0.1)
    raise AssertionError(job)


@pytest.mark.kills
@pytest.mark.machine
@pytest.mark.slow
def test_a_sweep_survives_its_server_and_is_followed_on_by_the_next(tmp_path):
    server = Served(
        "--rate-limit=0", f"--allow-data=photos={made_photographs(tmp_path, 40)}", folder=tmp_path
    )
    try:
        server.start()
        job = started(server)
        path, seen = job["links"]["self"], []
        for place, name, _ in events_of(server, path):
            if place:
                seen.append((place, name))
            if name == "trial_started":
                break
        pid = shown(server, path, "running")["pid"]

        server.kill()
        server.start()
        assert shown(server, path, "running")["pid"] == pid
        status, refused = server.ask("POST", "/v1/sweeps", SWEEP)
        assert (status, refused["sweep"]) == (409, job["id"])

        for place, name, facts in events_of(server, path, seen[-1][0]):
            seen += [(place, name)] if place else []
            if name in ("trial_done", "trial_failed"):  # neighbours may have spoiled it
                assert facts.get("samples_per_second", 1) > 0
                server.ask("DELETE", path)
        ended = shown(server, path, "stopped")
        assert (name, facts["state"]) == ("end", "stopped")
        assert len({place for place, _ in seen}) == len(seen)
        assert seen[0][1] == "began"
        assert gone(pid)
        rows = server.ask("GET", "/v1/measurements")[1]["measurements"]
        counts = ended["status"]["counts"]
        assert len(rows) == sum(counts.values()) - counts["waiting"] >= 1
    finally:
        server.stop()


@pytest.mark.kills
@pytest.mark.machine
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.night)])
def test_nothing_that_was_acknowledged_is_lost_by_kills(tmp_path, workers):
    server = Served("--rate-limit=0", f"--workers={workers}", folder=tmp_path)
    outcome = Series(server, seed=1).run(2)
    assert outcome["faults"] == []
    assert outcome["acknowledged"]["measurements"] > 0
    assert outcome["acknowledged"]["schedules"] > 0
