"""Runs the probe in a child process, so that this process never loads torch, and keeps its fingerprint."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from advisor.errors import DataError, MeasuringError
from advisor.files import own_fingerprint_path, system_errors, write_whole
from advisor.sweeps.machine.environment import cpu_model
from advisor.sweeps.probe.session import FINGERPRINT_SCHEMA, PARTS, fingerprint
from advisor.sweeps.trial.child import WorkerEnded, WorkerLate, started_worker

COMMAND = (sys.executable, "-P", "-m", "advisor.sweeps.probe")  # -P: never import the user's files
_TIMEOUT_SECONDS = 300.0

Progress = Callable[[str], None]


def keep_fingerprint(document: Mapping[str, Any], parts: Sequence[str]) -> bool:
    """Store a complete probe's fingerprint for trials on this machine; False for a partial probe."""
    if set(parts) != set(PARTS):
        return False
    path = own_fingerprint_path()
    with system_errors(DataError, f"cannot make the folder '{path.parent}'"):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(fingerprint(document)) + "\n")
    return True


def kept_fingerprints() -> tuple[dict[str, Any], ...]:
    """The stored fingerprint if it belongs to this machine's CPU; otherwise empty."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept: dict[str, Any] = json.loads(own_fingerprint_path().read_text())
        if kept["schema"] == FINGERPRINT_SCHEMA and kept["cpu_model"] == cpu_model():
            return (kept,)
    return ()


def probe_machine(
    parts: Sequence[str],
    *,
    quick: bool,
    disk: Path,
    on_progress: Progress,
    command: Sequence[str] = COMMAND,
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> dict[str, Any]:
    """The probe's document (`advisor.probe/1`) from a child process; `on_progress` gets each part's name.
    `MeasuringError` when the child dies or is late."""
    options = ["--child", "--only", ",".join(parts), "--disk", str(disk), *(["--quick"] if quick else [])]
    with started_worker([*command, *options]) as worker:
        try:
            document: dict[str, Any] = worker.answer(
                "probe",
                time.monotonic() + timeout_seconds,
                lambda message: on_progress(str(message.get("progress", ""))),
            )
            return document
        except WorkerLate:
            why = f"it took longer than {timeout_seconds:g} s"
        except WorkerEnded:
            why = worker.last_output()
    raise MeasuringError(f"the probe gave no answer: {why}", hint="probe fewer parts with --only")
