"""Fits a user's performance model: host, storage and join on sweeps, and step times of GPUs by
conditioning those that ship."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import Measurement, Observation
from advisor.errors import DataError
from advisor.models.bayes import Floats
from advisor.models.performance.fit_pipeline import (
    Trials,
    configuration,
    cpu_steps_of,
    fit_and_calibrate,
    folds_of,
    residuals_of,
    trials_beside,
)
from advisor.models.performance.gpu_observations import GpuObservations, ProbedLayer, joined_repeats
from advisor.models.performance.machines import SPEED, Integers, ReferenceCpu, measured_ranges
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


# Samples per second, in place of what nothing limits.
_FASTEST = 1e6
# A machine that is so many times as fast, or as slow, as the mark of its CPU says is named.
ODD_SPEED = 1.5


class MachineSpeed(NamedTuple):
    """A user's CPU, and its speed over what its name promises."""

    cpu: str
    factor: float

    @property
    def is_odd(self) -> bool:
        """Whether it is another one than its name says, or was busy."""
        return not 1 / ODD_SPEED <= self.factor <= ODD_SPEED


class FitResult(Struct, frozen=True, kw_only=True):
    """A fitted model, the residuals of trials it was not fitted on, and what was left out.

    `residuals_by` are those of other predictors of the same trials, by name: the model that ships, and plain
    regressions. `kept_pipeline` says why host, storage and join stay those that ship; empty where fitted.
    """

    model: PerformanceModel
    held_out_residuals: Floats
    left_out: tuple[tuple[str, int], ...]
    gpu: TakenSteps = field(default_factory=TakenSteps)
    kept_pipeline: str = ""
    residuals_by: Mapping[str, Floats] = field(default_factory=dict)
    machines: tuple[MachineSpeed, ...] = ()

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
    shipped: PerformanceModel | None = None,
    shipped_rows: Sequence[Measurement] = (),
) -> FitResult:
    """Fit the pipeline on the usable measurements and join it with `step_times`.

    The pipeline of the `shipped` model is conditioned by them: it is fitted on its own rows and on these,
    each of whose CPUs has a speed of its own. `cpu_of` tells what the CPU of a measurement is; those of other
    CPUs than most tell by how much those differ from what their marks say. `knows_cpu_steps`: the step times
    of CPUs were fitted on these measurements already. Raises `DataError` for measurements that nothing can
    be learnt from.
    """
    sorted_out = sort_out(measurements, table.names)
    usable = sorted_out.usable
    require_enough(usable)
    known = {(row.trial.trial_id, row.started_at) for row in usable}
    before = [row for row in shipped_rows if (row.trial.trial_id, row.started_at) not in known]
    before = list(sort_out(before, table.names).usable)
    trials = trials_beside(before, usable, table, cpu_of)
    folds = folds_of([configuration(row) for row in usable])
    calibrated = shipped.pipeline.residuals if shipped and before else {}
    pipeline, residuals = fit_and_calibrate(trials, folds, calibrated)
    own = trials.take(np.arange(len(trials.log_rate)) >= len(before))
    cpu_steps = cpu_steps_of(usable, table, own)
    first = len({cpu_of(row) for row in before})
    machines = tuple(
        MachineSpeed(cpu.model or "CPU", float(np.exp(pipeline.parameters[f"{SPEED}/{number}"])))
        for number, cpu in enumerate(pipeline.cpus)
        if before and number >= first
    )
    cpus = len({*own.columns.cpu.tolist()})
    model = PerformanceModel(
        id="",
        trained_on=_trained_on(usable, cpus, step_times, shipped if before else None),
        error_percent=round(median_percent(residuals), 2),
        sources=tuple(sources),
        step_times=step_times,
        pipeline=replace(
            pipeline,
            cpu_networks=frozenset(f"{step.network}/{step.task}" for step in cpu_steps),
            cpu_steps=() if knows_cpu_steps else cpu_steps,
            measured=measured_ranges([*before, *usable]),
        ),
        table=table,
    )
    by_shipped = {"shipped": residuals_of(shipped.pipeline, usable, table, cpu_of)} if shipped else {}
    return FitResult(
        model=with_id(model),
        held_out_residuals=residuals,
        left_out=sorted_out.left_out,
        residuals_by={**by_shipped, **_regressions(own, folds)} if shipped else {},
        machines=machines,
    )


def _regressions(trials: Trials, folds: Integers) -> dict[str, Floats]:
    """Held-out residuals of two plain regressions of log rates on the trials' numbers, which know no physics
    and no other trials; none without scikit-learn."""
    try:
        from sklearn.ensemble import GradientBoostingRegressor
        from sklearn.linear_model import RidgeCV
        from sklearn.model_selection import PredefinedSplit, cross_val_predict
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError:
        return {}
    columns = trials.columns
    rates = (trials.accelerator, columns.disk_bytes_per_second / columns.stored_bytes)
    pixels = (columns.decoded_pixels, columns.resampled_pixels, columns.output_pixels)
    numbers = [columns.vcpus, columns.batch_size, columns.encoded_bytes, columns.score, *pixels]
    numbers += [np.minimum(rate, _FASTEST) for rate in rates]
    shares = (columns.cached_share, columns.training, columns.on_cpu)
    features = np.column_stack([*(np.log1p(np.nan_to_num(number)) for number in numbers), *shares])
    models = {
        "boosting": GradientBoostingRegressor(random_state=0),
        "linear": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
    }
    split = PredefinedSplit(folds)
    return {
        name: trials.log_rate - cross_val_predict(model, features, trials.log_rate, cv=split)
        for name, model in models.items()
    }


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


def _trained_on(
    measurements: Sequence[Measurement], cpus: int, step_times: StepTimes, shipped: PerformanceModel | None
) -> str:
    """One line: how many trials on what, beside which that ship, and whose GPU rates."""
    days = sorted({m.started_at[:10] for m in measurements if m.started_at})
    when = f", {days[0]}" if days else ""
    where = f" on {cpus} CPUs" if cpus > 1 else ""
    networks = len({m.trial.workload.network for m in measurements})
    gpus = len({key.partition("/")[0] for key in step_times.gpus})
    trials = f"{len(measurements)} sweep trials of {networks} networks{where}{when}"
    if shipped:
        return f"{trials}, beside {shipped.trained_on}"
    return f"{trials}; published step times of {gpus} GPUs"


def _own_steps(steps: Sequence[Observation]) -> str:
    if not steps:
        return ""
    gpus = sorted({entry.gpu.name for entry in steps})
    what = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
    return f"; {what} measured on {', '.join(gpus)}"
