"""Clocks, power and the PCI Express link while the GPU works: an idle one slows all three."""

from __future__ import annotations

import time

from advisor.errors import MeasuringError
from sweeps.machine import nvidia_smi
from sweeps.probe.accelerator import CUDA
from sweeps.probe.extras import load_torch
from sweeps.probe.figures import Document
from sweeps.probe.session import ProbeBudget

_SIDE = 8192
_SMALL_SIDE = 2048
_SMALL_MEMORY_BYTES = 4 * 2**30
_LOAD_FIGURES = 4  # how many transfer figures long the load lasts
_MOST_QUEUED = 900  # beyond some 1,000 launches the host would wait for the device


def state_under_load(budget: ProbeBudget) -> Document:
    """nvidia-smi's state of every GPU, asked while device 0 multiplies matrices.

    Raises `MeasuringError` when the work was done before nvidia-smi answered: then it would
    be the state of an idle GPU.
    """
    torch = load_torch()
    free, _ = torch.cuda.mem_get_info()
    side = _SIDE if free > _SMALL_MEMORY_BYTES else _SMALL_SIDE
    left = CUDA.random(side, side, dtype=torch.float16)
    product = torch.empty_like(left)
    once = min(CUDA.time_calls(lambda: torch.mm(left, left, out=product), 0.0))
    wanted = budget.transfer_figure * _LOAD_FIGURES
    launches = max(1, min(_MOST_QUEUED, int(wanted / once)))
    for _ in range(launches):
        torch.mm(left, left, out=product)
    done = torch.cuda.Event()
    done.record()
    time.sleep(min(wanted, launches * once) / 4)  # clocks take a moment to rise
    state = nvidia_smi.query(nvidia_smi.STATE_FIELDS)
    idle_already = done.query()
    CUDA.synchronize()
    CUDA.free()
    if idle_already:
        raise MeasuringError("the GPU was idle again before nvidia-smi had answered")
    return {"gpus": state, "work": f"fp16 products of {side}x{side} matrices on device 0"}
