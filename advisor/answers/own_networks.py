"""Traces a user's network with torch, without computing it.

Output of the user's code goes to stderr: stdout belongs to the answer, which may be JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.domain import Precision, Task, Workload
from advisor.errors import MeasuringError, UsageError
from advisor.extras import install_command
from advisor.messages import FieldName, Message
from advisor.models.performance.memory.peak import card_mib, gpu_peak
from advisor.models.performance.memory.steps import Conditions, MemoryProfile, profile_from
from advisor.models.performance.networks import OPERATION, NetworkFacts
from advisor.models.performance.own_networks import facts_of_own
from advisor.sweeps.trial.child import WorkerEnded, WorkerLate, started_worker

if TYPE_CHECKING:
    from advisor.models.zoo.opening import Runnable


_STDOUT, _STDERR = 1, 2


@contextmanager
def their_output_aside() -> Iterator[None]:
    """Redirects to stderr what Python, C code and child processes write to stdout. Where one of the two is
    closed, only Python's output is redirected."""
    with _descriptor_aside(), redirect_stdout(sys.stderr):
        yield


@contextmanager
def _descriptor_aside() -> Iterator[None]:
    _flush()
    try:
        kept = os.dup(_STDOUT)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            os.dup2(_STDERR, _STDOUT)
        yield
    finally:
        _flush()
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


# Batch normalisation of single values needs two rows.
_FEWEST_ROWS = 2


def captured_facts(reference: str, task: Task) -> NetworkFacts:
    """Sizes and operations of the network `path/file.py:build`; imports torch and the user's file. Raises
    `UsageError` where torch is missing, the file cannot be used, or torch cannot trace the network."""
    try:
        import advisor.models.zoo.capture
        import advisor.models.zoo.opening  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "what {network} computes is found with torch, which is not here ({package})",
            network=reference,
            package=error.name,
            field="model",
            hint=Message(
                "give an {anchor} that was measured with it, or install torch: {command}",
                command=install_command("sweep"),
                anchor=FieldName("anchor"),
            ),
        ) from error
    with their_output_aside():
        return _facts(reference, task)


def _facts(reference: str, task: Task) -> NetworkFacts:
    from advisor.models.zoo.capture import as_usage_errors
    from advisor.models.zoo.opening import open_network
    from advisor.models.zoo.step_facts import network_facts

    network = open_network(reference)
    with as_usage_errors(network.info.name):
        facts = network_facts(network, training=task is Task.TRAINING)
    rows = facts.training if task is Task.TRAINING else facts.inference
    kernels = {task: np.array([tuple(row) for row in rows], OPERATION)}
    weights = {"weight_mib": facts.weights_mib, "weight_tensors": facts.weight_tensors}
    return facts_of_own(reference, kernels, **(_input(network) | weights))


def _input(network: Runnable) -> dict[str, Any]:
    """The shape, kind and size of the network's input: arguments of `facts_of_own`."""
    from advisor.models.zoo.kernels import tensors_in

    first = next(tensors_in(network.synthetic_batch(_FEWEST_ROWS)[0]), None)
    if first is None:
        return {"input_shape": network.info.input_shape, "sample": network.info.unit}
    whole = not (first.is_floating_point() or first.is_complex())
    shape = tuple(first.shape[1:])
    return {
        "input_shape": shape or (1,),
        # One whole number per row is an index into a table, not text.
        "whole_numbers": whole and bool(shape),
        "sample": "sequence" if whole and shape else network.info.unit,
    }


def traced_memory(reference: str, task: Task, precision: Precision) -> Callable[[Workload], float]:
    """The function from a workload of a user's network to the card memory in MiB that it fits. Raises what
    `advisor memory` raises."""
    # Mixed precision is traced, too: answers say how much memory it would save.
    steps = {
        Conditions(task=task, batch_size=1, precision=kind).step: None for kind in (precision, Precision.AMP)
    }
    profile = traced_profile(reference, list(steps))

    def needed(workload: Workload) -> float:
        size, precision = workload.batch_size, workload.precision
        conditions = Conditions(task=workload.task, batch_size=size, precision=precision)
        return card_mib(gpu_peak(profile, conditions).upper_mib)

    return needed


_COMMAND = (sys.executable, "-P", "-m", "advisor.models.zoo.memory_worker")
_PATIENCE_SECONDS = 900.0


def traced_profile(reference: str, steps: Sequence[str], pixels: int | None = None) -> MemoryProfile:
    """The memory profile that a separate process traces; `steps` are values of `Conditions.step`."""
    job = {"reference": reference, "pixels": pixels, "steps": steps}
    with started_worker([*_COMMAND, json.dumps(job)]) as worker:
        try:
            profile = worker.answer("profile", time.monotonic() + _PATIENCE_SECONDS)
            return profile_from(reference, profile)
        except WorkerLate as error:
            raise MeasuringError(
                f"tracing took more than {_PATIENCE_SECONDS / 60:g} minutes; ask for a smaller --input-size"
            ) from error
        except WorkerEnded as error:
            raise UsageError(
                "tracing {network} failed: {reason}",
                hint="run the file by itself to see where",
                network=reference,
                reason=worker.last_output(),
            ) from error
