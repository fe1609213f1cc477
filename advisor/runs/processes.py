"""Commands of the advisor as child processes, which end with their parent; their documents and errors.

A command that fails writes its error as JSON to the file that `ERROR_VARIABLE` names, so that no program has
to parse its output for people."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from advisor.errors import ERROR_VARIABLE
from advisor.store import DATABASE_VARIABLE
from advisor.sweeps.machine.processes import end_with_parent

# -P: a command never imports files of the folder in which it runs.
ADVISOR = (sys.executable, "-P", "-m", "advisor")
_SOURCE_TREE = Path(__file__).parents[2]
# Variables meant for the HTTP service's process only.
_SERVICE_VARIABLES = ("ADVISOR_SERVICE", "PROMETHEUS_MULTIPROC_DIR")
# A terminated sweep first releases its resources, which takes a while with Ray.
_ENDING_SECONDS = 60.0
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def environment(database_url: str | None = None) -> dict[str, str]:
    """Environment variables for a child: this process's, so that `ADVISOR` starts from any folder."""
    paths = [str(_SOURCE_TREE), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    own = {name: value for name, value in os.environ.items() if name not in _SERVICE_VARIABLES}
    given = {DATABASE_VARIABLE: database_url} if database_url else {}
    return own | given | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


@contextmanager
def command_process(command: Sequence[str], folder: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in a folder, and end it with the block (SIGTERM, then SIGKILL). Its stderr is appended
    to `log`, its stdout goes to `answer_path`.

    The kernel also ends it when this process dies in any way, so that a continued run never meets
    a sweep that still measures. This runs code between fork and exec, so this process may have no threads;
    termination signals are blocked meanwhile, so that none is lost before the exec."""
    log.parent.mkdir(parents=True, exist_ok=True)
    error_path(log).unlink(missing_ok=True)
    variables = environment() | {ERROR_VARIABLE: str(error_path(log))}
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING_SIGNALS)
    try:
        with log.open("ab") as lines, answer_path(log).open("wb") as answer:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=lines,
                preexec_fn=partial(_before_exec, os.getpid(), held),
            )
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        raise
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        yield process
    finally:
        end(process)


def _before_exec(parent: int, held: Iterable[signal.Signals | int]) -> None:
    """In the child, between fork and exec: reset handlers, which would lose a signal, and unblock."""
    for number in _ENDING_SIGNALS:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    end_with_parent(signal.SIGTERM, parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, held)


def start_executor(
    number: int, *, database_url: str | None = None, log: Path | None = None
) -> subprocess.Popen[bytes]:
    """A process that executes run `number`; in a new session, so that it outlives this process and its
    terminal."""
    command = [*ADVISOR, "schedule", "execute", str(number)]
    with log.open("ab") if log else nullcontext() as lines:
        return subprocess.Popen(
            command,
            env=environment(database_url),
            stdin=subprocess.DEVNULL,
            stdout=lines,
            stderr=lines,
            start_new_session=True,
        )


def answer_path(log: Path) -> Path:
    """The file for the document that a command prints, beside its log."""
    return log.with_suffix(".json")


def error_path(log: Path) -> Path:
    """The file for the error of a command, beside its log."""
    return log.with_suffix(".error.json")


def answer_of(log: Path) -> dict[str, Any] | None:
    """The document that a command printed; None if there is none."""
    return _document(answer_path(log))


def failure(code: int, log: Path) -> str:
    """The reason why a command failed: its error message, else its exit code or signal."""
    ending = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
    return str((_document(error_path(log)) or {}).get("message") or ending)


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, and kill it if it has not ended in time."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()


def how_it_ended(code: int) -> str:
    """How a child process ended, in words."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _document(path: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError, RecursionError):
        document = json.loads(path.read_text())
        return document if isinstance(document, dict) else None
    return None
