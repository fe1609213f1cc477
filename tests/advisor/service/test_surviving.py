"""kill -9 of a real server: what was acknowledged stays, and a real sweep goes on."""

import http.client
import itertools
import json
import random
import threading
import time
from collections import Counter
from contextlib import closing

import pytest

from advisor.store.measurements import open_store
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.formats import to_jsonl
from benchmarks.served import Served
from tests.processes import gone
from tests.sweeps.builders import row

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
    answer, text = connection.getresponse(), {}
    try:
        for line in answer:
            name, colon, value = line.decode().strip().partition(": ")
            if colon and name:
                text[name] = value
            elif not name and text:
                yield text.get("id"), text.get("event"), json.loads(text.get("data", "null"))
                text = {}
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
        for location, name, _ in events_of(server, path):
            if location:
                seen.append((location, name))
            if name == "trial_started":
                break
        pid = shown(server, path, "running")["pid"]

        server.kill()
        server.start()
        assert shown(server, path, "running")["pid"] == pid
        status, refused = server.ask("POST", "/v1/sweeps", SWEEP)
        assert (status, refused["sweep"]) == (409, job["id"])

        for location, name, facts in events_of(server, path, seen[-1][0]):
            seen += [(location, name)] if location else []
            if name in ("trial_done", "trial_failed"):  # neighbours may have spoiled it
                assert facts.get("samples_per_second", 1) > 0
                server.ask("DELETE", path)
        ended = shown(server, path, "stopped")
        assert (name, facts["state"]) == ("end", "stopped")
        assert len({location for location, _ in seen}) == len(seen)
        assert seen[0][1] == "began"
        assert gone(pid)
        rows = server.ask("GET", "/v1/measurements")[1]["measurements"]
        counts = ended["status"]["counts"]
        assert len(rows) == sum(counts.values()) - counts["waiting"] >= 1
    finally:
        server.stop()


class Clients:
    """Three that ask without pause, and repeat what was not acknowledged; what was, is kept."""

    def __init__(self, server):
        self._server, self._over = server, threading.Event()
        self.trials, self.schedules = [], []
        work = (self._import, self._schedule, self._ask)
        self._threads = [threading.Thread(target=self._repeat, args=(item,)) for item in work]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        """Each ends after what it has in hand was acknowledged."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, work):
        for number in itertools.count():
            if self._over.is_set():
                return
            work(number)
            time.sleep(0.02)

    def _import(self, number):
        rows = [row(512.0 + 3 * number + part) for part in range(3)]
        self._acknowledged("/v1/measurements/import", to_jsonl(rows))
        self.trials += [measurement.trial.trial_id for measurement in rows]

    def _schedule(self, number):
        name = f"job-{number}"
        self._acknowledged("/v1/schedules", {"cron": "0 3 * * 1", "name": name, "fit": {}})
        self.schedules.append(name)

    def _ask(self, _number):
        question = {"task": "inference", "model": "googlenet", "instance": "g4dn.xlarge"}
        self._acknowledged("/v1/predict", question)

    def _acknowledged(self, path, body):
        """Ask until it was answered well."""
        while True:
            try:
                if self._server.ask("POST", path, body)[0] < 300:
                    return
            except OSError:
                pass
            time.sleep(0.02)


def kill_and_start(server, dice):
    """At any moment, one time in five while it starts."""
    time.sleep(dice.uniform(0.0, 3.0))
    server.kill()
    server.begin()
    if dice.random() < 0.2:
        time.sleep(dice.uniform(0.0, 1.0))
        server.kill()
        server.begin()
    server.wait_ready()


@pytest.mark.kills
@pytest.mark.machine
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.night)])
def test_nothing_that_was_acknowledged_is_lost_by_kills(tmp_path, workers):
    """In the end it is there, once."""
    server, dice = Served("--rate-limit=0", f"--workers={workers}", folder=tmp_path), random.Random(1)
    server.start()
    try:
        with Clients(server) as clients:
            for _ in range(2):
                kill_and_start(server, dice)
    finally:
        server.stop()
    url = server.database_url
    with closing(open_store(url)) as store, closing(ScheduleBook(url)) as book:
        rows = Counter(row.trial.trial_id for row in store.all())
        names = Counter(schedule.name for schedule in book.all())
    for acknowledged, stored in ((clients.trials, rows), (clients.schedules, names)):
        assert acknowledged
        assert set(acknowledged) <= set(stored)
        assert set(stored.values()) == {1}
    assert "Traceback" not in server.log
