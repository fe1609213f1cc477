"""A real `advisor serve` in a home of its own, for benchmarks and tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

_READY_SECONDS = 60.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Served:
    """`with Served(..) as service`: a process that answers on `port`; ends with the block.

    `modules` are sources by file name that are found before anything installed (a `torch.py` that
    fails keeps sweeps from measuring). The service's own words are in `log`.
    """

    def __init__(
        self,
        *options: str,
        modules: dict[str, str] | None = None,
        variables: dict[str, str] | None = None,
        source: Path = Path(__file__).parents[1],
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="advisor-served-"))
        self.port = _free_port()
        self._options = options
        first = self.folder / "first"
        first.mkdir()
        for name, text in (modules or {}).items():
            (first / name).write_text(text)
        self.source = source
        paths = [str(first), str(source), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {
            **{
                name: value for name, value in os.environ.items() if not name.startswith("ADVISOR_")
            },
            "HOME": str(self.folder / "home"),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "PYTHONPATH": os.pathsep.join(paths),
            **(variables or {}),
        }

    def __enter__(self) -> Served:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def log(self) -> str:
        """What the service has written to stderr."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Of the process that was started; workers are its children."""
        return self._process.pid

    @property
    def resident_mib(self) -> float:
        """Memory now, that of all its processes."""
        pages = (int(_stat(pid, "statm").split()[1]) for pid in self._pids())
        return sum(pages) * _PAGE_BYTES / 1024**2

    @property
    def cpu_seconds(self) -> float:
        """What its processes have computed so far."""
        fields = (_stat(pid, "stat").rpartition(")")[2].split() for pid in self._pids())
        return sum(int(field[11]) + int(field[12]) for field in fields) / _TICKS_PER_SECOND

    def _pids(self) -> list[int]:
        workers = _stat(self.pid, f"task/{self.pid}/children").split()
        return [self.pid, *map(int, workers)]

    def advisor(self, *words: str) -> str:
        """A command in the same home; what it says on stdout."""
        done = subprocess.run(
            [sys.executable, "-m", "advisor", *words],
            env=self.environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        command: Sequence[str] = (
            sys.executable, "-m", "advisor", "serve", "--port", str(self.port), *self._options,
        )  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True, preexec_fn=_hear_ctrl_c,
            )  # fmt: skip
        until = time.monotonic() + _READY_SECONDS
        while not _is_ready(self.port):
            if self._process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the service does not start:\n{self.log}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End the process and what it started, its own session."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def _hear_ctrl_c() -> None:
    """What a shell starts in the background is deaf to Ctrl-C, and so would be what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _stat(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
