"""kill -9 of a real server: what was acknowledged stays, and a real sweep goes on."""

import http.client
import itertools
import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from advisor.store.measurements import open_store
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.formats import to_jsonl
from benchmarks.served import Served
from tests.processes import gone
from tests.sweeps.builders import row

SWEEP = {"networks": "googlenet", "tasks": "preprocessing", "data": "photos", "accelerator": "cpu"}
SWEEP |= {
    "vcpus": [0.5, 1, 2],
    "memory": "1GiB",
    "disks": "unlimited",
    "iterations": 8,
    "executor": "process",
    "when_busy": "skip",
}


def events_of(server, path, last_id=None):
    """(id, event, data) as they come; the connection ends with the server, or with the sweep."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", f"{path}/events", headers={"Last-Event-ID": last_id or "-"})
    answer, event = connection.getresponse(), {}
    try:
        for line in answer:
            name, colon, value = line.decode().strip().partition(": ")
            if colon and name:
                event[name] = value
            elif not name and event:
                yield event.get("id"), event.get("event"), json.loads(event.get("data", "null"))
                event = {}
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
    photos = tmp_path / "photos"
    server = Served("--rate-limit=0", f"--allow-data=photos={photos}", folder=tmp_path)
    server.advisor("dataset", "make", "photographs", "--samples=40", f"--out={photos}")
    try:
        server.start()
        job = started(server)
        path, seen = job["links"]["self"], []
        for event_id, name, _ in events_of(server, path):
            if event_id:
                seen.append((event_id, name))
            if name == "trial_started":
                break
        pid = shown(server, path, "running")["pid"]

        server.kill()
        server.start()
        assert shown(server, path, "running")["pid"] == pid
        status, refused = server.ask("POST", "/v1/sweeps", SWEEP)
        assert (status, refused["sweep"]) == (409, job["id"])

        for event_id, name, facts in events_of(server, path, seen[-1][0]):
            seen += [(event_id, name)] if event_id else []
            if name in ("trial_done", "trial_failed"):  # neighbours may have spoiled it
                assert facts.get("samples_per_second", 1) > 0
                server.ask("DELETE", path)
        ended = shown(server, path, "stopped")
        assert (name, facts["state"]) == ("end", "stopped")
        assert len({event_id for event_id, _ in seen}) == len(seen)
        assert seen[0][1] == "began"
        assert gone(pid)
        rows = server.ask("GET", "/v1/measurements")[1]["measurements"]
        counts = ended["status"]["counts"]
        assert len(rows) == sum(counts.values()) - counts["waiting"] >= 1
    finally:
        server.stop()


@pytest.mark.kills
@pytest.mark.slow
def test_what_was_acknowledged_is_there_once_after_each_kill(tmp_path):
    """Two clients repeat what was not acknowledged, while the server is killed and started anew."""
    server, over = Served("--rate-limit=0", folder=tmp_path), threading.Event()
    server.start()

    def client(path, bodies):
        for body in itertools.takewhile(lambda _: not over.is_set(), bodies):
            while True:
                with suppress(OSError, http.client.HTTPException):
                    if server.ask("POST", path, body)[0] < 300:
                        break
                time.sleep(0.02)
            acknowledged[path] += 1

    acknowledged = Counter()
    rows = (to_jsonl([row(512.0 + number)]) for number in itertools.count())
    jobs = ({"cron": "@weekly", "name": f"job-{number}", "fit": {}} for number in itertools.count())
    with ThreadPoolExecutor(2) as clients:
        clients.submit(client, "/v1/measurements/import", rows)
        clients.submit(client, "/v1/schedules", jobs)
        for _ in range(3):
            time.sleep(1.0)
            server.kill()
            server.start()
        over.set()
    server.stop()
    url = server.database_url
    with closing(open_store(url)) as store, closing(ScheduleBook(url)) as book:
        kept = {"/v1/measurements/import": len(store.all()), "/v1/schedules": len(book.all())}
    assert kept == acknowledged
    assert min(kept.values()) > 0
    assert "Traceback" not in server.log
