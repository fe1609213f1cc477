"""Fits a user's performance model on sweeps, starting from the step times that ship."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from msgspec import Struct, field
from msgspec.structs import replace
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from advisor.domain import STEP_SIGMA, Measurement, Observation
from advisor.errors import DataError
from advisor.models.bayes import Floats
from advisor.models.performance.gpu_observations import GpuObservations, ProbedLayer
from advisor.models.performance.machines import ReferenceCpu, measured_ranges
from advisor.models.performance.model import PerformanceModel
from advisor.models.performance.networks import NetworkTable
from advisor.models.performance.persistence import content_id, to_document
from advisor.models.performance.pipeline import Pipeline
from advisor.models.performance.step_times import StepTimes
from advisor.models.performance.throughput import (
    ThroughputModel,
    cpu_steps_of,
    residuals_of,
    splits,
    trial_frame,
)
from advisor.models.performance.usable import require_enough, sort_out


class Errors(NamedTuple):
    """Absolute errors in percent: nine rows in ten stay below `p90`."""

    median: float
    mean: float
    p90: float


def errors_of(log_residuals: Floats) -> Errors | None:
    """Statistics of |predicted / observed - 1|, given log(observed / predicted); None without rows."""
    if not len(log_residuals):
        return None
    percent = 100 * np.abs(np.expm1(-np.asarray(log_residuals, dtype=float)))
    return Errors(
        *(round(float(v), 2) for v in (np.median(percent), percent.mean(), np.quantile(percent, 0.9)))
    )


class TakenSteps(Struct, frozen=True, kw_only=True):
    """The GPU steps that a fit used. `residuals` (n,) are log(measured / predicted before the fit);
    `contradicting` are steps that contradict the others or the model.

    `trials` is the number of measurements behind them; `left_out` counts unused ones by reason."""

    observations: GpuObservations = field(default_factory=GpuObservations)
    residuals: Floats = field(default_factory=lambda: np.zeros(0))
    contradicting: tuple[Observation, ...] = ()
    trials: int = 0
    left_out: tuple[tuple[str, int], ...] = ()

    @property
    def errors(self) -> Errors | None:
        """Errors of the predictions of these steps, made before the model was conditioned on them."""
        return errors_of(self.residuals)


# Samples per second that replace an infinite rate.
_FASTEST = 1e6
# Features of a trial for the plain regressions: `_COUNTS` as logarithms, `_SHARES` as they are.
_PIXELS = ("decoded_pixels", "resampled_pixels", "output_pixels")
_COUNTS = ("vcpus", "batch_size", "encoded_bytes", "score", *_PIXELS)
_SHARES = ("cached_share", "training", "on_cpu")
# A machine is reported if it is faster or slower than its CPU's mark says by more than this factor.
ODD_SPEED = 1.5
_CELL = ("network", "input", "task", "precision", "stack", "memory_format", "tf32")
# Batch sizes kept per cell: more add next to no information, and each makes loading the model slower.
_MOST_BATCHES = 4


class MachineSpeed(NamedTuple):
    """A user's CPU, and its speed relative to what its mark says."""

    cpu: str
    factor: float

    @property
    def is_odd(self) -> bool:
        """True if the speed suggests that it is another CPU than its name says, or that it was busy."""
        return not 1 / ODD_SPEED <= self.factor <= ODD_SPEED


class FitResult(Struct, frozen=True, kw_only=True):
    """A fitted model, held-out residuals of its trials, and the number of unused measurements by reason.

    `residuals_by` are residuals of other predictors on the same trials, by name: the shipped model and plain
    regressions. `kept_pipeline` says why the pipeline was not fitted; it is empty where it was."""

    model: PerformanceModel
    held_out_residuals: Floats
    left_out: tuple[tuple[str, int], ...]
    gpu: TakenSteps = field(default_factory=TakenSteps)
    kept_pipeline: str = ""
    residuals_by: Mapping[str, Floats] = field(default_factory=dict)
    machines: tuple[MachineSpeed, ...] = ()

    @property
    def errors(self) -> Mapping[str, Errors | None]:
        """Errors on held-out trials, by predictor."""
        return {
            name: errors_of(rows)
            for name, rows in {**self.residuals_by, "fitted": self.held_out_residuals}.items()
        }

    @property
    def fitted(self) -> int:
        """The number of measurements that the pipeline was fitted on."""
        return len(self.held_out_residuals)


def joined_repeats(steps: Sequence[Observation], layers: Iterable[ProbedLayer]) -> GpuObservations:
    """The median of the repeats of each step and each layer, in a fixed order.

    Of a cell measured at more than `_MOST_BATCHES` batch sizes, only so many evenly spaced ones are kept."""
    cells: dict[tuple[str, ...], dict[int, list[Observation]]] = {}
    for step in steps:
        cell = (*(str(getattr(step.workload, name) or "") for name in _CELL), step.gpu.name)
        cells.setdefault(cell, {}).setdefault(step.workload.batch_size, []).append(step)
    joined = []
    for cell in sorted(cells):
        sizes = sorted(cells[cell])
        places = np.linspace(0, len(sizes) - 1, min(len(sizes), _MOST_BATCHES)).round().astype(int)
        joined += [_median(cells[cell][sizes[place]]) for place in places]
    timed: dict[tuple[object, ...], list[ProbedLayer]] = {}
    for layer in layers:
        key = (layer.name, layer.backward, layer.precision, layer.gpu.name, *sorted(layer.sizes.items()))
        timed.setdefault(key, []).append(layer)
    medians = (
        replace(timed[key][0], seconds=float(np.median([entry.seconds for entry in timed[key]])))
        for key in sorted(timed, key=str)
    )
    return GpuObservations(tuple(joined), tuple(medians))


