"""Failures of a trial: the status, and a message that names the file, disk or device.

Standard library only. Errors of a loader process arrive as text (its whole traceback, the error
number lost), so causes are found in the message as well as in the error's type.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import tempfile
from collections.abc import Callable

from msgspec import Struct

from advisor.domain import MIB, Status
from advisor.errors import AdvisorError

_MOST_CHARACTERS = 500
_LOADER_TRACEBACK = "Original Traceback"
_OWN_ERROR = re.compile(r"^advisor\.errors\.\w+: ")
# As the driver, cuBLAS and cuDNN say it.
_GPU_MEMORY = ("cuda out of memory", "cuda error: out of memory", "alloc_failed")
_HOST_MEMORY = ("out of memory", "can't allocate memory", os.strerror(errno.ENOMEM).lower())
_FULL = os.strerror(errno.ENOSPC).lower()
_DISK_FAILS = tuple(
    os.strerror(number).lower()
    for number in (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.EREMOTEIO)
)
_NO_CUDA = (
    "not compiled with cuda",
    "no cuda gpus are available",
    "found no nvidia driver",
    "no cuda-capable device",
    "driver version is insufficient",
)


class Ending(Struct, frozen=True):
    """The end of a trial without a rate, and its cause, on one line."""

    status: Status
    reason: str


def ending_of(error: BaseException, dataset_path: str = "") -> Ending:
    """The ending that an error stands for, whatever it is."""
    return recognised_ending(error, dataset_path) or Ending(Status.FAILED, _message(error))


def recognised_ending(error: BaseException, dataset_path: str = "") -> Ending | None:
    """The ending of an error whose cause is known; None for any other."""
    message = _message(error)
    if full := _full_memory(error):
        return Ending(Status.OUT_OF_MEMORY, f"{full}: {message}")
    causes: tuple[Callable[[], str | None], ...] = (
        lambda: _lost_data(dataset_path, message),
        lambda: _small_shared_memory(message),
        lambda: _full_disk(error, message),
        lambda: _failing_disk(dataset_path, message),
        lambda: _lost_loader(message),
        lambda: _lost_gpu(message),
    )
    reason = next((reason for cause in causes if (reason := cause())), None)
    if reason:
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


def _lost_data(dataset_path: str, stated: str) -> str | None:
    if not dataset_path:
        return None
    try:
        os.stat(dataset_path)  # noqa: PTH116 - its own errno is wanted
    except OSError as error:
        return (
            f"the data set '{dataset_path}' cannot be reached ({error.strerror}): mount its disk "
            f"again, or put it back; first seen as: {stated[:200]}"
        )
    return None


def _small_shared_memory(stated: str) -> str | None:
    """Loader processes hand batches over in /dev/shm; a container's has 64 MiB by default."""
    bus_error = "DataLoader worker" in stated and "Bus error" in stated
    if not bus_error and "unable to allocate shared memory" not in stated:
        return None
    return (
        "/dev/shm is full, where loader processes hand over batches; make it larger "
        "(docker run --shm-size 2g), or take a smaller batch"
    )


def _full_disk(error: BaseException, stated: str) -> str | None:
    if _FULL not in stated.lower():
        return None
    where = getattr(error, "filename", None) or tempfile.gettempdir()
    return f"the disk of '{where}' is full ({stated}); free some space there"


def _failing_disk(dataset_path: str, stated: str) -> str | None:
    if not any(entry in stated.lower() for entry in _DISK_FAILS):
        return None
    return f"the disk beneath '{dataset_path}' fails: {stated}; check the mount, and dmesg"


def _lost_loader(stated: str) -> str | None:
    """A kill at the trial's own memory limit is found by its cgroup before this."""
    if not stated.startswith("RuntimeError: DataLoader worker (pid"):
        return None
    return (
        f"a loader process was killed from outside ({stated.partition(': ')[2]}): by somebody, or "
        "because the whole machine ran out of memory (dmesg)"
    )


def _lost_gpu(stated: str) -> str | None:
    if any(entry in stated.lower() for entry in _NO_CUDA):
        return (
            f"torch sees no CUDA device here ({stated}); load the driver and a torch built for "
            "CUDA, or take --accelerator emulated:T4"
        )
    if "CUDA error" in stated:
        return f"the GPU stopped computing ({stated}); look for Xid in dmesg, then reset it"
    return None


def _message(error: BaseException) -> str:
    """One line. A loader process sends its traceback as the message: its last line has the
    error. Errors of our own need no name of their class."""
    text = str(error)
    if _LOADER_TRACEBACK in text:
        return _OWN_ERROR.sub("", text.strip().splitlines()[-1])[:_MOST_CHARACTERS]
    text = " ".join(text.split())[:_MOST_CHARACTERS]
    return text if isinstance(error, AdvisorError) else f"{type(error).__name__}: {text}"
