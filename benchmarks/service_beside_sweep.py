"""How fast `advisor serve` answers while a sweep eats the machine, beside how it does without.

    python -m benchmarks.service_beside_sweep --json --rounds 3 --seconds 15

The sweep takes all vCPUs (loader processes that decode, an emulated T4) and has less memory than
its data, so that pages are dropped and read again all the time. In each round the same requests
are sent at the same pace, first without and then beside it; the latencies are the client's, whose
process shares the cores. Exit code 1 where a request was not answered.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.served import Served
from benchmarks.service_kills import made_photographs

_A_SECOND = 20
_PHOTOGRAPHS, _COPIES = 300, 20  # 640 MB, and the trials have less
_NETWORKS = ("googlenet", "alexnet", "resnet50")
_INSTANCES = ("g4dn.xlarge", "g4dn.2xlarge", "g5.xlarge", "g6.xlarge", "p3.2xlarge")
_STARTING_SECONDS = 120.0
_SETTLING_SECONDS = 4.0


class Prober(threading.Thread):
    """One connection that asks at a steady pace, and notes how long each answer took."""

    def __init__(self, server: Served, path: str, bodies: list[str | None]) -> None:
        super().__init__()
        self._server, self._path, self._bodies = server, path, itertools.cycle(bodies)
        self.over = threading.Event()
        self.seconds: list[float] = []
        self.failed = 0

    def run(self) -> None:
        """Until it is over."""
        connection = self._connection()
        for number in itertools.count():
            due = number / _A_SECOND
            if self.over.wait(max(0.0, self._begun + due - time.monotonic())):
                break
            begun = time.perf_counter()
            try:
                self._ask(connection)
                self.seconds.append(time.perf_counter() - begun)
            except (OSError, http.client.HTTPException):
                self.failed += 1
                connection = self._connection()
        connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        self._begun = time.monotonic() - len(self.seconds) / _A_SECOND
        return http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=30)

    def _ask(self, connection: http.client.HTTPConnection) -> None:
        body = next(self._bodies)
        method = "POST" if body else "GET"
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(method, self._path, body, headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise http.client.HTTPException(str(answer.status))


def probed(server: Served, seconds: float) -> dict[str, Prober]:
    """What both paths told in so many seconds."""
    questions: list[str | None] = [
        json.dumps({"task": task, "model": network, "instance": instance})
        for task in ("inference", "training")
        for network in _NETWORKS
        for instance in _INSTANCES
    ]
    both = {
        "healthz": Prober(server, "/healthz", [None]),
        "predict": Prober(server, "/v1/predict", questions),
    }
    for one in both.values():
        one.start()
    time.sleep(seconds)
    for one in both.values():
        one.over.set()
        one.join()
    return both


def started_sweep(server: Served) -> str:
    """The path of a sweep whose first trial is in its timed steps."""
    body = {
        "networks": "googlenet,alexnet,resnet50",
        "tasks": "training,inference",
        "vcpus": os.cpu_count(),
        "memory": "880MiB",
        "disks": "gp3",
        "accelerator": "emulated:T4",
        "data": "photos",
        "iterations": 5000,
        "executor": "process",
        "max_minutes": 10,
    }
    status, job = server.ask("POST", "/v1/sweeps", body)
    if status != 202:
        raise RuntimeError(f"the sweep was not started: {job}")
    path = str(job["links"]["self"])
    _wait_for(server, path, "limits_on", job["id"])
    time.sleep(_SETTLING_SECONDS)
    return path


def _wait_for(server: Served, path: str, event: str, job_id: str) -> None:
    log = (
        Path(server.environment["XDG_DATA_HOME"])
        / "instance-sizing-advisor/service/sweeps"
        / job_id
        / "events.jsonl"
    )
    deadline = time.monotonic() + _STARTING_SECONDS
    while not (log.exists() and f'"{event}"' in log.read_text()):
        if time.monotonic() > deadline or not server.ask("GET", path)[1]["runs"]:
            raise RuntimeError(f"its first trial never began: {server.ask('GET', path)}")
        time.sleep(0.2)


def ended_sweep(server: Served, path: str) -> None:
    """Ask it to end, and wait for that."""
    server.ask("DELETE", path)
    while server.ask("GET", path)[1]["runs"]:
        time.sleep(0.2)


def told(probers: list[Prober]) -> dict[str, Any]:
    """Milliseconds."""
    seconds = sorted(one for prober in probers for one in prober.seconds)
    percent = statistics.quantiles(seconds, n=100, method="inclusive")
    return {
        "requests": len(seconds),
        "failed": sum(one.failed for one in probers),
        "p50_ms": round(1000 * percent[49], 1),
        "p99_ms": round(1000 * percent[98], 1),
        "most_ms": round(1000 * seconds[-1], 1),
    }


def measured(server: Served, rounds: int, seconds: float) -> dict[str, Any]:
    """Both phases, round after round."""
    phases: dict[str, list[dict[str, Prober]]] = {"without": [], "beside": []}
    probed(server, 2.0)  # what is loaded late is loaded now
    for _ in range(rounds):
        phases["without"].append(probed(server, seconds))
        path = started_sweep(server)
        phases["beside"].append(probed(server, seconds))
        ended_sweep(server, path)
    return {
        name: {phase: told([one[name] for one in found]) for phase, found in phases.items()}
        for name in ("healthz", "predict")
    }


def photographs(folder: Path) -> Path:
    """More of them than the trials have memory for."""
    made = made_photographs(folder, _PHOTOGRAPHS)
    whole = folder / "many"
    for number in range(_COPIES):
        shutil.copytree(made, whole / f"part-{number}")
    return whole


def main() -> int:
    """Print one JSON document; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document (always so)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each phase")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="service-beside-") as name:
        folder = Path(name)
        server = Served("--rate-limit=0", f"--allow-data=photos={photographs(folder)}", folder=folder)
        try:
            server.start()
            found = measured(server, options.rounds, options.seconds)
        finally:
            server.stop()
    failed = sum(phase["failed"] for one in found.values() for phase in one.values())
    head = {"benchmark": "service_beside_sweep", "rounds": options.rounds, "load_before": load}
    print(json.dumps({**head, "held": not failed, "latency": found}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
