"""The input pipeline part of a performance model, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from advisor.domain import Stage, Task, require_positive
from advisor.records import dataclass, field
from models.performance.features import PipelineColumns
from models.performance.joining import logs_by_stage
from models.performance.networks import Floats, NetworkFacts
from models.performance.ranges import Ranges
from models.performance.remainder import Remainder
from models.performance.stages import cpu_network_rate, join_logs, stage_rates

ALL_TRIALS = "trials"


def trial_group(stage: Stage) -> str:
    """Under what name the residuals of trials bound by `stage` are kept."""
    return f"{ALL_TRIALS}/{stage}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCpu:
    """The CPU that was measured: its PassMark single-thread mark, and how far to trust it.

    `sigma` is the log standard deviation of carrying its rates to a CPU of another mark;
    `architecture` is what the kernel calls its instruction set.
    """

    score: float
    sigma: float
    architecture: str = "x86_64"

    def __post_init__(self) -> None:
        require_positive(score=self.score, sigma=self.sigma)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Parameters of host, storage and join, fitted on sweeps.

    `largest_vcpus` is the most a trial had, `cpu_networks` ("resnet50/training") ran on the CPU,
    `residuals` are sorted held-out residuals of trials by binding stage and of all, `measured` the
    ranges that the trials lie in (empty in models of before they were kept).
    """

    parameters: Mapping[str, float]
    reference: ReferenceCpu
    largest_vcpus: float
    residuals: Mapping[str, Sequence[float]]
    cpu_networks: frozenset[str]
    remainder: Remainder | None
    measured: Ranges = field(default_factory=dict)

    def cpu_rates(self, columns: PipelineColumns, log_core_rates: Floats) -> Floats:
        """Rates (n,) of networks on the CPU alone."""
        return cpu_network_rate(columns, log_core_rates, self.parameters, self.reference.score)

    def stage_rates(self, columns: PipelineColumns, accelerator: Floats) -> Floats:
        """Rates of the stages (n, 4); `accelerator` (n,) is infinite for preprocessing."""
        return stage_rates(columns, accelerator, self.parameters, self.reference.score)

    def join(self, columns: PipelineColumns, rates: Floats) -> tuple[Floats, Floats]:
        """Joined rates (n,), the remainder included, and the stages' weights (n, 4)."""
        logs, weights = join_logs(columns.on_cpu, logs_by_stage(rates), self.parameters)
        return np.exp(self.corrected(columns, logs)), weights.T

    def corrected(self, columns: PipelineColumns, log_rates: Floats) -> Floats:
        """Joined log rates (n,) with what the regression adds to them."""
        if self.remainder:
            return log_rates + self.remainder.log_correction(columns)
        return log_rates


def log_core_rate(facts: NetworkFacts, task: Task, parameters: Mapping[str, float]) -> float:
    """Log samples per second of a network on one reference core.

    FLOPs over what a core reaches, times what this network was seen to differ by.
    """
    operations = facts.operations[task]
    flops = float((operations.flops * operations.count).sum())
    own = parameters.get(f"cpu/network/{facts.name}/{task}", 0.0)
    return parameters["cpu/flops_per_second"] - float(np.log(flops)) + own
