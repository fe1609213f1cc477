"""Starts worker processes, exchanges JSON lines with them until a deadline, and explains their failures."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from msgspec import Struct

from advisor.domain import MIB, LimitedBy, Measurement, Status, Trial
from advisor.errors import AdvisorError, MeasuringError, UsageError
from advisor.sweeps.events import EVENT_KEY, forward_all
from advisor.sweeps.machine.processes import end_with_parent, killer_text, oom_kills
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, new_name, own_tag, scratch_parent

_MOST_CHARACTERS = 500
_KILLS_BEFORE = oom_kills()  # read when a worker starts, before its loaders do
_LOADER_TRACEBACK = "Original Traceback"
_OWN_ERROR = re.compile(r"^advisor\.errors\.\w+: ")
# Messages of the driver, cuBLAS and cuDNN.
_GPU_MEMORY = ("cuda out of memory", "cuda error: out of memory", "alloc_failed")
_HOST_MEMORY = ("out of memory", "can't allocate memory", os.strerror(errno.ENOMEM).lower())
_DISK_FAILS = (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.EREMOTEIO)
# (pattern of a lower-case message, the reason that users see)
_CAUSES = (
    # Loader processes hand batches over in /dev/shm; a container's has 64 MiB by default.
    (
        "dataloader worker.*bus error|unable to allocate shared memory",
        "/dev/shm is full, where loader processes hand over batches; make it larger "
        "(docker run --shm-size 2g), or take a smaller batch",
    ),
    (os.strerror(errno.ENOSPC).lower(), "the disk of '{file}' is full ({message}); free some space there"),
    (
        "|".join(os.strerror(number).lower() for number in _DISK_FAILS),
        "the disk beneath '{data}' fails: {message}; check the mount, and dmesg",
    ),
    # A kill at the trial's memory limit has already been found by its cgroup.
    (
        r"^runtimeerror: dataloader worker \(pid",
        "a loader process was killed from outside ({stated}){killer}",
    ),
    (
        "not compiled with cuda|no cuda gpus are available|found no nvidia driver|no cuda-capable device"
        "|driver version is insufficient",
        "torch sees no CUDA device here ({message}); load the driver and a torch built for "
        "CUDA, or take --accelerator emulated:T4",
    ),
    ("cuda error", "the GPU stopped computing ({message}); look for Xid in dmesg, then reset it"),
)


class Ending(Struct, frozen=True):
    """The end of a trial without a rate: its status, and its cause in one line."""

    status: Status
    reason: str

    def measurement(self, trial: Trial, limited_by: LimitedBy = LimitedBy.NONE, **more: Any) -> Measurement:
        """The measurement of a trial with this ending."""
        return Measurement(trial=trial, status=self.status, reason=self.reason, limited_by=limited_by, **more)


def ending_of(error: BaseException, dataset_path: str = "") -> Ending:
    """The ending of a trial with this error, whatever it is."""
    return recognised_ending(error, dataset_path) or Ending(Status.FAILED, _message(error))


def recognised_ending(error: BaseException, dataset_path: str = "") -> Ending | None:
    """The ending of a trial with this error; None if its cause is not known."""
    message = _message(error)
    if full := _full_memory_text(error):
        return Ending(Status.OUT_OF_MEMORY, f"{full}: {message}")
    try:
        if dataset_path:
            os.stat(dataset_path)  # noqa: PTH116 - its own errno is wanted
    except OSError as lost:
        reason = (
            f"the data set '{dataset_path}' cannot be reached ({lost.strerror}): mount its disk "
            f"again, or put it back; first seen as: {message[:200]}"
        )
        return Ending(Status.FAILED, reason)
    for signs, text in _CAUSES:
        if re.search(signs, message.lower()):
            reason = text.format(
                message=message,
                data=dataset_path,
                file=getattr(error, "filename", None) or tempfile.gettempdir(),
                stated=message.partition(": ")[2],
                killer=killer_text(_KILLS_BEFORE),
            )
            return Ending(Status.FAILED, reason)
    if "DataLoader timed out" in message:
        reason = f"no batch came from '{dataset_path}' ({message}); does its disk still answer?"
        return Ending(Status.TIMED_OUT, reason)
    return Ending(Status.FAILED, message) if isinstance(error, AdvisorError) else None


def lacks_memory(error: BaseException) -> bool:
    """True if the error means too little memory of the machine or GPU, which torch reports in many ways."""
    return _full_memory_text(error) is not None


def _full_memory_text(error: BaseException) -> str | None:
    """The text that says which memory was full; None if none was. (A process that is killed at the limit of
    its cgroup raises no error: its parent reads the kernel's count.)"""
    text = _message(error).lower()
    if any(sign in text for sign in _GPU_MEMORY):
        return "the GPU's memory is full"
    if not isinstance(error, MemoryError) and not any(sign in text for sign in _HOST_MEMORY):
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit == resource.RLIM_INFINITY:
        return "the machine's memory is full"
    return f"the trial's limit of {limit / MIB:,.0f} MiB for the memory of a process is reached"


def _message(error: BaseException) -> str:
    """The error in one line. The message of a loader process is a traceback, whose last line has the error.
    Our errors need no class name."""
    text = str(error)
    if _LOADER_TRACEBACK in text:
        return _OWN_ERROR.sub("", text.strip().splitlines()[-1])[:_MOST_CHARACTERS]
    text = " ".join(text.split())[:_MOST_CHARACTERS]
    return text if isinstance(error, AdvisorError) else f"{type(error).__name__}: {text}"


# -P: a folder `sweeps` in the current folder must not shadow ours.
WORKER_COMMAND = (sys.executable, "-P", "-m", "advisor.sweeps.worker")
STAGES_FOLLOW = "stages_follow"  # key in a measurement that a later one, with stages, replaces
_STDERR_CHARACTERS = 600
_TRACEBACK = "Traceback (most recent call last)"
_LOOK_EVERY_SECONDS = 0.5
_PATIENCE_SECONDS = 10.0


class WorkerEnded(Exception):
    """The worker ended, or closed its output, before it answered."""


class WorkerLate(Exception):
    """The worker did not answer in time."""


class Worker:
    """A started worker process; both sides send one JSON document a line."""

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._unread = b""
        self._kills_before = oom_kills()

    @property
    def pid(self) -> int:
        """The worker's process id, which is also that of its process group."""
        return self._process.pid

    def send(self, message: Any) -> None:
        """Send one message; an ended worker is noticed only when its answer is read."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def receive(self, deadline: float) -> Any:
        """The next JSON text or object; events are forwarded, and other lines (libraries may print even bare
        numbers) are ignored. `deadline` is by time.monotonic(). Raises `WorkerEnded` or `WorkerLate`."""
        while True:
            with suppress(ValueError):
                answer = json.loads(self._line(deadline))
                if isinstance(answer, dict) and EVENT_KEY in answer:
                    forward_all([answer[EVENT_KEY]])
                elif isinstance(answer, (str, dict)):
                    return answer

    def answer(
        self, name: str, deadline: float, on_message: Callable[[dict[str, Any]], None] = lambda _message: None
    ) -> Any:
        """The value that the child sends under `name`, or its error, raised; `on_message` gets other
        messages."""
        while True:
            message = self.receive(deadline)
            if not isinstance(message, dict):
                continue  # a library's own line that happens to be JSON
            if name in message:
                return message[name]
            if "error" in message:
                raise (UsageError if message.get("usage") else MeasuringError)(str(message["error"]))
            on_message(message)

    def last_output(self) -> str:
        """One line with the worker's signal or exit code, and the end of its stderr."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        if any(line.startswith(_TRACEBACK) for line in lines):  # its last line is enough
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
        why = killer_text(self._kills_before) if -code == signal.SIGKILL else ""
        return f"was killed from outside (signal {-code}){why}"

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise WorkerLate
            # Children of a dead worker may keep its stdout open, so that only `poll` shows its end.
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
    command: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Worker]:
    """Start a worker in a new session with extra variables; after the block it and its children are
    killed."""
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
    """Kill the worker and its children. The wait is limited, since the kernel may hold a process that reads
    from a dead disk, and the sweep has to go on."""
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
    """A temporary folder for a worker, with whose end the files of killed loader processes are removed. If
    this process is killed, `clean_up` of the next one finds the folder by its name."""
    folder = scratch_parent() / new_name()
    folder.mkdir(mode=0o700)
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def worker_environment() -> dict[str, str]:
    """The environment of a worker: ours with this source tree importable, without Ray's OMP_NUM_THREADS."""
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS",)}
    root = str(Path(__file__).parents[3])
    paths = [root, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    return environment | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


# Messages with which a worker waits for its limits: for the memory limit once its libraries and its network
# are loaded, for the others once the page cache is prepared.
LOADED, READY = "loaded", "ready"


def wait_for_go(stage: str) -> None:
    """Wait, in the worker, until the parent has switched on the limits of this stage."""
    send_to_parent(stage)
    if not sys.stdin.readline():
        os._exit(1)  # the parent has ended


def answer_parent(work: Callable[[], Mapping[str, Any]]) -> int:
    """Send the result or `AdvisorError` of a child's `work` to its parent; returns the exit code."""
    end_with_parent()
    try:
        send_to_parent(work())
    except AdvisorError as error:
        send_to_parent({"error": str(error), "usage": isinstance(error, UsageError)})
        return 1
    return 0


def send_to_parent(message: object) -> None:
    """Send one line of JSON to the parent."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
