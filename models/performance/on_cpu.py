"""Rates of networks on CPUs, for machines in columns.

They come from the step times that ship, conditioned on what the user's sweep measured of networks alone on
its CPU."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from advisor.domain import Resources, Workload
from advisor.errors import UsageError
from advisor.models.bayes import Floats
from advisor.models.performance.cpu_step_time import CpuConditions, relative_width
from advisor.models.performance.cpu_step_times import (
    ANOTHER_CPU,
    OWN_CPU,
    CpuColumns,
    CpuRates,
    CpuStepTimes,
    cpu_cell,
)
from advisor.models.performance.machines import SAME_SCORE, ReferenceCpu
from advisor.models.performance.networks import NetworkFacts, bundled_networks
from advisor.models.performance.pipeline import CpuStep, Pipeline
from advisor.models.performance.step_times_file import bundled_cpu_step_times


def rates_on_cpu(
    workload: Workload,
    batch_sizes: Floats,
    facts: NetworkFacts,
    pipeline: Pipeline,
    cpus: CpuColumns,
    confidence: float,
) -> CpuRates:
    """Rates of the workload's network alone, with `batch_sizes` (n,) on `cpus` (n,).

    Raises `UsageError` for a network whose operations in that task are unknown."""
    if workload.task not in facts.kernels:
        raise UsageError(
            "what {network} computes in {task} is not known, and so no rate on a CPU",
            hint="ask for an instance with a GPU",
            network=workload.network,
            task=workload.task,
        )
    return step_times_on_cpu(pipeline).rates(facts, workload.task, batch_sizes, cpus, confidence)


def published_on_cpu(workload: Workload, facts: NetworkFacts, resources: Resources) -> float:
    """Samples/s on as many cores as the machine has, at the mark of the CPU behind the shipped step times."""
    cores = min(resources.vcpus, resources.physical_cores)
    width = relative_width(resources.cpu.model) if resources.cpu else np.nan
    entry = np.ones(1)
    columns = CpuColumns(cores * entry, entry, width * entry, np.array([ANOTHER_CPU]))
    times, sizes = bundled_cpu_step_times(), [float(workload.batch_size)]
    return float(times.most(facts, workload.task, sizes, columns)[0])


def step_times_on_cpu(pipeline: Pipeline) -> CpuStepTimes:
    """The CPU step times that ship, conditioned on what the pipeline's sweep measured."""
    if not pipeline.cpu_steps:
        return bundled_cpu_step_times()
    return _conditioned(pipeline.cpu_steps, pipeline.cpus, pipeline.cpu_speeds)


@lru_cache(maxsize=8)
def _conditioned(
    steps: tuple[CpuStep, ...], cpus: tuple[ReferenceCpu, ...], speeds: tuple[float, ...]
) -> CpuStepTimes:
    times, table = bundled_cpu_step_times(), bundled_networks()
    widths = [relative_width(cpu.model) for cpu in cpus]
    cells = [
        cpu_cell(
            table.find(step.network, step.input),
            CpuConditions(
                task=str(step.task),
                cpu=_own_cpu(cpus, step.cpu),
                cores=step.cores,
                speed=cpus[step.cpu].score * speeds[step.cpu] / times.reference_score,
                width=None if np.isnan(widths[step.cpu]) else widths[step.cpu],
            ),
            float(step.batch_size),
        )
        for step in steps
    ]
    return times.condition(cells, np.array([step.seconds for step in steps]))


def speed_of(marks: Floats, pipeline: Pipeline) -> Floats:
    """Single-thread marks (n,) over that of the step times' CPU; nan counts as the pipeline's CPU."""
    existing = np.where(np.isnan(marks), pipeline.reference.score, marks)
    return np.asarray(existing / bundled_cpu_step_times().reference_score)


def cpu_columns(cores: Floats, marks: Floats, names: NDArray[np.str_], pipeline: Pipeline) -> CpuColumns:
    """CPUs as columns, given physical cores, single-thread marks (nan: unknown) and names, each (n,)."""
    width = np.array([relative_width(name) for name in names.tolist()], dtype=float)
    kind = np.where(_is_published(marks, width), "", ANOTHER_CPU)
    speed = speed_of(marks, pipeline)
    for number in sorted({step.cpu for step in pipeline.cpu_steps}):
        own = (names == pipeline.cpus[number].model) & (names != "")
        kind = np.where(own, _own_cpu(pipeline.cpus, number), kind)
        speed = np.where(own, speed_of(marks, pipeline) * pipeline.cpu_speeds[number], speed)
    return CpuColumns(cores, speed, width, kind)


def _own_cpu(cpus: tuple[ReferenceCpu, ...], number: int) -> str:
    """The name that steps use for one of the user's CPUs; "" if it is like the published one."""
    if number:
        return f"{OWN_CPU}/{number}"
    cpu = cpus[number]
    return "" if _is_published(np.array(cpu.score), np.array(relative_width(cpu.model))) else OWN_CPU


def _is_published(marks: Floats, width: Floats) -> NDArray[np.bool_]:
    ratio = marks / bundled_cpu_step_times().reference_score
    return np.asarray((np.abs(ratio - 1) < SAME_SCORE) & (width == 1))
