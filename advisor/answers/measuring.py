"""Runs the measurements of `advisor measure` in separate processes, so that torch is not loaded here."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from advisor.domain import Accelerator, AcceleratorKind, Precision, Task
from advisor.domain.workload import is_own_code, own_file
from advisor.errors import MeasuringError, UsageError
from advisor.messages import FieldName, Message
from advisor.models.performance import published_step_seconds
from advisor.models.zoo.networks import network_info
from advisor.questions.fields import error_in
from advisor.questions.ranks import Ranks
from advisor.sweeps.measure.document import add_runs, best_batches
from advisor.sweeps.trial.child import WorkerEnded, WorkerLate, started_worker

# The longest time between the starts of the first and the last node; torchrun would wait twice as long.
_APART_SECONDS = 300
_TORCHRUN = (sys.executable, "-P", "-m", "advisor.sweeps.measure.ranks")


def measure_ranks(
    reference: str, ranks: Ranks, *, precision: Precision, minutes: float, on_progress: Progress
) -> dict[str, Any]:
    """The anchor document of all ranks; each node gets it. Raises `UsageError` for an invalid request, and
    `MeasuringError` if a rank or node is lost, naming the rank that failed first."""
    job = {
        "reference": checked_reference(reference),
        "batch_size": ranks.batch_size,
        "precision": precision.value,
        "accelerator": ranks.accelerator,
        "emulated_step_seconds": _emulated_step_seconds(reference, ranks, precision),
        "gbit_per_second": ranks.network_gbit,
    }
    command = [*_torchrun(ranks), "-m", "advisor.sweeps.measure.ranks"]
    grace = GRACE_SECONDS
    if ranks.rendezvous is not None:
        _check_resolves(ranks.rendezvous)
        grace += _APART_SECONDS
        on_progress(
            f"waiting up to {_APART_SECONDS // 60} minutes for all {ranks.nodes} nodes at {ranks.rendezvous}"
        )
    return document_of_process(command, grace, on_progress, job, minutes)


def _check_resolves(rendezvous: str) -> None:
    """Raise `UsageError` for a host name that does not resolve: torchrun would retry for minutes."""
    host, _, port = rendezvous.rpartition(":")
    try:
        socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise error_in(
            "rendezvous",
            "'{host}' does not resolve here ({why})",
            host=host,
            why=str(error),
            hint="give the first node's address, or a name that every node knows",
        ) from None


def _torchrun(ranks: Ranks) -> list[str]:
    here = [f"--nproc-per-node={ranks.ranks}"]
    if ranks.rendezvous is None:
        return [*_TORCHRUN, "--standalone", *here]
    host, _, port = ranks.rendezvous.rpartition(":")
    return [
        *_TORCHRUN,
        *here,
        f"--nnodes={ranks.nodes}",
        f"--node-rank={ranks.node_rank - 1}",
        f"--master-addr={host}",
        f"--master-port={port}",
        f"--rdzv-conf=timeout={_APART_SECONDS}",
    ]


def _emulated_step_seconds(reference: str, ranks: Ranks, precision: Precision) -> float | None:
    """Seconds that a step takes on the emulated GPU; None if the ranks compute."""
    if ranks.accelerator is None:
        return None
    try:
        accelerator = Accelerator.parse(ranks.accelerator)
    except ValueError:
        accelerator = Accelerator(kind=AcceleratorKind.CPU)
    if not accelerator.is_emulated or is_own_code(reference):
        raise UsageError(
            Message("with ranks an accelerator is emulated:GPU, and the network one of the zoo"),
            hint=Message("leave it out: the GPUs that are here compute"),
            field="accelerator",
        )
    return published_step_seconds(
        checked_reference(reference), Task.TRAINING, precision, ranks.batch_size, accelerator.gpu
    )


# -P keeps Python from importing modules from the user's folder.
COMMAND = (sys.executable, "-P", "-m", "advisor.sweeps.measure")
# Seconds beyond the given minutes, for loading torch, building the network and finishing the last step.
GRACE_SECONDS = 300.0
_USUAL_RUNS = 3
# The share of the minutes for finding the best batch, where other processes then measure it again.
_FIRST_SHARE = 0.6
# Shorter measurements of a task say little, and a process spends part of its time on starting.
_LEAST_SECONDS_AGAIN = 8.0
_LEAST_MINUTES = 0.05

Progress = Callable[[str], None]


def checked_reference(reference: str) -> str:
    """The zoo's name of a network, or the reference to a readable file; raises `UsageError` for others."""
    if not is_own_code(reference):
        return network_info(reference).name
    if not os.access(path := Path(own_file(reference)[0]).expanduser(), os.R_OK):
        raise UsageError(
            "there is no file {file} that can be read",
            file=path,
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
    """The anchor document, from processes that have ended when this returns. The first finds the best batch,
    and the others measure that batch again: `runs` processes in all (None: three, if the minutes suffice).
    Raises `UsageError` for an invalid request, and `MeasuringError` when torch is missing or the first
    process measures nothing."""
    job: dict[str, Any] = {
        "reference": checked_reference(reference),
        "tasks": [task.value for task in tasks],
        "precision": precision.value,
        "data": str(data.resolve()) if data else None,
        "batches": {},
        "profile": profile,
    }
    each_seconds = (1 - _FIRST_SHARE) * minutes * 60 / (_USUAL_RUNS - 1) / len(tasks)
    repeats = (runs or (_USUAL_RUNS if each_seconds >= _LEAST_SECONDS_AGAIN else 1)) - 1
    ends_at = time.monotonic() + minutes * 60
    measure = partial(document_of_process, command, grace_seconds, on_progress)
    document = measure(job, minutes * (_FIRST_SHARE if repeats else 1.0))
    if not runs and not repeats:
        document["warnings"].append(
            "one process was measured; --minutes 2 measures three, and how they differ"
        )
    best = best_batches(document["runs"])
    for left in range(repeats, 0, -1):
        minutes_left = max(_LEAST_MINUTES, (ends_at - time.monotonic()) / 60 / left)
        again = job | {"tasks": list(best), "batches": best, "data": None}
        try:
            add_runs(document, measure(again, minutes_left))
        except MeasuringError as error:
            document["warnings"].append(f"not measured again: {error}")
    return document


def document_of_process(
    command: Sequence[str], grace_seconds: float, on_progress: Progress, job: dict[str, Any], minutes: float
) -> dict[str, Any]:
    """The document of one measuring process; if it ends early, its results so far, with a warning."""
    so_far: list[dict[str, Any]] = []
    deadline = time.monotonic() + minutes * 60 + grace_seconds
    with started_worker([*command, json.dumps(job | {"minutes": minutes})]) as worker:
        try:
            anchor: dict[str, Any] = worker.answer("anchor", deadline, partial(_record, on_progress, so_far))
            return anchor
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
    return so_far[-1] | {"warnings": [*so_far[-1]["warnings"], f"{reason}; what was measured before is kept"]}


def _record(on_progress: Progress, so_far: list[dict[str, Any]], message: dict[str, Any]) -> None:
    if "progress" in message:
        on_progress(str(message["progress"]))
    elif "so_far" in message:
        so_far.append(message["so_far"])
