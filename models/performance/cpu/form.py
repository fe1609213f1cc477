"""Seconds of a step of a network on some cores of one CPU: a sum over its operations.

    T = sum_ops count * ((compute^p + memory^p)^(1/p) + kernel)

compute is FLOPs over what a core reaches in that class of operations, on useful cores; memory is
bytes over what a core moves, on those cores that memory still feeds; kernel is what starting an
operation takes, on one core whatever their number. Unlike a GPU's, a CPU's kernels are not started
ahead, so their times add. Rates are exp(sum of named parameters).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from advisor.domain import Task
from advisor.records import dataclass
from models.performance.networks import Floats, NetworkFacts

Parameters = Mapping[str, float]
# SGD with momentum reads weight, gradient and momentum and writes weight and momentum, in fp32.
_OPTIMIZER_BYTES_PER_PARAMETER = 5 * 4
ARITHMETIC = ("conv_depthwise", "conv_grouped", "conv_1x1", "conv_3x3", "conv_kxk", "linear")
# Keeps an operation without bytes from dividing by zero.
_SHORTEST_SECONDS = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Which terms a step has: the forms that were tried differ in these alone.

    `classes`: a rate for each class of operations, else one for all. `power` joins arithmetic and
    traffic (1: they add, 4: nearly the longer one). Without `traffic` only FLOPs and kernels count.
    """

    name: str
    classes: bool
    power: int
    traffic: bool


FLOPS = Form(name="flops", classes=False, power=1, traffic=False)
ADDED = Form(name="added", classes=True, power=1, traffic=True)
ROOFLINE = Form(name="roofline", classes=True, power=4, traffic=True)
FORMS = {form.name: form for form in (FLOPS, ADDED, ROOFLINE)}


@dataclass(frozen=True, slots=True)
class CpuWork:
    """What a step needs, one row an operation: FLOPs and bytes a sample, bytes a step, and names
    of the parameters that count for it."""

    flops: Floats
    sample_bytes: Floats
    fixed_bytes: Floats
    count: Floats
    compute_names: tuple[str, ...]
    memory_names: tuple[str, ...]
    compute_shared: tuple[str, ...]
    memory_shared: tuple[str, ...]
    kernel_shared: tuple[str, ...]
    offset_names: tuple[str, ...]


@lru_cache(maxsize=64)
def cpu_work(facts: NetworkFacts, task: Task) -> CpuWork:
    """The operations of a network's task, and what its optimiser moves."""
    operations = facts.operations[task]
    optimizer = _OPTIMIZER_BYTES_PER_PARAMETER * facts.parameters * (task is Task.TRAINING)
    kinds = (*operations.kind, "elementwise")
    return CpuWork(
        flops=np.append(operations.flops, 0.0),
        sample_bytes=np.append(operations.sample_bytes, 0.0),
        fixed_bytes=np.append(operations.fixed_bytes, float(optimizer)),
        count=np.append(operations.count, 1.0),
        compute_names=tuple(f"compute/{kind}" for kind in kinds),
        memory_names=tuple(f"memory/{kind}" for kind in kinds),
        compute_shared=("compute", f"compute/task/{task}"),
        memory_shared=("memory", f"memory/task/{task}"),
        kernel_shared=("kernel", f"kernel/task/{task}"),
        offset_names=own_names(facts.name, task),
    )


def own_names(network: str, task: Task) -> tuple[str, str]:
    """What a network differs by, in both tasks and in one."""
    return f"network/{network}", f"network/{network}/{task}"


def step_seconds(
    work: CpuWork,
    batch_sizes: Floats,
    parameters: Parameters,
    form: Form,
    *,
    compute_cores: Floats,
    memory_cores: Floats,
) -> Floats:
    """Seconds (n,) of steps of `batch_sizes` (n,) on reference cores: so many do arithmetic, and so
    many are fed by memory, each (n,)."""
    batch = batch_sizes[:, None]
    shared = _total(work.compute_shared, parameters)
    compute_logs = shared + _each(work.compute_names, parameters, form.classes)
    compute = batch * work.flops * np.exp(-compute_logs) / compute_cores[:, None]
    joined = compute
    if form.traffic:
        shared = _total(work.memory_shared, parameters)
        memory_logs = shared + _each(work.memory_names, parameters, form.classes)
        moved = batch * work.sample_bytes + work.fixed_bytes
        memory = moved * np.exp(-memory_logs) / memory_cores[:, None] + _SHORTEST_SECONDS
        joined = compute + memory if form.power == 1 else _norm(compute, memory)
    kernels = np.exp(_total(work.kernel_shared, parameters)) * work.count.sum()
    seconds: Floats = joined @ work.count + kernels / np.minimum(1.0, compute_cores)
    seconds *= np.exp(_total(work.offset_names, parameters))
    return seconds


def _norm(one: Floats, other: Floats) -> Floats:
    squares = one * one, other * other
    joined: Floats = np.sqrt(np.sqrt(squares[0] * squares[0] + squares[1] * squares[1]))
    return joined


def _each(names: tuple[str, ...], parameters: Parameters, classes: bool) -> Floats:
    if not classes:
        return np.zeros(len(names))
    return np.array([parameters.get(name, 0.0) for name in names])


def _total(names: tuple[str, ...], parameters: Parameters) -> float:
    return sum(parameters.get(name, 0.0) for name in names)
