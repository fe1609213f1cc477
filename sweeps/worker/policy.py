"""Chooses a trial's settings that plan and worker must agree on: threads, loader processes, durations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# `"input": "synthetic"` in a plan: one batch on the device, without a data set or input pipeline.
SYNTHETIC = "synthetic"
# `"clock": "cpu_seconds"` in a plan: steps are timed in CPU seconds of their one thread, which other load
# does not change.
CPU_CLOCK = "cpu_seconds"
PREFETCH_FACTOR = 2  # batches that each loader process prepares ahead; torch's default
# Longest measurement of the GPU alone after the main run; a shorter main run shortens it.
_GPU_ALONE_SECONDS = 10.0


def is_synthetic(plan: Mapping[str, Any]) -> bool:
    """Whether a trial measures its network without an input pipeline."""
    return plan.get("input") == SYNTHETIC


def gpu_alone_seconds(plan: Mapping[str, Any]) -> float:
    """Seconds for which a trial on a GPU times the network alone, after its main run."""
    if is_synthetic(plan):
        return 0.0
    return min(_GPU_ALONE_SECONDS, float(plan.get("measure_seconds", _GPU_ALONE_SECONDS)))


def loader_workers(vcpus: float) -> int:
    """The number of loader processes: one for each vCPU, at least one.

    Even below one vCPU a separate process can decode while the accelerator is fed; more processes than vCPUs
    only cost memory and context switches."""
    return max(1, math.floor(vcpus))


def compute_threads(vcpus: float) -> int:
    """The number of threads of an operation in the main process: one for each vCPU, like torch's default."""
    return max(1, math.floor(vcpus))
