"""How long a GPU takes for one step: a roofline over operations (MODEL.md's layer-wise form).

    T_gpu = exp(offsets) * sum_ops count * ((compute^4 + memory^4)^(1/4) + kernel)
    T     = (T_gpu^4 + (launch * launches)^4)^(1/4) + copied bytes / copy rate

compute is FLOPs over the peak of the unit, divided by an efficiency; memory is bytes over the
bandwidth, divided by another; kernel is what any kernel takes, launch what the CPU needs to
start one. Efficiencies are exp(sum of named parameters).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from advisor.records import dataclass
from models.performance.networks import Floats
from models.performance.step_work import StepWork

KERNEL = "kernel_seconds"
# Pageable host memory over PCIe 3 x16, as sources that copy inside the timed step do it.
COPY_BYTES_PER_SECOND = 6e9

Parameters = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of steps at several batch sizes (b), with shares for the fit's derivatives.

    `compute_share` and `memory_share` have shape (b, operations): the derivative of log
    `seconds` by the log of that operation's compute or memory time.
    """

    seconds: Floats
    compute_share: Floats
    memory_share: Floats
    kernel_share: Floats
    launch_share: Floats
    gpu_share: Floats


def step_seconds(work: StepWork, batch_sizes: Floats, parameters: Parameters) -> Floats:
    """Seconds of one step for each batch size, shape (b,)."""
    logs = step_logs(work, parameters)
    compute, memory = _operation_seconds(work, batch_sizes, logs)
    joined = np.sqrt(np.sqrt(compute**4 + memory**4))
    gpu = (joined @ work.count + np.exp(logs.kernel) * work.count.sum()) * np.exp(logs.offset)
    launch = np.exp(logs.launch) * work.launches
    copied: Floats = work.copy_bytes * batch_sizes / COPY_BYTES_PER_SECOND
    seconds: Floats = np.sqrt(np.sqrt(gpu**4 + launch**4)) + copied
    return seconds


@dataclass(frozen=True, slots=True)
class StepLogs:
    """Sums of named parameters: log efficiencies of operations, logs of the rest."""

    compute: Floats
    memory: Floats
    offset: float
    launch: float
    kernel: float


def step_logs(work: StepWork, parameters: Parameters) -> StepLogs:
    """The parameters that count for `work`, summed where they work together."""
    simt, tensor = _total(work.shared_simt, parameters), _total(work.shared_tensor, parameters)
    compute = np.array([parameters.get(name, 0.0) for name in work.compute_names])
    memory = np.array([parameters.get(name, 0.0) for name in work.traffic_names])
    return StepLogs(
        compute=compute + np.where(work.tensor, tensor, simt),
        memory=memory + _total(work.shared_traffic, parameters),
        offset=_total(work.offset_names, parameters),
        launch=_total(work.launch_names, parameters),
        kernel=_total((KERNEL,), parameters),
    )


def step_times(work: StepWork, batch_sizes: Floats, logs: StepLogs) -> StepTimes:
    """`step_seconds` with the derivatives that fitting needs."""
    compute, memory = _operation_seconds(work, batch_sizes, logs)
    compute_power, memory_power = compute**4, memory**4
    joined = np.sqrt(np.sqrt(compute_power + memory_power))
    offset = np.exp(logs.offset)
    kernel = np.exp(logs.kernel) * work.count.sum() * offset
    gpu = joined @ work.count * offset + kernel
    launch = np.exp(logs.launch) * work.launches
    device = np.sqrt(np.sqrt(gpu**4 + launch**4))
    seconds = device + work.copy_bytes * batch_sizes / COPY_BYTES_PER_SECOND
    by_gpu = (gpu / device) ** 3 / seconds
    by_operation = by_gpu[:, None] * offset * work.count / joined**3
    return StepTimes(
        seconds=seconds,
        compute_share=by_operation * compute_power,
        memory_share=by_operation * memory_power,
        kernel_share=by_gpu * kernel,
        launch_share=(launch / device) ** 3 * launch / seconds,
        gpu_share=by_gpu * gpu,
    )


def _operation_seconds(
    work: StepWork, batch_sizes: Floats, logs: StepLogs
) -> tuple[Floats, Floats]:
    """Compute and memory seconds of each operation, each of shape (b, operations)."""
    batch = batch_sizes[:, None]
    compute = batch * (work.compute * np.exp(-logs.compute))
    # The smallest number keeps an operation without any traffic from dividing by zero.
    memory = (batch * work.traffic + work.fixed_traffic) * np.exp(-logs.memory) + 1e-12
    return compute, memory


def _total(names: Iterable[str], parameters: Parameters) -> float:
    return sum(parameters.get(name, 0.0) for name in names)
