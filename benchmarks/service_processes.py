"""`advisor serve` as a process with a home of its own, and a client that asks it; for benchmarks
and tests."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_READY_SECONDS = 60.0
_NO_PYC = "PYTHONDONTWRITEBYTECODE"
_LOOK_EVERY_SECONDS = 0.01


class Server:
    """One `advisor serve` after another on the same port, store and home."""

    def __init__(
        self, folder: Path, url: str | None = None, *, arguments: Sequence[str] = ()
    ) -> None:
        self.folder, self.port = folder, free_port()
        self._arguments = [f"--port={self.port}", "--rate-limit=0", *arguments]
        # An installed product has its .pyc files.
        variables = {name: one for name, one in os.environ.items() if name != _NO_PYC}
        self.environment = {
            **variables, "HOME": str(folder),
            "ADVISOR_DATABASE_URL": url or f"sqlite:///{folder}/measurements.sqlite",
            "PYTHONPATH": os.environ.get("PYTHONPATH", str(Path.cwd())),
            **{f"XDG_{name}_HOME": str(folder / name.lower())
               for name in ("DATA", "STATE", "CACHE", "CONFIG")},
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; returns when this was, by the monotonic clock."""
        begun = time.monotonic()
        command = [sys.executable, "-P", "-m", "advisor", "serve", *self._arguments]
        with (self.folder / "said").open("ab") as said:
            self.process = subprocess.Popen(
                command, env=self.environment, stdout=said, stderr=said, stdin=subprocess.DEVNULL
            )
        return begun

    def wait_ready(self, begun: float) -> float:
        """Seconds from then until /readyz says so; `RuntimeError` where it never does."""
        while time.monotonic() < begun + _READY_SECONDS:
            try:
                if self.ask("GET", "/readyz", seconds=1.0)[0] == 200:
                    return time.monotonic() - begun
            except OSError:
                time.sleep(_LOOK_EVERY_SECONDS)
        raise RuntimeError(f"it never became ready: {self.said[-2000:]}")

    @property
    def cpu_seconds(self) -> float:
        """What the process (not its workers) has computed so far: of a busy machine's clock times
        the part that is its own."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """kill -9, and wait for what its workers still answer: they end when it is gone."""
        if self.process:
            self.process.kill()
            self.process.wait()
            while self._is_open():
                time.sleep(_LOOK_EVERY_SECONDS)

    def _is_open(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self) -> None:
        """End it, politely first."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    @property
    def said(self) -> str:
        """What all of them told."""
        path = self.folder / "said"
        return path.read_text(errors="replace") if path.exists() else ""

    def ask(
        self, method: str, path: str, body: Any = None, *, seconds: float = 30.0
    ) -> tuple[int, Any]:
        """Status and document; a text goes as JSON lines. `OSError` where nobody answers whole."""
        lines = isinstance(body, str)
        data = None if body is None else body if lines else json.dumps(body)
        kind = "application/x-ndjson" if lines else "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            connection.request(method, path, data, {"Content-Type": kind} if data else {})
            answer = connection.getresponse()
            told = answer.read()
            return answer.status, json.loads(told) if told else None
        except (http.client.HTTPException, ValueError) as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()


def free_port() -> int:
    """A port of loopback that nobody has now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
