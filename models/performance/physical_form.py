"""The physical form of a pipeline's rates: its parameters, their priors and their fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from advisor.domain import Task
from advisor.models.bayes import Floats
from advisor.models.performance.cpu_step_times import published_on_cpu, speed_of
from advisor.models.performance.machines import ReferenceCpu
from advisor.models.performance.networks import NetworkTable
from advisor.models.performance.pipeline import (
    GAMMA_RANGE,
    PIPELINE_PRIORS,
    Pipeline,
    PipelineColumns,
    PipelineRequest,
)

# Scatter of a trial's rate on a shared machine; residuals are counted in it.
TRIAL_SIGMA = 0.06
# Parameters that may lie far from their priors: contention is low for decoders, but high behind a lock.
_STRAYING = ("host/contention",)
# Step of numerical derivatives, in standard deviations of a prior.
_STEP = 1e-3
# Log standard deviation of the rate of a network on this CPU around what step times predict.
_CPU_NETWORK_SIGMA = 0.5


class Trials(Struct, frozen=True):
    """Trials as columns (n,), and the CPUs they ran on, the reference one first. `modelled` rows have a
    network on the CPU that was not measured: their `accelerator` rate is from `modelled_on_cpu`."""

    columns: PipelineColumns
    cells: tuple[tuple[str, Task], ...]
    accelerator: Floats
    modelled: NDArray[np.bool_]
    cpus: tuple[ReferenceCpu, ...]

    def take(self, rows: Sequence[int]) -> Trials:
        """Some of the trials, by their numbers."""
        chosen = list(rows)
        cells = tuple(self.cells[row] for row in chosen)
        columns, modelled = self.columns.take(chosen), self.modelled[chosen]
        return Trials(columns, cells, self.accelerator[chosen], modelled, self.cpus)


class PhysicalForm(Struct, frozen=True):
    """The form's parameters `names` (p,) with normal priors `means` and `sigmas` (p,)."""

    names: tuple[str, ...]
    means: Floats
    sigmas: Floats
    cpus: tuple[ReferenceCpu, ...]
    largest_vcpus: float

    @classmethod
    def of(cls, trials: Trials) -> PhysicalForm:
        """The form with all parameters of these trials, also those of modelled networks and other CPUs."""
        priors = dict(PIPELINE_PRIORS)
        for (network, task), entry in zip(trials.cells, trials.modelled, strict=True):
            if entry:
                priors[_own(f"{network}/{task}")] = (0.0, _CPU_NETWORK_SIGMA)
        reference, *others = trials.cpus
        for number, cpu in enumerate(others, 1):
            priors |= reference.priors_of(cpu, number)
        means, sigmas = (np.array(column) for column in zip(*priors.values(), strict=True))
        on_reference = trials.columns.vcpus[trials.columns.cpu == 0]
        return cls(tuple(priors), means, sigmas, trials.cpus, float(on_reference.max(initial=0.0)))

    def pipeline(self, units: Floats) -> Pipeline:
        """The pipeline with parameters `units` (p,) standard deviations from their priors' means."""
        values = (self.means + self.sigmas * units).tolist()
        return Pipeline(
            parameters=dict(zip(self.names, values, strict=True)),
            reference=self.cpus[0],
            largest_vcpus=self.largest_vcpus,
            residuals={},
            other_cpus=self.cpus[1:],
        )

    def log_rates(self, trials: Trials, units: Floats) -> Floats:
        """Log samples per second of the trials (n,) at parameters `units` (p,)."""
        return np.asarray(np.log(joined_rates(trials, self.pipeline(units))[0]))

    def slopes(self, trials: Trials, units: Floats) -> Floats:
        """Derivatives of log rates by each parameter, shape (n, p)."""
        steps = _STEP * np.eye(len(units))
        ends = [
            (self.log_rates(trials, units + step), self.log_rates(trials, units - step)) for step in steps
        ]
        return np.column_stack([(high - low) / (2 * _STEP) for high, low in ends])

    def fitted(self, trials: Trials, logs: Floats, weights: Floats | float = 1.0) -> Floats:
        """The likeliest parameters (p,) for log rates (n,), in prior standard deviations."""
        from scipy.optimize import least_squares

        def residuals(units: Floats) -> Floats:
            data = (logs - self.log_rates(trials, units)) / TRIAL_SIGMA
            # The squares are a soft-L1 loss, so that one bad trial has little effect; for `_STRAYING`
            # parameters they are the loss of Student's t with two degrees of freedom.
            soft = np.sign(data) * np.sqrt(8 * (np.sqrt(1 + data**2 / 4) - 1))
            heavy_tailed = np.sign(units) * np.sqrt(2 * np.log1p(units**2 / 2))
            return np.concatenate([np.sqrt(weights) * soft, np.where(strays, heavy_tailed, units)])

        strays = np.array([name in _STRAYING for name in self.names])
        lower, upper = np.full(len(self.names), -8.0), np.full(len(self.names), 8.0)
        gamma = self.names.index("join/gamma")
        lower[gamma], upper[gamma] = (np.log(GAMMA_RANGE) - self.means[gamma]) / self.sigmas[gamma]
        start = np.zeros(len(self.names))
        return np.asarray(least_squares(residuals, start, bounds=(lower, upper), max_nfev=50).x)


def joined_rates(trials: Trials, pipeline: Pipeline) -> tuple[Floats, Floats]:
    """Predicted rates (n,) and stage weights (n, 4)."""
    accelerator = trials.accelerator
    if trials.modelled.any():
        speed = speed_of(trials.columns.score, pipeline)
        own = [pipeline.parameters.get(_own(f"{name}/{task}"), 0.0) for name, task in trials.cells]
        accelerator = accelerator * np.where(trials.modelled, speed * np.exp(own), 1.0)
    return pipeline.join(trials.columns, pipeline.stage_rates(trials.columns, accelerator))


def _own(key: str) -> str:
    """The name of the parameter for a network's ("resnet50/training") deviation on this CPU."""
    return f"cpu/own/{key}"


def modelled_on_cpu(request: PipelineRequest, networks: NetworkTable) -> float:
    """The rate that the shipped step times predict for the network alone, at the mark of their CPU."""
    workload = request.workload
    return published_on_cpu(workload, networks.of(workload), request.resources)
