"""kill -9 of `advisor serve` under load at random moments; what must hold, checked.

Clients import measurements, add schedules and ask questions without pause, and repeat what was not
acknowledged. The server is killed again and again, at any moment from its start on, and started anew. In
the end whatever was acknowledged must be there, once.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
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
from tests.sweeps.builders import measurement, resources, trial

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

    def __init__(self, server: Served, seed: int) -> None:
        self._server, self._random = server, random.Random(seed)
        self._clients = Clients(server)
        self.faults: list[str] = []

    def run(self, kills: int) -> dict[str, Any]:
        """All of it; `faults` is empty where everything holds."""
        self._server.start()
        self._clients.start()
        try:
            for _ in range(kills):
                self._kill_and_start()
        finally:
            self._clients.end()
            self._server.stop()
        self._check()
        return self._document()

    def _kill_and_start(self) -> None:
        time.sleep(self._random.uniform(0.0, _LONGEST_GAP_SECONDS))
        self._server.kill()
        self._server.begin()
        if self._random.random() < _WHILE_STARTING:
            time.sleep(self._random.uniform(0.0, 1.0))
            self._server.kill()
            self._server.begin()
        self._server.wait_ready()

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

    def _document(self) -> dict[str, Any]:
        clients = self._clients
        return {
            "acknowledged": {
                "measurements": len(clients.trials),
                "schedules": len(clients.schedules),
                "answers": clients.answers,
            },
            "repeated": clients.repeated,
            "refusals": dict(clients.refusals),
            "faults": self.faults[:20],
        }


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
