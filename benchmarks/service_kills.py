"""kill -9 of `advisor serve` under load at random moments; what must hold, checked.

    python -m benchmarks.service_kills --json --kills 20 --seed 1
    python -m benchmarks.service_kills --json --kills 20 --postgresql --workers 2

Clients import measurements, add schedules and ask questions without pause, and repeat what was not
acknowledged. The server is killed again and again, at any moment from its start on, and started
anew; with --sweep one that measures goes on meanwhile. In the end whatever was acknowledged must
be there, once; the sweep must have been listed, running in the same process, by every server; and
a server is ready within 2 s of its start. Exit code 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.store.measurements import open_store
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.formats.exporting import to_jsonl
from benchmarks.served import Served
from tests.postgresql import PostgreSQL
from tests.sweeps.builders import measurement, resources, trial

AIM_SECONDS = 2.0
_LONGEST_GAP_SECONDS = 3.0
_WHILE_STARTING = 0.2  # of the kills
_PAUSE_SECONDS = 0.02
_QUESTION = {"task": "inference", "model": "googlenet", "instance": "g4dn.xlarge"}


class Clients:
    """Three that ask without pause; what each was told is kept."""

    def __init__(self, server: Served) -> None:
        self._server, self._over = server, threading.Event()
        self.trials: list[str] = []
        self.schedules: list[str] = []
        self.answers, self.refusals, self.repeated = 0, Counter[int](), 0
        work = (self._import, self._schedule, self._ask)
        self._threads = [threading.Thread(target=self._repeat, args=(one,)) for one in work]

    def start(self) -> None:
        """All of them."""
        for one in self._threads:
            one.start()

    def end(self) -> None:
        """Each after what it has in hand was acknowledged."""
        self._over.set()
        for one in self._threads:
            one.join()

    def _repeat(self, work: Callable[[int], None]) -> None:
        for number in itertools.count():
            if self._over.is_set():
                return
            work(number)
            time.sleep(_PAUSE_SECONDS)

    def _import(self, number: int) -> None:
        trials = [trial(resources=resources(memory_mib=512.0 + 3 * number + part)) for part in range(3)]
        text = to_jsonl(measurement(trial=one) for one in trials)
        self._acknowledged("/v1/measurements/import", text)
        self.trials += [one.trial_id for one in trials]

    def _schedule(self, number: int) -> None:
        name = f"job-{number}"
        self._acknowledged("/v1/schedules", {"cron": "0 3 * * 1", "name": name, "fit": {}})
        self.schedules.append(name)

    def _ask(self, _number: int) -> None:
        self._acknowledged("/v1/predict", _QUESTION)
        self.answers += 1

    def _acknowledged(self, path: str, body: Any) -> None:
        """Ask until it was answered well."""
        while True:
            try:
                status, _ = self._server.ask("POST", path, body)
                if status < 300:
                    return
                self.refusals[status] += 1
            except OSError:
                self.repeated += 1
            time.sleep(_PAUSE_SECONDS)


class Series:
    """A server that is killed again and again, under clients."""

    def __init__(self, server: Served, seed: int, *, sweep: bool) -> None:
        self._server, self._random, self._sweep = server, random.Random(seed), sweep
        self._clients = Clients(server)
        self._job: dict[str, Any] = {}
        self.ready: list[float] = []
        self.computed: list[float] = []
        self.faults: list[str] = []
        self.listed = 0

    def run(self, kills: int) -> dict[str, Any]:
        """All of it; `faults` is empty where everything holds."""
        begun = time.monotonic()
        self._server.start()
        if self._sweep:
            self._job = self._started_sweep()
        self._clients.start()
        try:
            for _ in range(kills):
                self._kill_and_start()
        finally:
            self._clients.end()
            self._end_sweep()
            self._server.stop()
        self._check()
        return self._document(kills, time.monotonic() - begun)

    def _kill_and_start(self) -> None:
        time.sleep(self._random.uniform(0.0, _LONGEST_GAP_SECONDS))
        self._server.kill()
        self._server.begin()
        if self._random.random() < _WHILE_STARTING:
            time.sleep(self._random.uniform(0.0, 1.0))
            self._server.kill()
            self._server.begin()
        self.ready.append(self._server.wait_ready())
        self.computed.append(self._server.cpu_seconds)
        if self._job:
            self._look_for_sweep()

    def _started_sweep(self) -> dict[str, Any]:
        body = {
            "networks": "googlenet",
            "tasks": "preprocessing",
            "vcpus": [0.2, 0.3, 0.4, 0.5],
            "memory": ["1GiB", "2GiB", "3GiB"],
            "disks": "unlimited",
            "accelerator": "cpu",
            "data": "photos",
            "iterations": 60,
            "executor": "process",
            "max_minutes": 30,
        }
        status, job = self._server.ask("POST", "/v1/sweeps", body)
        if status != 202:
            raise RuntimeError(f"the sweep was not started: {job}")
        while not job["begun_at"]:
            time.sleep(0.1)
            _, job = self._server.ask("GET", job["links"]["self"])
        return dict(job)

    def _look_for_sweep(self) -> None:
        _, found = self._server.ask("GET", "/v1/sweeps")
        same = [one for one in found["sweeps"] if one["id"] == self._job["id"]]
        if not same or same[0]["pid"] != self._job["pid"] or same[0]["state"] != "running":
            self.faults.append(f"the sweep is listed as {same}")
        self.listed += 1

    def _end_sweep(self) -> None:
        if not self._job:
            return
        path = f"/v1/sweeps/{self._job['id']}"
        self._server.ask("DELETE", path)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            _, job = self._server.ask("GET", path)
            if not job["runs"]:
                break
            time.sleep(0.2)
        self._job = job
        if job["state"] != "stopped":
            self.faults.append(f"the sweep ended as {job}")

    def _check(self) -> None:
        url = self._server.database_url
        store, book = open_store(url), ScheduleBook(url)
        try:
            rows = Counter(row.trial.trial_id for row in store.all())
            names = Counter(one.name for one in book.all())
        finally:
            store.close()
            book.close()
        for what, told, there in (
            ("measurement", self._clients.trials, rows),
            ("schedule", self._clients.schedules, names),
        ):
            self.faults += [f"lost {what} {one}" for one in told if not there[one]]
            self.faults += [f"twice {what} {one}" for one, count in there.items() if count > 1]
        if "Traceback" in self._server.log:
            self.faults.append(self._server.log[-1000:])

    def _document(self, kills: int, seconds: float) -> dict[str, Any]:
        clients = self._clients
        return {
            "kills": kills,
            "servers": len(self.ready) + 1,
            "ready_seconds": _spread(self.ready),
            "ready_cpu_seconds": _spread(self.computed),
            "ready_in_time": max(self.ready) < AIM_SECONDS,
            "acknowledged": {
                "measurements": len(clients.trials),
                "schedules": len(clients.schedules),
                "answers": clients.answers,
            },
            "repeated": clients.repeated,
            "refusals": dict(clients.refusals),
            "sweep": {"listed": self.listed, "state": self._job["state"]} if self._job else None,
            "faults": self.faults[:20],
            "seconds": round(seconds, 1),
        }


def _spread(seconds: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(seconds), 2), "most": round(max(seconds), 2)}


def made_photographs(folder: Path, samples: int = 60) -> Path:
    """A small data set; made by the command."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "advisor",
        "dataset",
        "make",
        "photographs",
        f"--samples={samples}",
        f"--out={folder / 'photos'}",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "photos"


def main() -> int:
    """Print one JSON document; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document (always so)")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--sweep", action="store_true", help="a sweep runs meanwhile")
    parser.add_argument("--postgresql", action="store_true", help="instead of SQLite")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="service-kills-") as name:
        database = PostgreSQL() if options.postgresql else None
        try:
            arguments = ["--rate-limit=0", f"--workers={options.workers}"]
            if options.sweep:
                arguments.append(f"--allow-data=photos={made_photographs(Path(name))}")
            url = database.new_database() if database else None
            server = Served(*arguments, folder=Path(name), database_url=url)
            outcome = Series(server, options.seed, sweep=options.sweep).run(options.kills)
        finally:
            if database:
                database.remove()
    held = not outcome["faults"] and outcome["ready_in_time"]
    head = {
        "benchmark": "service_kills",
        "seed": options.seed,
        "workers": options.workers,
        "load_before": load,
    }
    store = "postgresql" if options.postgresql else "sqlite"
    print(json.dumps({**head, "held": held, "database": store, **outcome}))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
