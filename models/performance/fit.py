"""Fits a whole performance model: the GPU part on published rows, the rest on sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from advisor.domain import Measurement
from models.performance.evaluation import median_percent
from models.performance.fit_pipeline import cpu_steps_of, fit_and_calibrate, trials_of
from models.performance.model import PerformanceModel
from models.performance.networks import Floats, NetworkTable
from models.performance.persistence import content_id, to_document
from models.performance.pipeline import ReferenceCpu
from models.performance.ranges import measured_ranges
from models.performance.step_times import StepTimes
from models.performance.usable import require_enough, sort_out


@dataclass(frozen=True, slots=True)
class FitResult:
    """A fitted model, the residuals of trials it was not fitted on, and what was left out."""

    model: PerformanceModel
    held_out_residuals: Floats
    left_out: tuple[tuple[str, int], ...]

    @property
    def fitted(self) -> int:
        """How many measurements the model was fitted on."""
        return len(self.held_out_residuals)


def fit(
    measurements: Iterable[Measurement],
    step_times: StepTimes,
    table: NetworkTable,
    *,
    networks: Sequence[str],
    sources: Sequence[str],
    reference_of: Callable[[Measurement], ReferenceCpu],
    accelerator_errors: dict[str, float],
    knows_cpu_steps: bool = False,
) -> FitResult:
    """Fit the pipeline on the usable measurements and join it with `step_times`.

    `reference_of` tells what the CPU of a measurement is; `knows_cpu_steps`: the step times of CPUs
    were fitted on these measurements already. Raises `DataError` for
    measurements that nothing can be learnt from.
    """
    sorted_out = sort_out(measurements, table.names)
    require_enough(sorted_out.usable)
    trials = trials_of(sorted_out.usable, table)
    pipeline, residuals = fit_and_calibrate(trials, reference_of(sorted_out.usable[0]))
    cpu_steps = cpu_steps_of(sorted_out.usable, table)
    model = PerformanceModel(
        id="",
        trained_on=_trained_on(sorted_out.usable, step_times),
        error_percent=round(median_percent(residuals), 2),
        networks=tuple(sorted(networks)),
        sources=tuple(sources),
        step_times=step_times,
        pipeline=replace(
            pipeline,
            cpu_networks=frozenset(f"{step.network}/{step.task}" for step in cpu_steps),
            cpu_steps=() if knows_cpu_steps else cpu_steps,
            measured=measured_ranges(sorted_out.usable),
        ),
        table=table,
        accelerator_errors=accelerator_errors,
    )
    return FitResult(with_id(model), residuals, sorted_out.left_out)


def with_id(model: PerformanceModel) -> PerformanceModel:
    """The model under the id of its content."""
    return replace(model, id=content_id(to_document(model)))


def _trained_on(measurements: Sequence[Measurement], step_times: StepTimes) -> str:
    """One line: how many trials on what, and whose GPU rates."""
    days = sorted({m.started_at[:10] for m in measurements if m.started_at})
    when = f", {days[0]}" if days else ""
    networks = len({m.trial.workload.network for m in measurements})
    gpus = len({key.partition("/")[0] for key in step_times.gpus})
    return (
        f"{len(measurements)} sweep trials of {networks} networks{when}; published step times of "
        f"{gpus} GPUs"
    )
