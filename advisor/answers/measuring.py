"""Starts what `advisor measure` measures as a process of its own: torch stays out of here."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from advisor.domain import Precision, Task
from advisor.domain.workload import is_own, own_file
from advisor.errors import MeasuringError, UsageError
from advisor.messages import FieldName, Message
from advisor.models.zoo.networks import network_info
from advisor.sweeps.anchors.measure.document import add_runs, best_batches
from advisor.sweeps.trial.child import Worker, WorkerEnded, WorkerLate, started_worker

# -P: a user's own files are not ours.
COMMAND = (sys.executable, "-P", "-m", "advisor.sweeps.anchors.measure")
# Loading torch, building the network and the last step may take so much longer than asked.
GRACE_SECONDS = 300.0
_USUAL_RUNS = 3
# Of the minutes, what finding the best batch gets where it is measured again after that.
_FIRST_SHARE = 0.6
# Less than these seconds a task say little; a process needs some time beside its start.
_LEAST_SECONDS_AGAIN = 8.0
_LEAST_MINUTES = 0.05

Progress = Callable[[str], None]


def checked_reference(reference: str) -> str:
    """The name of a network of the zoo, or of a file that exists; else a `UsageError`."""
    if not is_own(reference):
        return network_info(reference).name
    if not os.access(place := Path(own_file(reference)[0]).expanduser(), os.R_OK):
        raise UsageError(
            "there is no file {file} that can be read",
            file=place,
            field="model",
            hint=Message("name one as {field} path/to/file.py:build", field=FieldName("model")),
        )
    return reference


def measure_reference(
    reference: str,
    *,
    minutes: float,
    tasks: Sequence[Task],
    precision: Precision,
    data: Path | None,
    on_progress: Progress,
    runs: int | None = None,
    profile: bool = True,
    command: Sequence[str] = COMMAND,
    grace_seconds: float = GRACE_SECONDS,
) -> dict[str, Any]:
    """The anchor document, from processes that are gone on leaving.

    The first finds the best batch, the others measure that batch again: `runs` processes in all
    (None: three, where the minutes suffice). Raises `UsageError` for what cannot be asked,
    `MeasuringError` when torch is missing or the first process measures nothing.
    """
    job: dict[str, Any] = {
        "reference": checked_reference(reference),
        "tasks": [task.value for task in tasks],
        "precision": precision.value,
        "data": str(data.resolve()) if data else None,
        "batches": {},
        "profile": profile,
    }
    repeats = (runs or _usual_runs(minutes, len(tasks))) - 1
    ends_at = time.monotonic() + minutes * 60
    measure = partial(document_of_process, command, grace_seconds, on_progress)
    document = measure(job, minutes * (_FIRST_SHARE if repeats else 1.0))
    if not runs and not repeats:
        document["warnings"].append("measured in one process: with --minutes 2 three are compared")
    best = best_batches(document["runs"])
    for left in range(repeats, 0, -1):
        minutes_left = max(_LEAST_MINUTES, (ends_at - time.monotonic()) / 60 / left)
        again = job | {"tasks": list(best), "batches": best, "data": None}
        try:
            add_runs(document, measure(again, minutes_left))
        except MeasuringError as error:
            document["warnings"].append(f"not measured again: {error}")
    return document


def _usual_runs(minutes: float, tasks: int) -> int:
    each = (1 - _FIRST_SHARE) * minutes * 60 / (_USUAL_RUNS - 1) / tasks
    return _USUAL_RUNS if each >= _LEAST_SECONDS_AGAIN else 1


def document_of_process(
    command: Sequence[str], grace_seconds: float, on_progress: Progress, job: dict[str, Any], minutes: float
) -> dict[str, Any]:
    """What one process measured; where it ends early, what it had until then, with a warning."""
    so_far: list[dict[str, Any]] = []
    with started_worker([*command, json.dumps(job | {"minutes": minutes})]) as worker:
        try:
            deadline = time.monotonic() + minutes * 60 + grace_seconds
            return _listen(worker, deadline, on_progress, so_far)
        except UsageError:
            raise
        except MeasuringError as error:
            reason = str(error)
        except WorkerLate:
            reason = (
                f"no answer {grace_seconds:g} s after its {minutes:g} minutes; give it more "
                "--minutes, or a smaller network"
            )
        except WorkerEnded:
            reason = f"measuring failed: {worker.last_output()}"
    if not so_far:
        raise MeasuringError(reason)
    warning = f"{reason}; what was measured before is kept"
    return so_far[-1] | {"warnings": [*so_far[-1]["warnings"], warning]}


def _listen(
    worker: Worker, deadline: float, on_progress: Progress, so_far: list[dict[str, Any]]
) -> dict[str, Any]:
    while True:
        message = worker.receive(deadline)
        if not isinstance(message, dict):
            continue  # a library's own line that happens to be JSON
        if "progress" in message:
            on_progress(str(message["progress"]))
        elif "so_far" in message:
            so_far.append(message["so_far"])
        elif "error" in message:
            raise (UsageError if message.get("usage") else MeasuringError)(str(message["error"]))
        elif "anchor" in message:
            anchor: dict[str, Any] = message["anchor"]
            return anchor
