"""Starts the ranks of `advisor measure --ranks` on this node: torch stays out of here."""

from __future__ import annotations

import socket
import sys
from typing import Any

from advisor.answers.measuring import GRACE_SECONDS, Progress, checked_reference, document_of_process
from advisor.domain import Accelerator, AcceleratorKind, Precision, Task
from advisor.domain.workload import is_own
from advisor.errors import UsageError
from advisor.messages import Message
from advisor.models.performance import published_step_seconds
from advisor.questions.fields import wrong
from advisor.questions.ranks import Ranks

# Nodes may start so far apart; torchrun would wait twice as long.
_APART_SECONDS = 300
_TORCHRUN = (sys.executable, "-P", "-m", "advisor.sweeps.ranks.torchrun")


def measure_ranks(
    reference: str, asked: Ranks, *, precision: Precision, minutes: float, on_progress: Progress
) -> dict[str, Any]:
    """The anchor document of all ranks, on each node. Raises `UsageError` for what cannot be asked,
    `MeasuringError` that names the rank which failed first where one, or a node, is lost."""
    job = {
        "reference": checked_reference(reference),
        "batch_size": asked.batch_size,
        "precision": precision.value,
        "accelerator": asked.accelerator,
        "emulated_step_seconds": _emulated_step_seconds(reference, asked, precision),
        "gbit_per_second": asked.network_gbit,
    }
    command = [*_torchrun(asked), "-m", "advisor.sweeps.ranks"]
    grace = GRACE_SECONDS
    if asked.rendezvous is not None:
        _check_resolves(asked.rendezvous)
        grace += _APART_SECONDS
        on_progress(
            f"waiting up to {_APART_SECONDS // 60} minutes for all {asked.nodes} nodes at {asked.rendezvous}"
        )
    return document_of_process(command, grace, on_progress, job, minutes)


def _check_resolves(rendezvous: str) -> None:
    """Torchrun asks for a name that does not resolve again and again, for minutes."""
    host, _, port = rendezvous.rpartition(":")
    try:
        socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise wrong(
            "rendezvous",
            "'{host}' does not resolve here ({why})",
            host=host,
            why=str(error),
            hint=Message("give the first node's address, or a name that every node knows"),
        ) from None


def _torchrun(asked: Ranks) -> list[str]:
    place = [f"--nproc-per-node={asked.ranks}"]
    if asked.rendezvous is None:
        return [*_TORCHRUN, "--standalone", *place]
    host, _, port = asked.rendezvous.rpartition(":")
    return [
        *_TORCHRUN,
        *place,
        f"--nnodes={asked.nodes}",
        f"--node-rank={asked.node_rank - 1}",
        f"--master-addr={host}",
        f"--master-port={port}",
        f"--rdzv-conf=timeout={_APART_SECONDS}",
    ]


def _emulated_step_seconds(reference: str, asked: Ranks, precision: Precision) -> float | None:
    """The pace of the GPU that is emulated; None where the ranks compute."""
    if asked.accelerator is None:
        return None
    try:
        accelerator = Accelerator.parse(asked.accelerator)
    except ValueError:
        accelerator = Accelerator(kind=AcceleratorKind.CPU)
    if not accelerator.is_emulated or is_own(reference):
        raise UsageError(
            Message("with ranks an accelerator is emulated:GPU, and the network one of the zoo"),
            hint=Message("leave it out: the GPUs that are here compute"),
            field="accelerator",
        )
    return published_step_seconds(
        checked_reference(reference), Task.TRAINING, precision, asked.batch_size, accelerator.gpu
    )
