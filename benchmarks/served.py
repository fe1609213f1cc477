"""A real `advisor serve` in a home of its own, for benchmarks and tests."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_READY_SECONDS = 60.0
_LOOK_EVERY_SECONDS = 0.01
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# An installed product has its .pyc files.
_LEFT_OUT = ("ADVISOR_", "PYTHONDONTWRITEBYTECODE")


class Served:
    """`with Served(..) as service`: a process that answers on `port`; ends with the block.

    It may be killed and started again, on the same port and store. `modules` are sources by file name that
    are found before anything installed (a `torch.py` that fails keeps sweeps from measuring). What the
    service writes is in `log`."""

    def __init__(
        self,
        *options: str,
        folder: Path | None = None,
        database_url: str | None = None,
        modules: dict[str, str] | None = None,
        variables: dict[str, str] | None = None,
        source: Path = Path(__file__).parents[1],
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="advisor-served-"))
        self.port, self.source = _free_port(), source
        self.database_url = database_url or (
            f"sqlite:///{self.folder}/data/instance-sizing-advisor/measurements.sqlite"
        )
        self._options = options
        first = self.folder / "first"
        first.mkdir()
        for name, text in (modules or {}).items():
            (first / name).write_text(text)
        paths = [str(first), str(source), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {
            **{key: text for key, text in os.environ.items() if not key.startswith(_LEFT_OUT)},
            "HOME": str(self.folder / "home"),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "ADVISOR_DATABASE_URL": self.database_url,
            "PYTHONPATH": os.pathsep.join(paths),
            **(variables or {}),
        }

    def __enter__(self) -> Served:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
    def peaks_mib(self) -> list[float]:
        """The most memory that each of its processes ever had, the first one's first."""
        lines = [
            line
            for pid in self._pids()
            for line in _stat(pid, "status").splitlines()
            if line.startswith("VmHWM:")
        ]
        return [int(line.split()[1]) / 1024 for line in lines]

    @property
    def cpu_seconds(self) -> float:
        """What its processes have computed so far: of a busy machine's time its own part."""
        fields = (_stat(pid, "stat").rpartition(")")[2].split() for pid in self._pids())
        return sum(int(field[11]) + int(field[12]) for field in fields) / _TICKS_PER_SECOND

    def _pids(self) -> list[int]:
        workers = _stat(self.pid, f"task/{self.pid}/children").split()
        return [self.pid, *map(int, workers)]

    def advisor(self, *words: str) -> str:
        """A command in the same home; what it writes to stdout."""
        done = subprocess.run(
            [sys.executable, "-m", "advisor", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def ask(self, method: str, path: str, body: Any = None, *, seconds: float = 30.0) -> tuple[int, Any]:
        """Status and document; a text goes as JSON lines. `OSError` where nobody answers whole."""
        is_lines = isinstance(body, str)
        data = None if body is None else body if is_lines else json.dumps(body)
        kind = "application/x-ndjson" if is_lines else "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            connection.request(method, path, data, {"Content-Type": kind} if data else {})
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        except (http.client.HTTPException, ValueError) as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def start(self) -> float:
        """Start it, and wait until it is ready; the seconds that it took."""
        self.begin()
        return self.wait_ready()

    def begin(self) -> None:
        """Start it."""
        command = (sys.executable, "-m", "advisor", "serve", "--port", str(self.port), *self._options)
        self._begun = time.monotonic()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_restore_interrupt,
            )

    def wait_ready(self) -> float:
        """Wait until it is ready; the seconds since it was begun."""
        while not self._is_ready():
            seconds = time.monotonic() - self._begun
            if self._process.poll() is not None or seconds > _READY_SECONDS:
                raise RuntimeError(f"the service does not start:\n{self.log[-2000:]}")
            time.sleep(_LOOK_EVERY_SECONDS)
        return time.monotonic() - self._begun

    def _is_ready(self) -> bool:
        try:
            return self.ask("GET", "/readyz", seconds=5.0)[0] == 200
        except OSError:
            return False

    def kill(self) -> None:
        """kill -9, and wait for what its workers still answer: they end when it is gone."""
        self._process.kill()
        self._process.wait()
        while self._is_open():
            time.sleep(_LOOK_EVERY_SECONDS)

    def _is_open(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """End it, politely first; what it started ends with its session."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def _restore_interrupt() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _stat(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
