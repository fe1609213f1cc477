"""How long the service takes from the command to its first ready answer.

Each run starts `advisor serve` as a process of its own on a free port, with a store of its own, and
asks /readyz every 5 ms until it says 200; then it ends it by SIGTERM. Also told: the same with
several workers, and the seconds until it has ended.
    python benchmarks/service_start.py --json
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

SCRIPT = Path(sys.executable).with_name("advisor")
COMMAND = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "advisor"]
AIM_SECONDS = 1.5
_EVERY_SECONDS = 0.005
_PATIENCE_SECONDS = 60.0


class Start(NamedTuple):
    """Seconds to ready and to gone, and the CPU seconds of both."""

    ready_seconds: float
    ended_seconds: float
    cpu_seconds: float


def start_once(workers: int, home: str) -> Start:
    """One start and one end; `SystemExit` where it does not come up."""
    port = _free_port()
    command = [*COMMAND, "serve", "--port", str(port), "--workers", str(workers)]
    environment = os.environ | {"HOME": home, "XDG_DATA_HOME": home}
    before = time.perf_counter()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _is_ready(port):
            if child.poll() is not None or time.perf_counter() - before > _PATIENCE_SECONDS:
                raise SystemExit(f"{' '.join(command)} does not come up")
            time.sleep(_EVERY_SECONDS)
        ready = time.perf_counter()
    finally:
        child.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    ended = time.perf_counter()
    return Start(ready - before, ended - ready, usage.ru_utime + usage.ru_stime)


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def measured(workers: int, runs: int) -> dict[str, float]:
    """Medians and the slowest of some starts, after one that fills the caches."""
    with tempfile.TemporaryDirectory() as home:
        start_once(workers, home)
        starts = [start_once(workers, home) for _ in range(runs)]
    return {
        "workers": workers,
        "ready_seconds": statistics.median(one.ready_seconds for one in starts),
        "slowest_ready_seconds": max(one.ready_seconds for one in starts),
        "ended_seconds": statistics.median(one.ended_seconds for one in starts),
        "cpu_seconds": statistics.median(one.cpu_seconds for one in starts),
    }


def main() -> None:
    """Print what starts take, as one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document (always so)")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    starts = [measured(workers, arguments.runs) for workers in arguments.workers]
    document = {
        "benchmark": "service_start",
        "command": [*COMMAND, "serve"],
        "runs": arguments.runs,
        "starts": starts,
        "aim": {"ready_seconds_at_most": AIM_SECONDS, "met": starts[0]["ready_seconds"] <= AIM_SECONDS},
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
