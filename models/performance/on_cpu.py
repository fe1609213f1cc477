"""Networks on the CPU: their rates on machines in columns, and what is unsure about them.

The rates are `cpu`'s, carried by marks and the width of arithmetic units. A network that the
user's own sweep ran on the CPU is told from that: only the steps from the sweep's batches and core
to those asked for are `cpu`'s.
"""

from __future__ import annotations

import numpy as np

from advisor.domain import Precision, Workload
from advisor.errors import UsageError
from models.performance.cpu import CpuRates, bundled_cpu_rates
from models.performance.intervals import HalfWidths
from models.performance.machines import ResourceTable
from models.performance.networks import Floats, NetworkFacts
from models.performance.pipeline import Load, Pipeline, log_core_rate
from models.performance.wording import SAME_SCORE, cpu_key

# Log standard deviations of carrying a network to another CPU beside what marks say, and of each
# doubling of cores beyond the measured: docs/cpu_only.md has what they stand on.
_OTHER_CPU_SIGMA = 0.24
_PER_DOUBLING_OF_CORES_SIGMA = 0.20
# The batch that a sweep's rate on one core is taken to be of.
_SWEPT_BATCH = 16


def rates_on_cpu(
    workload: Workload,
    batch_sizes: Floats,
    facts: NetworkFacts,
    pipeline: Pipeline,
    cores: Floats,
    marks: Floats,
    vector: Floats,
) -> Floats:
    """Samples per second (n,) of the workload's network alone, in batches of these sizes (n,), on
    so many whole `cores` (n,) of CPUs with these single-thread `marks` (nan: unknown) and
    arithmetic units so many times as wide.

    Raises `UsageError` for a network whose operations in that task nobody told.
    """
    if workload.task not in facts.kernels:
        raise UsageError(
            f"what {workload.network} computes in {workload.task} is not known, and so no rate on "
            "a CPU; ask for an instance with a GPU"
        )
    cpu = bundled_cpu_rates()
    rates = cpu.rates(facts, workload.task, batch_sizes, cores, vector)
    own = cpu_key(workload) in pipeline.cpu_networks
    score = pipeline.reference.score if own else cpu.reference_score
    rates *= np.where(np.isnan(marks), 1.0, marks / score)
    if not own:
        return rates
    one = np.ones(1)
    swept = cpu.rates(facts, workload.task, _SWEPT_BATCH * one, one, one)[0]
    rates *= np.exp(log_core_rate(facts, workload.task, pipeline.parameters)) / swept
    return rates


def widths_on_cpu(load: Load, pipeline: Pipeline, confidence: float) -> HalfWidths:
    """How far the rate on the measured CPU may lie from the predicted one."""
    own = cpu_key(load.workload) in pipeline.cpu_networks
    return bundled_cpu_rates().widths(
        load.workload.network, load.workload.task, confidence, measured=own
    )


def carried_sigma(machines: ResourceTable, on_cpu: Floats) -> Floats:
    """Log standard deviation (n,) of telling a network's rate on this CPU and so many cores; 0 but
    where `on_cpu` (n,) is 1."""
    if not on_cpu.any():
        return np.zeros(len(machines))
    cpu: CpuRates = bundled_cpu_rates()
    same = np.abs(machines.score / cpu.reference_score - 1) < SAME_SCORE
    other = np.where(same & (machines.vector_sigma == 0), 0.0, _OTHER_CPU_SIGMA)
    cores = np.minimum(machines.vcpus, machines.physical_cores)
    doublings = np.maximum(0.0, np.log2(cores / cpu.largest_cores))
    carried = np.hypot(other, machines.vector_sigma)
    sigma: Floats = on_cpu * np.hypot(carried, _PER_DOUBLING_OF_CORES_SIGMA * doublings)
    return sigma


def is_other_format(load: Load) -> bool:
    """Whether a network runs on the CPU in a format whose units were not measured."""
    return load.on_cpu and load.workload.precision is not Precision.FP32