def _median(repeats: Sequence[Observation]) -> Observation:
    """The median of the repeats; its standard error follows from their spread, at least `STEP_SIGMA`."""
    logs = np.log([repeat.seconds for repeat in repeats])
    sigma = max(STEP_SIGMA, float(logs.std()) / len(repeats) ** 0.5)
    first = min(repeats, key=lambda repeat: repeat.origin)
    more = f" and {len(repeats) - 1} more" if len(repeats) > 1 else ""
    seconds = float(np.exp(np.median(logs)))
    return replace(first, seconds=seconds, sigma=sigma, origin=f"{first.origin}{more}")


def taken_steps(
    steps: Sequence[Observation],
    layers: Sequence[ProbedLayer],
    step_times: StepTimes,
    table: NetworkTable,
    left_out: Mapping[str, int],
) -> TakenSteps:
    """The steps and layers with repeats joined, and their residuals from what `step_times` predicts."""
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
    shipped: PerformanceModel | None = None,
    shipped_rows: Sequence[Measurement] = (),
) -> FitResult:
    """Fit the pipeline on the usable measurements and join it with `step_times`.

    With a `shipped` model and its rows, the pipeline is fitted on those rows and on the measurements
    together; each CPU then has a separate speed. `cpu_of` returns the CPU of a measurement; a CPU other than
    the reference one gets a parameter for how far its speed differs from its mark. Raises `DataError` where
    too few measurements are usable."""
    usable, left_out = sort_out(measurements, table.names)
    require_enough(usable)
    before = _others_usable(shipped_rows, usable, table)
    rows = trial_frame(usable, table, cpu_of, shipped=before)
    calibrated = shipped.pipeline.residuals if shipped and before else None
    fitted = ThroughputModel(residuals=calibrated).fit(rows, rows["rate"])
    pipeline, residuals, own = fitted.pipeline_, fitted.residuals_, rows[rows["own"]]
    cpu_steps = cpu_steps_of(usable, table, own["cpu"].tolist())
    errors = errors_of(residuals)
    assert errors is not None  # `require_enough` found enough trials
    model = PerformanceModel(
        id="",
        trained_on=_trained_on(usable, own["cpu"].nunique(), step_times, shipped if before else None),
        error_percent=errors.median,
        sources=tuple(sources),
        step_times=step_times,
        pipeline=replace(
            pipeline,
            cpu_networks=frozenset(f"{step.network}/{step.task}" for step in cpu_steps),
            cpu_steps=cpu_steps,
            measured=measured_ranges([*before, *usable]),
        ),
        table=table,
    )
    by_shipped = {"shipped": residuals_of(shipped.pipeline, usable, table, cpu_of)} if shipped else {}
    return FitResult(
        model=with_id(model),
        held_out_residuals=residuals,
        left_out=left_out,
        residuals_by={**by_shipped, **_regressions(own)} if shipped else {},
        machines=_own_machines(pipeline, rows) if before else (),
    )


def _others_usable(
    shipped: Iterable[Measurement], own: Iterable[Measurement], table: NetworkTable
) -> Sequence[Measurement]:
    """The usable shipped measurements that are not among the user's."""
    known = {(row.trial.trial_id, row.started_at) for row in own}
    others = [row for row in shipped if (row.trial.trial_id, row.started_at) not in known]
    return sort_out(others, table.names).usable


def _own_machines(pipeline: Pipeline, rows: pd.DataFrame) -> tuple[MachineSpeed, ...]:
    """The speeds of the user's CPUs, which follow the shipped ones in the pipeline."""
    shipped = rows["cpu"][~rows["own"]].nunique()
    names = (cpu.model or "CPU" for cpu in pipeline.cpus[shipped:])
    return tuple(map(MachineSpeed, names, pipeline.cpu_speeds[shipped:]))


def _regressions(trials: pd.DataFrame) -> dict[str, Floats]:
    """Held-out residuals of two plain regressions of log rates on the trials' features, by name."""
    rates = (trials["accelerator"], trials["disk_bytes_per_second"] / trials["stored_bytes"])
    numbers = [trials[name] for name in _COUNTS] + [np.minimum(rate, _FASTEST) for rate in rates]
    features = np.column_stack([*(np.log1p(np.nan_to_num(n)) for n in numbers), trials[list(_SHARES)]])
    models = {
        "boosting": GradientBoostingRegressor(random_state=0),
        "linear": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
    }
    logs, cv = np.log(trials["rate"].to_numpy()), splits(trials["configuration"])
    return {name: logs - cross_val_predict(model, features, logs, cv=cv) for name, model in models.items()}


def kept_pipeline(model: PerformanceModel, measurements: Iterable[Measurement], why: DataError) -> FitResult:
    """The unchanged `model` as a fit's result, where too few measurements were usable (`why`)."""
    return FitResult(
        model=model,
        held_out_residuals=np.zeros(0),
        left_out=sort_out(measurements, model.table.names).left_out,
        kept_pipeline=str(why),
    )


def conditioned(result: FitResult, gpu: TakenSteps, step_times: StepTimes) -> FitResult:
    """The fit's result with its model conditioned on the user's GPU steps, on top of what ships."""
    return replace(result, model=with_gpu(result.model, gpu.observations, step_times), gpu=gpu)


def with_gpu(
    model: PerformanceModel, observations: GpuObservations, step_times: StepTimes
) -> PerformanceModel:
    """The model with its GPU observations replaced by these, and with `step_times` conditioned on them."""
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
    """The model with its id set to the hash of its content."""
    return replace(model, id=content_id(to_document(model)))


def _trained_on(
    measurements: Sequence[Measurement], cpus: int, step_times: StepTimes, shipped: PerformanceModel | None
) -> str:
    """One line for people: the number of trials, their CPUs and networks, and what they were added to."""
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
