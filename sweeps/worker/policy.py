"""Numbers of threads and loader processes of a trial; the plan decides them and the trial keeps them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# `"input": "synthetic"`: one batch made on the device; no data set, no input pipeline.
SYNTHETIC = "synthetic"
# `"clock": "cpu_seconds"`: steps in the CPU seconds of the one thread that computes them, which
# neighbours cannot take.
CPU_CLOCK = "cpu_seconds"
PREFETCH_FACTOR = 2  # torch's own default: batches that each loader process prepares ahead
# Of a GPU by itself after the main run; a shorter main run is enough for a shorter one.
_GPU_ALONE_SECONDS = 10.0


def is_synthetic(plan: Mapping[str, Any]) -> bool:
    """Whether a trial measures its network alone."""
    return plan.get("input") == SYNTHETIC


def gpu_alone_seconds(plan: Mapping[str, Any]) -> float:
    """For how long a trial on a GPU times the network alone, beside its main run."""
    if is_synthetic(plan):
        return 0.0
    return min(_GPU_ALONE_SECONDS, float(plan.get("measure_seconds", _GPU_ALONE_SECONDS)))


def loader_workers(vcpus: float) -> int:
    """One loader process a vCPU, and never none.

    Below one vCPU a process of its own still lets decoding go on while the accelerator is fed; more processes
    than vCPUs only take memory and context switches."""
    return max(1, math.floor(vcpus))


def compute_threads(vcpus: float) -> int:
    """Threads of one operation in the main process: one a vCPU, as torch's default."""
    return max(1, math.floor(vcpus))
