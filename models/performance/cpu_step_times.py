"""Predicts the rates of networks on the cores of a CPU, from a posterior over CPU step times.

The posterior is fitted, conditioned and calibrated on held-out rows like that of GPU step times
(`step_times`), but shares no parameter with it. What the user's sweep measured of networks alone on its CPU
conditions it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.domain import Resources, Task, Workload
from advisor.errors import UsageError
from advisor.models.bayes import Floats, multipliers
from advisor.models.bundled import CPU_STEP_TIMES, IdentityCache, read_bundled_array
from advisor.models.performance.cpu_step_time import CpuConditions, relative_width
from advisor.models.performance.machines import SAME_SCORE, Columns, ReferenceCpu, distinct
from advisor.models.performance.networks import NetworkFacts, bundled_networks
from advisor.models.performance.pipeline import CpuStep, Pipeline
from advisor.models.performance.posterior import Cell, Posterior, posterior_of, quantiles_of
from advisor.models.performance.step_parameters import Step

# Log standard deviation of step times on a machine that others use too.
ROW_SIGMA = 0.10
# Groups of held-out residuals: a batch size of a measured network, a family of networks.
CELL, NETWORK = "cell", "network"
# Names for the user's own CPU and for any CPU that nobody measured, whatever it is called.
OWN_CPU, ANOTHER_CPU = "own", "another"
# Standard error of a user's own measurement of a step.
TRIAL_SIGMA = 0.03

# Means and variances of log seconds at the measured CPU's speed, by batch size, cores, width (0: unknown) and
# name of the CPU. One answer needs the same steps several times, first to see whether an instance type is
# worth considering.
_ESTIMATED: IdentityCache[dict[tuple[float, float, float, str], tuple[float, float]]] = IdentityCache(64)


class CpuRates(NamedTuple):
    """Samples/s of n steps, half widths of their logarithms, and whether held-out residuals back these."""

    samples_per_second: Floats
    lower: Floats
    upper: Floats
    calibrated: bool


class CpuColumns(Columns, frozen=True):
    """CPUs as columns (n,): physical cores; single-thread speed and width of the arithmetic units (nan:
    unknown), both relative to the measured CPU; and the CPU's name, "" for the measured one."""

    cores: Floats
    speed: Floats
    width: Floats
    cpu: NDArray[np.str_]


