"""Starts what `advisor measure` measures as a process of its own: torch stays out of here."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from advisor.domain import Precision, Task
from advisor.domain.workload import is_own
from advisor.errors import MeasuringError, UsageError
from advisor.messages import FieldName, Message
from models.zoo.networks import network_info
from sweeps.trial.child import Worker, WorkerEnded, WorkerLate, started_worker

# -P: a user's own files are not ours.
COMMAND = (sys.executable, "-P", "-m", "sweeps.anchors.measure")
# Loading torch, building the network and the last step may take so much longer than asked.
_GRACE_SECONDS = 300.0

Progress = Callable[[str], None]


def checked_reference(reference: str) -> str:
    """The name of a network of the zoo, or of a file that exists; else a `UsageError`."""
    if not is_own(reference):
        return network_info(reference).name
    place = Path(f"{reference.partition('.py')[0]}.py").expanduser()
    if not os.access(place, os.R_OK):
        raise UsageError(
            "there is no file {file} that can be read", file=place, field="model",
            hint=Message("name one as {field} path/to/file.py:build", field=FieldName("model")),
        )  # fmt: skip
    return reference


def measure_reference(
    reference: str,
    *,
    minutes: float,
    tasks: Sequence[Task],
    precision: Precision,
    data: Path | None,
    on_progress: Progress,
    command: Sequence[str] = COMMAND,
    grace_seconds: float = _GRACE_SECONDS,
) -> dict[str, Any]:
    """The anchor document, from a process that is gone on leaving.

    Raises `UsageError` for what cannot be asked, `MeasuringError` when torch is missing or the
    process dies, is late or measures nothing.
    """
    job = {
        "reference": checked_reference(reference),
        "minutes": minutes,
        "tasks": [task.value for task in tasks],
        "precision": precision.value,
        "data": str(data.resolve()) if data else None,
    }
    with started_worker([*command, json.dumps(job)]) as worker:
        try:
            return _listen(worker, time.monotonic() + minutes * 60 + grace_seconds, on_progress)
        except WorkerLate as error:
            raise MeasuringError(
                f"no answer {grace_seconds:g} s after its {minutes:g} minutes; give it more "
                "--minutes, or a smaller network"
            ) from error
        except WorkerEnded as error:
            raise MeasuringError(f"measuring failed: {worker.last_output()}") from error


def _listen(worker: Worker, deadline: float, on_progress: Progress) -> dict[str, Any]:
    while True:
        message = worker.receive(deadline)
        if not isinstance(message, dict):
            continue  # a library's own line that happens to be JSON
        if "progress" in message:
            on_progress(str(message["progress"]))
        elif "error" in message:
            raise (UsageError if message.get("usage") else MeasuringError)(str(message["error"]))
        elif "anchor" in message:
            anchor: dict[str, Any] = message["anchor"]
            return anchor
