"""Steps of any device as columns, and how long they take: GPUs' and CPUs' forms behind one door.

All steps of one call run on one kind of device, as their conditions tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.performance import cpu_step_time, step_time
from models.performance.cpu_step_time import CpuConditions, CpuSteps
from models.performance.step_parameters import Floats, Parameters, Step
from models.performance.step_time import Steps


def steps_of(steps: Sequence[Step], parameters: Parameters) -> Steps | CpuSteps:
    """The steps as columns; parameters that they need are added to `parameters`."""
    if steps and isinstance(steps[0].conditions, CpuConditions):
        return cpu_step_time.steps_of(steps, parameters)
    return step_time.steps_of(steps, parameters)


def log_seconds(steps: Steps | CpuSteps, theta: Floats) -> Floats:
    """Log of each step's seconds, shape (count,)."""
    if isinstance(steps, CpuSteps):
        return cpu_step_time.log_seconds(steps, theta)
    return step_time.log_seconds(steps, theta)


def log_seconds_and_slopes(steps: Steps | CpuSteps, theta: Floats) -> tuple[Floats, Floats]:
    """The same, and its derivative by every parameter, shape (count, parameters)."""
    if isinstance(steps, CpuSteps):
        return cpu_step_time.log_seconds_and_slopes(steps, theta)
    return step_time.log_seconds_and_slopes(steps, theta)