class CpuStepTimes(Struct, frozen=True, kw_only=True):
    """The posterior over CPU step times, and sorted standardised residuals of held-out rows by group.

    `networks` ("resnet50/training") were measured on the CPU whose single-thread mark is `reference_score`.
    `id` identifies the file that all this was read from."""

    posterior: Posterior
    quantiles: Mapping[str, tuple[float, ...]]
    networks: frozenset[str]
    reference_score: float
    id: str = ""

    def rates(
        self, facts: NetworkFacts, task: Task, batch_sizes: Floats, cpus: CpuColumns, confidence: float
    ) -> CpuRates:
        """The rate of a step at each of `batch_sizes` (n,) on the CPU of the same row of `cpus` (n,)."""
        mean, variance = self._estimates(facts, task, batch_sizes, cpus)
        spread = np.sqrt(variance + ROW_SIGMA**2)
        group = CELL if f"{facts.key}/{task}" in self.networks else NETWORK
        by = multipliers(self.quantiles.get(group, ()), confidence)
        rates = batch_sizes / (np.exp(mean) / cpus.speed)
        return CpuRates(rates, by.lower * spread, by.upper * spread, by.calibrated)

    def most(self, facts: NetworkFacts, task: Task, batch_sizes: Sequence[float], cpus: CpuColumns) -> Floats:
        """The largest median rate of each CPU (n,) over all `batch_sizes`, in samples per second."""
        first, which = distinct(cpus.cores, cpus.width, cpus.cpu)
        sizes = np.repeat(np.array(batch_sizes, dtype=float), len(first))
        mean, _ = self._estimates(facts, task, sizes, cpus.take(np.tile(first, len(batch_sizes))))
        logs = (np.log(sizes) - mean).reshape(len(batch_sizes), -1)
        most: Floats = np.exp(logs.max(axis=0))[which] * cpus.speed
        return most

    def condition(self, cells: Sequence[Cell], seconds: Floats) -> CpuStepTimes:
        """The step times conditioned on a user's measured `seconds` (n,) of steps on a CPU."""
        sigma = np.full(len(cells), TRIAL_SIGMA)
        posterior = self.posterior.condition(cells, np.log(seconds), sigma)
        own = {f"{cell.network}/{cell.step.conditions.task}" for cell in cells}
        return replace(self, posterior=posterior, networks=self.networks | own)

    def _estimates(
        self, facts: NetworkFacts, task: Task, batch_sizes: Floats, cpus: CpuColumns
    ) -> tuple[Floats, Floats]:
        """Mean and variance (n,) of the log seconds of a step at the measured CPU's speed. Apart from speed,
        CPUs come in few kinds."""
        first, which = distinct(batch_sizes, cpus.cores, cpus.width, cpus.cpu)
        columns = (batch_sizes, cpus.cores, np.nan_to_num(cpus.width), cpus.cpu)
        kinds = list(zip(*(column[first].tolist() for column in columns), strict=True))
        by_kind = _ESTIMATED.get((self.posterior, facts), task, dict)
        fresh = [kind for kind in kinds if kind not in by_kind]
        if fresh:
            cells = [
                cpu_cell(facts, CpuConditions(str(task), cpu, cores, 1.0, width or None), batch_size)
                for batch_size, cores, width, cpu in fresh
            ]
            result = self.posterior.predict(cells)
            each = zip(result.mean.tolist(), result.variance.tolist(), strict=True)
            by_kind.update(zip(fresh, each, strict=True))
        mean, variance = np.array([by_kind[kind] for kind in kinds])[which].T
        return mean, variance


def cpu_cell(facts: NetworkFacts, how: CpuConditions, batch_size: float) -> Cell:
    """A step of a network on a CPU, in the form that the posterior takes."""
    rows = facts.kernels[Task(how.task)]
    return Cell(facts.key, Step(rows, facts.parameters, 0.0, batch_size, how))


@cache
def bundled_cpu_step_times() -> CpuStepTimes:
    """The CPU step times that ship, read once."""
    return cpu_step_times_from(read_bundled_array(CPU_STEP_TIMES))


def cpu_step_times_from(record: Any) -> CpuStepTimes:
    """The CPU step times of a file's record."""
    meta = json.loads(record["meta"].tobytes())
    return CpuStepTimes(
        posterior=posterior_of(meta, record),
        quantiles=quantiles_of(meta),
        networks=frozenset(meta["networks"]),
        reference_score=float(meta["reference_score"]),
        id=str(meta["id"]),
    )


def rates_on_cpu(
    workloads: Sequence[Workload],
    facts: NetworkFacts,
    pipeline: Pipeline,
    cpus: CpuColumns,
    confidence: float,
) -> CpuRates:
    """The rate of each workload (n, of one network and task) alone on the CPU of the same row.

    Raises `UsageError` for a network whose operations in that task are unknown."""
    first = workloads[0]
    if first.task not in facts.kernels:
        raise UsageError(
            "what {network} computes in {task} is not known, and so no rate on a CPU",
            hint="ask for an instance with a GPU",
            network=first.network,
            task=first.task,
        )
    sizes = np.array([workload.batch_size for workload in workloads], dtype=float)
    rates = step_times_on_cpu(pipeline).rates(facts, first.task, sizes, cpus, confidence)
    passes = np.array([workload.dataset.passes for workload in workloads])
    return rates._replace(samples_per_second=rates.samples_per_second / passes)


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
