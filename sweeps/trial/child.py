"""A conversation with a worker process, with a deadline and without an orphan, and what may fail in it."""

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
_KILLS_BEFORE = oom_kills()  # of a worker, whose loaders begin later
_LOADER_TRACEBACK = "Original Traceback"
_OWN_ERROR = re.compile(r"^advisor\.errors\.\w+: ")
# As the driver, cuBLAS and cuDNN say it.
_GPU_MEMORY = ("cuda out of memory", "cuda error: out of memory", "alloc_failed")
_HOST_MEMORY = ("out of memory", "can't allocate memory", os.strerror(errno.ENOMEM).lower())
_DISK_FAILS = (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.EREMOTEIO)
# What a message in lower case has in it, and the reason that stands for it.
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
    # A kill at the trial's own memory limit is found by its cgroup before this.
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
    """The end of a trial without a rate, and its cause, on one line."""

    status: Status
    reason: str

    def measurement(self, trial: Trial, limited_by: LimitedBy = LimitedBy.NONE, **more: Any) -> Measurement:
        """That of a trial which ended so."""
        return Measurement(trial=trial, status=self.status, reason=self.reason, limited_by=limited_by, **more)


def ending_of(error: BaseException, dataset_path: str = "") -> Ending:
    """The ending that an error stands for, whatever it is."""
    return recognised_ending(error, dataset_path) or Ending(Status.FAILED, _message(error))


def recognised_ending(error: BaseException, dataset_path: str = "") -> Ending | None:
    """The ending of an error whose cause is known; None for any other."""
    message = _message(error)
    if full := _full_memory(error):
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
    """Whether the machine or the GPU had too little memory: torch reports that in many ways."""
    return _full_memory(error) is not None


def _full_memory(error: BaseException) -> str | None:
    """The memory that was full, in words; None where none was. (A process that is killed at the limit of
    its cgroup raises nothing: its parent asks the kernel.)"""
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
    """One line. A loader process sends its traceback as the message: its last line has the
    error. Errors of our own need no name of their class."""
    text = str(error)
    if _LOADER_TRACEBACK in text:
        return _OWN_ERROR.sub("", text.strip().splitlines()[-1])[:_MOST_CHARACTERS]
    text = " ".join(text.split())[:_MOST_CHARACTERS]
    return text if isinstance(error, AdvisorError) else f"{type(error).__name__}: {text}"


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
        self._kills_before = oom_kills()

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

    def answer(
        self, name: str, deadline: float, on_message: Callable[[dict[str, Any]], None] = lambda _message: None
    ) -> Any:
        """What the child sends by that name; other messages go to `on_message`. Raises its refusal."""
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
        why = killer_text(self._kills_before) if -code == signal.SIGKILL else ""
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
    """Starts a worker in its own session, with extra variables; gone with its children on leaving."""
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


def answer_parent(work: Callable[[], Mapping[str, Any]]) -> int:
    """A child's life: `Worker.answer` hears what `work` returns or refuses; the exit code."""
    end_with_parent()
    try:
        send_to_parent(work())
    except AdvisorError as error:
        send_to_parent({"error": str(error), "usage": isinstance(error, UsageError)})
        return 1
    return 0


def send_to_parent(message: object) -> None:
    """One line of JSON to the parent."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
