"""What a step consists of: profiled operators, and the operations captured without computing."""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from typing import Any

import torch

from advisor.domain import Task
from advisor.models.zoo.capture import capture_operations
from advisor.models.zoo.opening import Runnable
from advisor.sweeps.operators import operator_table
from advisor.sweeps.worker.step_runner import StepRunner
from advisor.sweeps.worker.torch_engine import TorchEngine

_MOST_STEPS = 5


def profiled_operators(engine: TorchEngine, batch_size: int, seconds: float) -> list[dict[str, Any]]:
    """The table of `operator_table`, of some steps within `seconds`."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = engine.device.type == "cuda"
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    batch, runner = engine.batch(batch_size), StepRunner(engine, depth=0)
    runner.submit(*batch)
    ends_at, steps = time.monotonic() + seconds, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the profiler's advice to its own users
        with profile(activities=activities) as profiled:
            while steps == 0 or (steps < _MOST_STEPS and time.monotonic() < ends_at):
                runner.submit(*batch)
                steps += 1
        averages = profiled.key_averages()
    return operator_table(averages, steps, on_gpu)


def captured_operations(network: Runnable, task: Task) -> dict[str, dict[str, float]] | None:
    """Kernels, FLOPs and bytes a sample by class of operation; None where the network cannot be
    captured (it takes no square images, or does not run on the meta device)."""
    shape = network.info.input_shape
    if not network.info.takes_images or shape[1] != shape[2]:
        return None
    try:
        with torch.device("meta"):
            module = network.build()
        operations = capture_operations(module, shape[-1], training=task is Task.TRAINING)
    except Exception:
        return None  # absent: other outputs than logits, sizes that depend on data
    result: dict[str, dict[str, float]] = defaultdict(
        lambda: {"count": 0, "flops_per_sample": 0.0, "bytes_per_sample": 0.0, "fixed_bytes": 0.0}
    )
    for operation in operations:
        row = result[operation.kind]
        row["count"] += 1
        row["flops_per_sample"] += operation.flops
        row["bytes_per_sample"] += operation.sample_bytes
        row["fixed_bytes"] += operation.fixed_bytes
    return dict(result)
