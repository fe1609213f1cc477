"""Starts the probe as a process of its own, and reads its answer: torch stays out of here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from advisor.errors import DataError, MeasuringError, UsageError, unknown_name
from advisor.files import own_fingerprint_path, write_whole
from advisor.runs.processes import environment, how_it_ended
from advisor.sweeps.machine.environment import cpu_model
from advisor.sweeps.probe.session import FINGERPRINT_SCHEMA, PARTS, SCHEMA, fingerprint, is_skipped

COMMAND = (sys.executable, "-P", "-m", "advisor.sweeps.probe")  # -P: a user's own files are not ours
_TIMEOUT_SECONDS = 300.0
_KEPT_LINES = 5

Progress = Callable[[str], None]


def parse_parts(text: str | None) -> tuple[str, ...]:
    """'gpu,cpu' -> ('cpu', 'gpu'), in the order of measuring; None means all."""
    if text is None:
        return tuple(PARTS)
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PARTS:
            raise unknown_name("part", name, PARTS)
    if not names:
        raise UsageError(
            "--only takes parts of {parts}, separated by commas", parts=", ".join(PARTS), field="only"
        )
    return tuple(name for name in PARTS if name in names)


def checked_disk(folder: Path | None, parts: Sequence[str]) -> Path:
    """The folder whose disk is read: the current one unless another is asked for, which must
    then be a folder that can be written. Raises `UsageError`."""
    if folder is None:
        return Path.cwd()
    if "disk" not in parts:
        raise UsageError(
            "--disk needs the part disk", field="disk", hint="add it to --only, or leave --disk out"
        )
    if not folder.is_dir():
        raise UsageError("--disk takes a folder, and '{folder}' is none", folder=folder, field="disk")
    try:
        tempfile.TemporaryFile(dir=folder).close()  # access rights alone do not tell
    except OSError as error:
        raise UsageError(
            "cannot write to '{folder}' ({strerror})",
            folder=folder,
            strerror=error.strerror,
            hint="--disk takes a folder that can be written: a file is made there for a moment",
        ) from error
    return folder


def nothing_measured(document: Mapping[str, Any]) -> str | None:
    """Why, where each asked part was skipped; None where something is known."""
    parts: Mapping[str, Any] = document["parts"]
    if not all(is_skipped(part) for part in parts.values()):
        return None
    return "; ".join(f"{name}: {part['skipped']}" for name, part in parts.items())


def keep_fingerprint(document: Mapping[str, Any], parts: Sequence[str]) -> bool:
    """Keep a whole probe for the trials that will be measured here; whether it was one. `DataError`
    where it cannot be written."""
    if set(parts) != set(PARTS):
        return False
    path = own_fingerprint_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            "cannot make the folder '{folder}': {reason}", folder=path.parent, reason=error.strerror
        ) from error
    write_whole(path, json.dumps(fingerprint(document)) + "\n")
    return True


def kept_fingerprint() -> dict[str, Any] | None:
    """The kept fingerprint, where it is of this machine's CPU; None without one."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept: dict[str, Any] = json.loads(own_fingerprint_path().read_text())
        if kept["schema"] == FINGERPRINT_SCHEMA and kept["cpu_model"] == cpu_model():
            return kept
    return None


def kept_fingerprints() -> tuple[dict[str, Any], ...]:
    """The kept fingerprints of this machine, one at most."""
    kept = kept_fingerprint()
    return (kept,) if kept else ()


def probe_machine(
    parts: Sequence[str],
    *,
    quick: bool,
    disk: Path,
    on_progress: Progress,
    command: Sequence[str] = COMMAND,
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> dict[str, Any]:
    """The probe's document (`advisor.probe/1`), from a process that is gone on leaving. `on_progress` is told
    each part as it begins. Raises `MeasuringError` when the process dies, is late or answers nonsense."""
    arguments = [*command, "--only", ",".join(parts), "--disk", str(disk), *(["--quick"] if quick else [])]
    kept: deque[str] = deque(maxlen=_KEPT_LINES)
    with tempfile.TemporaryFile() as answer, _started(arguments, answer, timeout_seconds) as process:
        assert process.stderr is not None
        for raw in process.stderr:
            line = raw.decode(errors="replace").strip()
            if line.startswith("["):
                on_progress(line)
            elif line:
                kept.append(line)
        if code := process.wait():
            ending = how_it_ended(code)
            if code == -signal.SIGKILL:
                ending = f"was killed (out of memory, or longer than {timeout_seconds:g} s)"
            tail = f": {' '.join(kept)[-400:]}" if kept else ""
            raise MeasuringError(f"the probe {ending}; probe fewer parts with --only{tail}")
        answer.seek(0)
        with suppress(ValueError):
            document = json.loads(answer.read())
            if isinstance(document, dict) and document.get("schema") == SCHEMA:
                return document
    raise MeasuringError("the probe gave no answer that can be read", hint="run it again with --debug")


@contextmanager
def _started(
    command: Sequence[str], answer: IO[bytes], timeout_seconds: float
) -> Iterator[subprocess.Popen[bytes]]:
    """In a session of its own, so that its decoding processes end with it."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=answer,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,
    )
    late = threading.Timer(timeout_seconds, _kill, [process])
    late.daemon = True
    late.start()
    try:
        yield process
    finally:
        late.cancel()
        _kill(process)
        process.wait()
        if process.stderr:
            process.stderr.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    # A process that was waited for has no group any more, and its number may be another's.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
