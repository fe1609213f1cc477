"""What is killed, and how each comes back: driver, worker, database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

_DATABASE_AWAY_SECONDS = 0.3


class Driver:
    """The driver's process, and the events that all of its lives told."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments = arguments
        self.events: list[dict[str, Any]] = []
        self.resumed: list[float] = []
        self.restarts = 0
        self.is_disturbed = False

    def start(self) -> None:
        """Begin, or go on: the same command."""
        self.is_disturbed = False
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.kills.driver", *self._arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said: list[str] = []
        self._threads = [
            threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True),
            threading.Thread(target=self._hear, args=(self.process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def kill(self) -> str:
        """kill -9, and the same command again."""
        pid = self.process.pid
        os.kill(pid, signal.SIGKILL)
        self.finish()
        self.restarts += 1
        self.start()
        return f"driver {pid}"

    def finish(self) -> int:
        """Its exit code, once it has ended and all of it was heard."""
        code = self.process.wait()
        for thread in self._threads:
            thread.join()
        return code

    @property
    def last_words(self) -> str:
        """The end of its stderr."""
        return " ".join(self._said[-5:])

    def _listen(self, stream: Any) -> None:
        ready = None
        with stream:
            for line in stream:
                event = _event(line)
                if event is None:
                    continue
                self.events.append(event)
                if event["event"] == "ready":
                    ready = event["at"]
                elif ready is not None and event["event"] == "started":
                    # Waiting for a database that was killed meanwhile is no part of resuming.
                    if self.restarts and not self.is_disturbed:
                        self.resumed.append(event["at"] - ready)
                    ready = None

    def _hear(self, stream: Any) -> None:
        with stream:
            self._said += [line.strip() for line in stream]


def _event(line: str) -> dict[str, Any] | None:
    """What the driver tells; others print there too."""
    try:
        event: Any = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def kill_worker(file: Path) -> str | None:
    """kill -9 of a worker that replays the file; None where none runs at this moment."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        if "benchmarks.kills.replaying" in words and str(file) in words:
            try:
                os.kill(int(entry.name), signal.SIGKILL)
            except ProcessLookupError:
                continue
            return f"worker {entry.name}"
    return None


def kill_database(server: Any) -> str:
    """kill -9 of the server, which is started again after a moment."""
    server.kill()
    time.sleep(_DATABASE_AWAY_SECONDS)
    server.start()
    return "database"
