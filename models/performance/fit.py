"""Fits a user's performance model: host, storage and join on sweeps, and step times of GPUs by
conditioning those that ship."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import Measurement, Observation
from advisor.errors import DataError
from advisor.models.bayes import Floats
from advisor.models.performance.fit_pipeline import cpu_steps_of, fit_and_calibrate, trials_of
from advisor.models.performance.gpu_observations import GpuObservations, ProbedLayer, joined_repeats
from advisor.models.performance.machines import ReferenceCpu, measured_ranges
from advisor.models.performance.model import PerformanceModel
from advisor.models.performance.networks import NetworkTable
from advisor.models.performance.persistence import content_id, to_document
from advisor.models.performance.step_times import StepTimes
from advisor.models.performance.usable import require_enough, sort_out


def percent_errors(log_residuals: Floats) -> Floats:
    """|predicted / observed - 1| in percent for log(observed / predicted)."""
    errors: Floats = 100 * np.abs(np.expm1(-np.asarray(log_residuals, dtype=float)))
    return errors


def median_percent(log_residuals: Floats) -> float:
    """Median absolute percentage error."""
    return float(np.median(percent_errors(log_residuals)))


def mean_percent(log_residuals: Floats) -> float:
    """Mean absolute percentage error."""
    return float(np.mean(percent_errors(log_residuals)))


def p90_percent(log_residuals: Floats) -> float:
    """The absolute percentage error that nine rows in ten stay below."""
    return float(np.quantile(percent_errors(log_residuals), 0.9))


class TakenSteps(Struct, frozen=True, kw_only=True):
    """The GPU steps that a fit used: each one's log(measured / predicted without it), shape (n,), and the
    steps that contradict the others or the model.

    `trials` is how many measurements they came from, `left_out` why others told nothing.
    """

    observations: GpuObservations = field(default_factory=GpuObservations)
    residuals: Floats = field(default_factory=lambda: np.zeros(0))
    contradicting: tuple[Observation, ...] = ()
    trials: int = 0
    left_out: tuple[tuple[str, int], ...] = ()


class FitResult(Struct, frozen=True, kw_only=True):
    """A fitted model, the residuals of trials it was not fitted on, and what was left out.

    `kept_pipeline` says why host, storage and join stay those that ship; empty where fitted.
    """

    model: PerformanceModel
    held_out_residuals: Floats
    left_out: tuple[tuple[str, int], ...]
    gpu: TakenSteps = field(default_factory=TakenSteps)
    kept_pipeline: str = ""

    @property
    def fitted(self) -> int:
        """The number of measurements that the pipeline was fitted on."""
        return len(self.held_out_residuals)


def taken_steps(
    steps: Sequence[Observation],
    layers: Sequence[ProbedLayer],
    step_times: StepTimes,
    table: NetworkTable,
    left_out: Mapping[str, int],
) -> TakenSteps:
    """The steps and layers, repeats joined, against what `step_times` makes of them."""
    observations = joined_repeats(steps, layers)
    return TakenSteps(
        observations=observations,
        residuals=-step_times.residuals(observations.steps, table),
        contradicting=tuple(step_times.contradicting(observations.steps, table)),
        trials=len(steps),
        left_out=tuple(sorted(left_out.items())),
    )


def fit(
    measurements: Iterable[Measurement],
    step_times: StepTimes,
    table: NetworkTable,
    *,
    sources: Sequence[str],
    cpu_of: Callable[[Measurement], ReferenceCpu],
    knows_cpu_steps: bool = False,
) -> FitResult:
    """Fit the pipeline on the usable measurements and join it with `step_times`.

    `cpu_of` tells what the CPU of a measurement is; those of other CPUs than most tell by how much those
    differ from what their marks say. `knows_cpu_steps`: the step times of CPUs were fitted on these
    measurements already. Raises `DataError` for measurements that nothing can be learnt from.
    """
    sorted_out = sort_out(measurements, table.names)
    require_enough(sorted_out.usable)
    trials = trials_of(sorted_out.usable, table, cpu_of)
    pipeline, residuals = fit_and_calibrate(trials)
    cpu_steps = cpu_steps_of(sorted_out.usable, table, trials)
    model = PerformanceModel(
        id="",
        trained_on=_trained_on(sorted_out.usable, len(trials.cpus), step_times),
        error_percent=round(median_percent(residuals), 2),
        sources=tuple(sources),
        step_times=step_times,
        pipeline=replace(
            pipeline,
            cpu_networks=frozenset(f"{step.network}/{step.task}" for step in cpu_steps),
            cpu_steps=() if knows_cpu_steps else cpu_steps,
            measured=measured_ranges(sorted_out.usable),
        ),
        table=table,
    )
    return FitResult(model=with_id(model), held_out_residuals=residuals, left_out=sorted_out.left_out)


def kept_pipeline(model: PerformanceModel, measurements: Iterable[Measurement], why: DataError) -> FitResult:
    """The `model` as the result of a fit of measurements that were too few for its pipeline."""
    return FitResult(
        model=model,
        held_out_residuals=np.zeros(0),
        left_out=sort_out(measurements, model.table.names).left_out,
        kept_pipeline=str(why),
    )


def conditioned(result: FitResult, gpu: TakenSteps, step_times: StepTimes) -> FitResult:
    """The fit once its model knows of GPUs what was measured, beside what ships."""
    return replace(result, model=with_gpu(result.model, gpu.observations, step_times), gpu=gpu)


def with_gpu(
    model: PerformanceModel, observations: GpuObservations, step_times: StepTimes
) -> PerformanceModel:
    """The model with these observations, which condition `step_times`, in place of its own."""
    steps, layers = observations
    before = _own_steps(model.gpu_observations.steps)
    return with_id(
        replace(
            model,
            trained_on=model.trained_on.removesuffix(before) + _own_steps(steps),
            step_times=step_times.condition(steps, model.table, layers),
            gpu_observations=observations,
        )
    )


def with_id(model: PerformanceModel) -> PerformanceModel:
    """The model under the id of its content."""
    return replace(model, id=content_id(to_document(model)))


def _trained_on(measurements: Sequence[Measurement], cpus: int, step_times: StepTimes) -> str:
    """One line: how many trials on what, and whose GPU rates."""
    days = sorted({m.started_at[:10] for m in measurements if m.started_at})
    when = f", {days[0]}" if days else ""
    where = f" on {cpus} CPUs" if cpus > 1 else ""
    networks = len({m.trial.workload.network for m in measurements})
    gpus = len({key.partition("/")[0] for key in step_times.gpus})
    return (
        f"{len(measurements)} sweep trials of {networks} networks{where}{when}; "
        f"published step times of {gpus} GPUs"
    )


def _own_steps(steps: Sequence[Observation]) -> str:
    if not steps:
        return ""
    gpus = sorted({entry.gpu.name for entry in steps})
    what = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
    return f"; {what} measured on {', '.join(gpus)}"
