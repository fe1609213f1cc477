"""Causes are found in what is said, since a loader process sends its errors as text."""

import errno
import os
import resource

import pytest

from advisor.domain import Status
from advisor.errors import DataError
from advisor.sweeps.trial.faults import ending_of, recognised_ending


def from_loader(last_line):
    """As torch's ExceptionWrapper raises it again in the main process."""
    head = "Caught DataError in DataLoader worker process 0.\nOriginal Traceback (most recent"
    return RuntimeError(f"{head} call last):\n  File ...\n{last_line}\n")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (from_loader("advisor.errors.DataError: '/d/7.jpg' cannot be read"), "'/d/7.jpg' cannot"),
        (from_loader("OSError: [Errno 5] Input/output error"), "the disk beneath"),
        (OSError(errno.EIO, os.strerror(errno.EIO), "/d/7.jpg"), "'/d/7.jpg'"),
        (OSError(errno.ESTALE, os.strerror(errno.ESTALE)), "check the mount"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/x"), "the disk of '/tmp/x' is full"),
        (RuntimeError("unable to allocate shared memory(shm) for file </t>: No space left"), "--shm-size"),
        (RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error."), "/dev/shm is full"),
        (
            RuntimeError("DataLoader worker (pid(s) 7) exited unexpectedly"),
            "a loader process was killed from outside",
        ),
        (AssertionError("Torch not compiled with CUDA enabled"), "torch sees no CUDA device"),
        (RuntimeError("CUDA error: unspecified launch failure"), "Xid"),
        (ValueError("two\nlines"), "ValueError: two lines"),
    ],
)
def test_each_fault_is_told_on_one_line_with_what_it_is_about(error, words, tmp_path):
    ending = ending_of(error, str(tmp_path))
    assert ending.status is Status.FAILED
    assert words in ending.reason
    assert "\n" not in ending.reason
    assert "advisor.errors" not in ending.reason


@pytest.mark.parametrize(
    ("error", "whose"),
    [
        (MemoryError(), "the machine's memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "the GPU's memory"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), "the GPU's memory"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "the GPU's memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "the machine's"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "the machine's memory"),
    ],
)
def test_too_little_memory_is_a_result_that_names_which(error, whose, monkeypatch):
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr("resource.getrlimit", lambda _: unlimited)
    ending = ending_of(error)
    assert ending.status is Status.OUT_OF_MEMORY
    assert ending.reason.startswith(whose)


def test_a_process_at_its_own_limit_names_that_limit(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (512 * 2**20, 512 * 2**20))
    assert "limit of 512 MiB" in ending_of(MemoryError()).reason


def test_a_loader_that_waits_for_ever_is_timed_out(tmp_path):
    ending = ending_of(RuntimeError("DataLoader timed out after 300 seconds"), str(tmp_path))
    assert ending.status is Status.TIMED_OUT
    assert str(tmp_path) in ending.reason


def test_a_data_set_that_has_gone_is_the_cause_whatever_was_seen_first(tmp_path):
    ending = ending_of(from_loader("advisor.errors.DataError: 7.jpg is no image"), "/no/such/set")
    assert "'/no/such/set' cannot be reached (No such file or directory)" in ending.reason
    assert "7.jpg is no image" in ending.reason


def test_errors_of_unknown_cause_are_left_to_the_caller(tmp_path):
    assert recognised_ending(ValueError("x"), str(tmp_path)) is None
    assert recognised_ending(DataError("x"), str(tmp_path)).reason == "x"
