"""A conversation with a worker process: lines out, lines in, with a deadline, and no orphan."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from advisor.sweeps.events import EVENT_KEY, forward_all
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, new_name, own_tag, scratch_parent

# -P: a folder `sweeps` where the user stands must not take the place of ours.
WORKER_COMMAND = (sys.executable, "-P", "-m", "advisor.sweeps.worker")
STAGES_FOLLOW = "stages_follow"  # in a measurement that another one will replace
_STDERR_CHARACTERS = 600
_TRACEBACK = "Traceback (most recent call last)"
_LOOK_EVERY_SECONDS = 0.5
_PATIENCE_SECONDS = 10.0


class WorkerEnded(Exception):
    """The worker closed its output before it answered."""


class WorkerLate(Exception):
    """The worker did not answer in time."""


class Worker:
    """A started worker process. One JSON document a line, both ways."""

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._unread = b""

    @property
    def pid(self) -> int:
        """The process id; its process group has the same number."""
        return self._process.pid

    def send(self, message: Any) -> None:
        """Write one line; a worker that has ended is noticed when its answer is read."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def receive(self, deadline: float) -> Any:
        """The next line that is a JSON text or object (libraries may print others, also bare
        numbers), and no event: those are handed on. `deadline` is a time.monotonic() moment.
        Raises `WorkerEnded` or `WorkerLate`."""
        while True:
            with suppress(ValueError):
                answer = json.loads(self._line(deadline))
                if isinstance(answer, dict) and EVENT_KEY in answer:
                    forward_all([answer[EVENT_KEY]])
                elif isinstance(answer, (str, dict)):
                    return answer

    def last_output(self) -> str:
        """The end of the process: its signal or exit code, and the end of its stderr on one line."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        if any(line.startswith(_TRACEBACK) for line in lines):  # its last line says it all
            lines = [line for line in lines if not line.startswith((" ", _TRACEBACK))]
        text = " ".join(" ".join(lines).split())
        ending = f"the worker {self._ending()}"
        return f"{ending}: {text[-_STDERR_CHARACTERS:]}" if text else ending

    def _ending(self) -> str:
        try:
            code = self._process.wait(timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed its output and went on without an answer"
        if code >= 0:
            return f"ended with exit code {code}"
        why = "; the whole machine's memory? (dmesg)" if -code == signal.SIGKILL else ""
        return f"was killed from outside (signal {-code}){why}"

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise WorkerLate
            # Children of a dead worker may keep its stdout open: its end shows nowhere else.
            ended = self._process.poll() is not None
            patience = 0.0 if ended else min(remaining, _LOOK_EVERY_SECONDS)
            readable = select.select([descriptor], [], [], patience)[0]
            chunk = os.read(descriptor, 1 << 16) if readable else b""
            if not chunk and (readable or ended):
                raise WorkerEnded
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line


@contextmanager
def started_worker(
    command: Sequence[str] = WORKER_COMMAND, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Worker]:
    """Start a worker in a session of its own, with more variables in its environment; it and its
    children are gone on leaving."""
    with tempfile.TemporaryFile() as errors, _scratch_folder() as scratch:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**worker_environment(), **environment, "TMPDIR": scratch, OWNER_VARIABLE: str(own_tag())},
            start_new_session=True,
        )
        try:
            yield Worker(process, errors)
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the worker and its children; do not wait for ever where the kernel holds one (it reads
    from a disk that does not answer): the sweep has to go on."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.communicate(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


@contextmanager
def _scratch_folder() -> Iterator[str]:
    """Loader processes that are killed leave sockets and folders: they go with this one; and
    when this process is killed, its name says so to the next one (`clean_up`)."""
    folder = scratch_parent() / new_name()
    folder.mkdir(mode=0o700)
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def worker_environment() -> dict[str, str]:
    """Ours, with this source tree importable and no thread count left over (Ray sets some)."""
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS",)}
    root = str(Path(__file__).parents[3])
    paths = [root, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    return environment | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


# What a worker waits for its limits with: the memory limit once its libraries and its network are
# loaded, the others once the page cache is as the trial wants it.
LOADED, READY = "loaded", "ready"


def wait_for_go(stage: str) -> None:
    """The limits of this stage may be switched on."""
    send_to_parent(stage)
    if not sys.stdin.readline():
        os._exit(1)  # the parent has gone


def send_to_parent(message: object) -> None:
    """One line of JSON to the parent."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
