"""A command as a process that does not outlive the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from advisor.runs.scheduling.commands import environment

# A sweep that is asked to end gives back what it took; that takes a while with Ray.
_ENDING_SECONDS = 60.0
_PR_SET_PDEATHSIG = 1


@contextmanager
def command_process(
    command: Sequence[str], folder: str, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in a folder, its talk appended to the log, its answer in a file beside that
    (`answer_path`). On leaving it is ended politely, then by force.

    To be called before any thread is started: what runs between fork and exec allows no other.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as talk, answer_path(log).open("wb") as answer:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=answer,
            stderr=talk, preexec_fn=_end_with_parent(),
        )  # fmt: skip
    try:
        yield process
    finally:
        ended(process)


def answer_path(log: Path) -> Path:
    """Where the document lies that the command of a log printed."""
    return log.with_suffix(".json")


def ended(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, wait, and kill it where it does not."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()


def _end_with_parent() -> Callable[[], None] | None:
    """What asks the kernel for SIGTERM when the parent dies, be it by kill -9: the next process
    that goes on with the run must not find a sweep that measures beside it."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):  # no Linux
        return None

    parent = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we could ask
            os._exit(128 + signal.SIGTERM)

    return ask
