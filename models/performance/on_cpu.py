"""Networks on the CPU: their rates on machines in columns.

`cpu_step_times` tells them; of a network that the user's own sweep ran on the CPU, times what the
fit of that sweep found its rate to differ by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from advisor.domain import Precision, Resources, Workload
from advisor.errors import UsageError
from models.performance.cpu_step_times import CpuColumns, CpuRates
from models.performance.networks import Floats, NetworkFacts
from models.performance.pipeline import Load, Pipeline
from models.performance.step_times_file import bundled_cpu_step_times
from models.performance.vector_units import relative_width
from models.performance.wording import SAME_SCORE, cpu_key


class Cpus(NamedTuple):
    """CPUs as columns (n,): whole cores, single-thread marks and widths of the arithmetic units
    over the measured CPU's (nan: unknown)."""

    cores: Floats
    marks: Floats
    width: Floats


def rates_on_cpu(
    workload: Workload,
    batch_sizes: Floats,
    facts: NetworkFacts,
    pipeline: Pipeline,
    cpus: Cpus,
    confidence: float,
) -> CpuRates:
    """What the workload's network alone reaches in batches of these sizes (n,) on `cpus` (n,).

    Raises `UsageError` for a network whose operations in that task nobody told.
    """
    if workload.task not in facts.kernels:
        raise UsageError(
            f"what {workload.network} computes in {workload.task} is not known, and so no rate on "
            "a CPU; ask for an instance with a GPU"
        )
    columns = _columns(workload, pipeline, cpus)
    times = bundled_cpu_step_times()
    rates = times.rates(facts, workload.task, batch_sizes, columns, confidence)
    by = np.exp(own_log_ratio(cpu_key(workload), pipeline))
    return rates._replace(samples_per_second=by * rates.samples_per_second)


def most_on_cpu(
    workloads: Sequence[Workload], facts: NetworkFacts, pipeline: Pipeline, cpus: Cpus
) -> Floats:
    """The largest median rate (n,) of the workloads, all of one network and task, on `cpus`."""
    columns = _columns(workloads[0], pipeline, cpus)
    by = np.exp(own_log_ratio(cpu_key(workloads[0]), pipeline))
    return np.asarray(by * _most(workloads, facts, columns))


def published_on_cpu(workload: Workload, facts: NetworkFacts, resources: Resources) -> float:
    """What step times tell of the machine's cores at the mark of the CPU that they were measured
    on."""
    cores = min(resources.vcpus, resources.physical_cores)
    width = relative_width(resources.cpu.model) if resources.cpu else np.nan
    one = np.ones(1)
    columns = CpuColumns(cores * one, one, width * one, one > 0)
    return float(_most([workload], facts, columns)[0])


def _most(workloads: Sequence[Workload], facts: NetworkFacts, columns: CpuColumns) -> Floats:
    sizes = [float(workload.batch_size) for workload in workloads]
    return bundled_cpu_step_times().most(facts, workloads[0].task, sizes, columns)


def speed_of(marks: Floats, pipeline: Pipeline) -> Floats:
    """Single-thread marks (n,) over the CPU's that step times were measured on; an unknown one
    counts as that of the pipeline's."""
    known = np.where(np.isnan(marks), pipeline.reference.score, marks)
    return np.asarray(known / bundled_cpu_step_times().reference_score)


def own_on_cpu(key: str) -> str:
    """The parameter that says what a network ("resnet50/training") differs by on the user's CPU."""
    return f"cpu/own/{key}"


def own_log_ratio(key: str, pipeline: Pipeline) -> float:
    """That difference of the log rate; 0 for a network that no sweep ran there."""
    return pipeline.parameters.get(own_on_cpu(key), 0.0)


def _columns(workload: Workload, pipeline: Pipeline, cpus: Cpus) -> CpuColumns:
    """Beside the CPU that the network was measured on, a user's own or the published one."""
    own = cpu_key(workload) in pipeline.cpu_networks
    score = pipeline.reference.score if own else bundled_cpu_step_times().reference_score
    is_same = (np.abs(cpus.marks / score - 1) < SAME_SCORE) & (own | (cpus.width == 1))
    return CpuColumns(cpus.cores, speed_of(cpus.marks, pipeline), cpus.width, ~is_same)


def is_other_format(load: Load) -> bool:
    """Whether a network runs on the CPU in a format whose units were not measured."""
    return load.on_cpu and load.workload.precision is not Precision.FP32
