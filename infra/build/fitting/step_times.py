"""Fits step times of GPUs and CPUs on measured rows: parameters, effects, similarity of networks, and errors.

What is held out is whole: each network class in turn, each GPU in turn, and both at once. The residuals, in
units of the predicted deviation, give the widths of intervals."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from msgspec.structs import replace
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_consistent_length,
    check_is_fitted,
)

from advisor.domain import Task
from advisor.infra.build.fitting.kinship import WEIGHTS, kinship_of
from advisor.infra.build.fitting.likeliest import Rows
from advisor.infra.build.fitting.likeliest import held_out as held_out_values
from advisor.infra.build.fitting.network_effects import Fit, fitted, learnt
from advisor.infra.build.fitting.observations import (
    FITTED_COLUMNS,
    MeasuredStep,
    Unknown,
    columns,
    kernel_steps,
    measured_steps,
    question_conditions,
)
from advisor.models.bayes import Floats
from advisor.models.performance.cpu_step_times import CELL, NETWORK, CpuStepTimes
from advisor.models.performance.cpu_step_times import ROW_SIGMA as CPU_ROW_SIGMA
from advisor.models.performance.frames import checked_frame
from advisor.models.performance.networks import NetworkFacts
from advisor.models.performance.posterior import Cell, Estimates, Kinship, Posterior
from advisor.models.performance.step_times import (
    OTHERS,
    ROW_SIGMA,
    SCRIPT_REGIME,
    StepTimes,
    arithmetic_of,
    chip,
    features_of,
    regime,
)

# Only this share of the largest source's rows is used for the parameters; all rows are used for effects.
_THINNED, _SHARE = "timm", 0.35
# Scatter of a network's rows around their mean deviation, and scatter between similar networks.
_ROW_SCATTER, _OWN_SCATTER, _MOST_ROWS = 0.1, 0.1, 6
_LARGEST_DEVIATION = 0.7
_FOLDS = 6
# There are many single cells: some of their folds say as much as all.
_FOLDS_OF_CELLS = 2
_FEWEST_ROWS = 8
_MOST_QUANTILES = 200
_MOST_OF_A_GROUP = 20


class StepTimeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Seconds of one step, with each GPU's batch.

    `X` is a frame with `FITTED_COLUMNS` (`frames.published_frame` reads one, `observed_frame` makes one of a
    user's steps), `y` seconds. Rows that may not be fitted are ignored, and `unknown_` counts names that are
    in no table. `kernels` is a frame of single kernels; the search begins at `start`. With `calibrate`,
    intervals come from held-out fits; `with_sources` lets predictions name a source. `step_times_` is what is
    bundled; its numbers are evaluated with NumPy only."""

    def __init__(
        self,
        *,
        kernels: pd.DataFrame | None = None,
        calibrate: bool = True,
        with_sources: bool = False,
        start: Fit | None = None,
    ) -> None:
        self.kernels = kernels
        self.calibrate = calibrate
        self.with_sources = with_sources
        self.start = start

    @classmethod
    def of(cls, times: StepTimes) -> Self:
        """An estimator with these step times as the result of its fit."""
        made = cls()
        made.step_times_ = times
        return made

    def fit(self, X: pd.DataFrame, y: Any, sample_weight: Any = None) -> Self:
        """Fit parameters, effects and similarity on all rows."""
        seconds = check_array(y, ensure_2d=False, dtype=float, ensure_all_finite="allow-nan")
        check_consistent_length(X, seconds)
        weights = _check_sample_weight(sample_weight, seconds, dtype=float)
        cells, self.unknown_ = self._cells(X, seconds, fitted=True)
        rows = [
            row._replace(sigma=row.sigma / math.sqrt(weight))
            for row, weight in zip(cells, weights.tolist(), strict=True)
            if row is not None and weight > 0
        ]
        kernels = [] if self.kernels is None else [step for step in kernel_steps(self.kernels) if step]
        self.step_times_, fit = step_times_of(rows, kernels, self.start, with_sources=self.with_sources)
        if self.calibrate:
            quantiles = quantiles_of(held_out_residuals(rows, kernels, fit))
            self.step_times_ = replace(self.step_times_, quantiles=quantiles)
        return self

    def predict(self, X: pd.DataFrame, return_std: bool = False) -> Any:
        """Median seconds (n,), nan for an unknown name; with `return_std` also their standard deviations."""
        check_is_fitted(self, "step_times_")
        cells, _ = self._cells(X, np.ones(len(X)), fitted=False)
        known = np.array([cell is not None for cell in cells])
        seconds, deviations = np.full((2, len(cells)), np.nan)
        if known.any():
            told = predicted(self.step_times_, [cell for cell in cells if cell is not None])
            seconds[known] = np.exp(told.mean)
            deviations[known] = seconds[known] * np.sqrt(told.variance + ROW_SIGMA**2)
        return (seconds, deviations) if return_std else seconds

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.target_tags.positive_only = True, True
        tags.no_validation = True
        return tags

    def _cells(
        self, X: pd.DataFrame, seconds: Floats, *, fitted: bool
    ) -> tuple[list[MeasuredStep | None], Unknown]:
        """The rows as steps; None where a row cannot be used."""
        checked = checked_frame(X, FITTED_COLUMNS)
        self.feature_names_in_ = np.array(checked.columns, dtype=object)
        self.n_features_in_ = len(checked.columns)
        return measured_steps(checked.assign(step_seconds=seconds), only_fitted=fitted)


def step_times_of(
    observations: Sequence[MeasuredStep],
    kernels: Sequence[MeasuredStep],
    start: Fit | None,
    *,
    with_sources: bool = False,
) -> tuple[StepTimes, Fit]:
    """Step times from rows and single kernels, without quantiles, and the fit behind them."""
    taught = [*_thinned(observations), *kernels]
    fit = fitted(*columns(taught), start=start)
    posterior, residuals = learnt(fit, *columns(observations), with_sources=with_sources)
    pytorch = [row for row in observations if row.is_pytorch]
    return StepTimes(
        posterior=posterior,
        kinship=_kinship(observations, residuals, posterior),
        quantiles={},
        networks=frozenset(f"{r.cell.network}/{_how(r).task}" for r in pytorch),
        gpus=frozenset(f"{chip(_how(r).gpu.name)}/{_arithmetic(r)}" for r in pytorch),
        cells=frozenset(
            f"{r.cell.network}/{_how(r).task}/{_arithmetic(r)}/{_how(r).gpu.name}" for r in pytorch
        ),
        capabilities=frozenset(str(_how(r).gpu.compute_capability) for r in observations),
    ), fit


def _how(row: MeasuredStep) -> Any:
    return row.cell.step.conditions


def _arithmetic(row: MeasuredStep) -> str:
    return arithmetic_of(_how(row).precision)


def _thinned(observations: Sequence[MeasuredStep]) -> list[MeasuredStep]:
    rng = np.random.default_rng(0)
    return [r for r in observations if r.source != _THINNED or rng.random() < _SHARE]


def _kinship(observations: Sequence[MeasuredStep], residuals: Floats, posterior: Posterior) -> Kinship:
    """Each measured step of a network at an input, by the median of its rows."""
    rows: dict[tuple[int, str], list[int]] = defaultdict(list)
    for place, row in enumerate(observations):
        if row.is_pytorch:
            rows[id(row.cell.step.operations), _how(row).task].append(place)
    facts, tasks, medians, noise = [], [], [], []
    for (_, task), places in rows.items():
        step = observations[places[0]].cell.step
        facts.append(_bare_facts(step.operations, step.parameters, Task(task)))
        tasks.append(Task(task))
        median = float(np.median(residuals[places]))
        medians.append(np.clip(median, -_LARGEST_DEVIATION, _LARGEST_DEVIATION))
        noise.append(_OWN_SCATTER**2 + _ROW_SCATTER**2 / min(len(places), _MOST_ROWS))
    features = features_of(facts, tasks, posterior)
    return kinship_of(features, np.array(medians), np.array(noise), WEIGHTS)


def _bare_facts(operations: Any, parameters: float, task: Task) -> NetworkFacts:
    return NetworkFacts(
        name="", input="", input_bytes=0.0, parameters=round(parameters), kernels={task: operations}
    )


class Residual(NamedTuple):
    """A held-out row's error in units of its predicted deviation; rows with equal `alike` weigh as one."""

    value: float
    alike: str
    regime: str


def held_out_residuals(
    observations: Sequence[MeasuredStep], kernels: Sequence[MeasuredStep], start: Fit
) -> Mapping[str, list[Residual]]:
    """Residuals of log seconds of PyTorch rows, by what was held out.

    `new/known`: the network's class; `known/new`: the GPU, with its single kernels; `new/new`: both;
    `known/known`: the network on that GPU; `cell`: some rows of a cell. `others/known/known`: all rows of the
    row's source, if other sources have its network and its GPU."""
    from joblib import Parallel, delayed

    sources = _folds([row.source for row in observations], _FOLDS)
    classes = _folds([row.family for row in observations], _FOLDS)
    cards = _folds([chip(_how(row).gpu.name) for row in observations], _FOLDS)
    pairs = _folds([f"{r.cell.network}/{chip(_how(r).gpu.name)}" for r in observations], _FOLDS)
    single = np.random.default_rng(2).integers(0, _FOLDS, len(observations))
    tests = []
    for fold in range(_FOLDS):
        of_class, of_card = classes == fold, cards == fold
        tests += [
            _Test("new/known", of_class, of_class),
            _Test("known/new", of_card, of_card),
            _Test("new/new", of_card | of_class, of_card & of_class),
            _Test(OTHERS, sources == fold, sources == fold),
        ]
        if fold < _FOLDS_OF_CELLS:
            tests += [
                _Test("known/known", pairs == fold, pairs == fold),
                _Test("cell", single == fold, single == fold),
            ]
    run = delayed(_residuals_of)
    several = Parallel(n_jobs=-1, verbose=5)(run(observations, kernels, start, test) for test in tests)
    result: dict[str, list[Residual]] = defaultdict(list)
    for group, residual in (each for found in several for each in found):
        result[group].append(residual)
    return result


class _Test(NamedTuple):
    """Rows (n,) that are held out together, and which of them are scored."""

    name: str
    out: Rows
    scored: Rows


def _residuals_of(
    observations: Sequence[MeasuredStep], kernels: Sequence[MeasuredStep], start: Fit, held: _Test
) -> list[tuple[str, Residual]]:
    """Residuals of a fit without the held-out rows, under the groups that predictions look up."""
    kept = [row for row, out in zip(observations, held.out, strict=True) if not out]
    asked = zip(observations, held.scored, strict=True)
    is_new_card = held.name.endswith("/new")
    test = [row for row, scored in asked if scored and row.is_pytorch]
    gone = {chip(_how(row).gpu.name) for row in test} if is_new_card else set()
    existing = [row for row in kernels if chip(_how(row).gpu.name) not in gone]
    test = _some_of_each(test, by_card=is_new_card)
    if not test:
        return []
    times, _ = step_times_of(kept, existing, start)
    return list(_filed(held.name, times, test))


def _filed(held: str, times: StepTimes, rows: Sequence[MeasuredStep]) -> Iterator[tuple[str, Residual]]:
    """The rows' residuals, with the groups that predictions look up."""
    for row, residual in zip(rows, standardised(times, rows), strict=True):
        group = held if held != OTHERS or _is_known(row, times) else ""
        if held in ("new/known", "cell"):
            residual = residual._replace(alike=row.family)
        if group:
            yield group, residual
        if residual.regime == SCRIPT_REGIME:
            yield SCRIPT_REGIME, residual._replace(alike=row.source)
        elif group:
            yield f"{group}/{residual.regime}", residual


def _is_known(row: MeasuredStep, times: StepTimes) -> bool:
    """True if the network and the GPU are known, but not together."""
    network, arithmetic = f"{row.cell.network}/{_how(row).task}", _arithmetic(row)
    is_cell = f"{network}/{arithmetic}/{_how(row).gpu.name}" in times.cells
    return (
        not is_cell and network in times.networks and f"{chip(_how(row).gpu.name)}/{arithmetic}" in times.gpus
    )


def quantiles_of(residuals: Mapping[str, Sequence[Residual]]) -> dict[str, tuple[float, ...]]:
    """Sorted residuals of each group, thinned to as many as intervals need.

    Sources have equal weight, and so have classes of networks where these are new. Where the GPU is new, GPUs
    were given equal weight earlier."""
    result = {}
    for name, group in residuals.items():
        if len(group) < _FEWEST_ROWS:
            continue
        values = np.array([entry.value for entry in group])
        rows = Counter(entry.alike for entry in group)
        even = name.split("/")[1:2] == ["new"]
        weights = np.array([1.0 if even else 1 / rows[entry.alike] for entry in group])
        order = np.argsort(values)
        ranks = np.cumsum(weights[order]) / weights.sum()
        count = min(len(values), _MOST_QUANTILES)
        at = np.searchsorted(ranks, (np.arange(count) + 0.5) / count)
        result[name] = tuple(np.round(values[order][at], 3).tolist())
    return result


def _some_of_each(rows: Sequence[MeasuredStep], *, by_card: bool) -> list[MeasuredStep]:
    """A limited number of rows per GPU, or per class of networks, so that none outweighs the others."""
    groups: dict[str, list[MeasuredStep]] = defaultdict(list)
    for row in rows:
        label = chip(_how(row).gpu.name) if by_card else row.family
        groups[f"{row.source}/{label}/{_arithmetic(row)}"].append(row)
    rng = np.random.default_rng(3)
    return [
        group[place]
        for group in groups.values()
        for place in sorted(rng.permutation(len(group))[:_MOST_OF_A_GROUP].tolist())
    ]


def _folds(labels: Sequence[str], folds: int) -> Any:
    distinct = sorted(set(labels))
    order = np.random.default_rng(1).permutation(len(distinct))
    fold = {label: int(order[place]) % folds for place, label in enumerate(distinct)}
    return np.array([fold[label] for label in labels])


def standardised(times: StepTimes, rows: Sequence[MeasuredStep]) -> list[Residual]:
    """Residuals of log seconds in units of their predicted deviations."""
    found = predicted(times, rows)
    off = np.log([row.seconds for row in rows]) - found.mean
    values = (off / np.sqrt(found.variance + ROW_SIGMA**2)).tolist()
    return [
        Residual(value, row.source, regime(_how(row).script, _how(row).era, launching))
        for value, row, launching in zip(values, rows, found.launching.tolist(), strict=True)
    ]


def predicted(times: StepTimes, rows: Sequence[MeasuredStep]) -> Estimates:
    """Predicted log seconds of rows under the conditions of a user's question."""
    mean, variance, launching = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    places: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        places[id(row.cell.step.operations), row.cell.network, _how(row).task].append(place)
    for (_, network, task), members in places.items():
        cells = [
            Cell(network, rows[p].cell.step._replace(conditions=question_conditions(_how(rows[p]))))
            for p in members
        ]
        step = rows[members[0]].cell.step
        centre = doubt = 0.0
        if f"{network}/{task}" not in times.networks:
            facts = _bare_facts(step.operations, step.parameters, Task(task))
            features = features_of([facts], [Task(task)], times.posterior)
            centre, doubt = times.kinship.deviation(features[0])
        result = times.posterior.predict(cells)
        mean[members], variance[members] = result.mean + centre, result.variance + doubt
        launching[members] = result.launching
    return Estimates(mean, variance, launching)


class HeldOut(NamedTuple):
    """log(observed / predicted seconds) of held-out rows, and their predicted standard deviations, each
    (n,)."""

    residuals: Floats
    deviations: Floats


def fit_cpu_step_times(rows: Sequence[MeasuredStep], reference_score: float) -> CpuStepTimes:
    """Fit on all rows, and calibrate each row's error on a fit without it."""
    quantiles = {
        name: tuple(np.round(np.sort(held.residuals / held.deviations), 3).tolist())
        for name, held in held_out(rows).items()
    }
    return CpuStepTimes(
        posterior=_posterior(rows),
        quantiles=quantiles,
        networks=frozenset(f"{r.cell.network}/{r.cell.step.conditions.task}" for r in rows),
        reference_score=reference_score,
    )


def held_out(rows: Sequence[MeasuredStep]) -> Mapping[str, HeldOut]:
    """Each row predicted without its family of networks, and without its network's batch size."""
    sizes = sorted({row.cell.step.batch_size for row in rows})

    def of_batch(row: MeasuredStep) -> str:
        # One batch size per network at a time; networks leave out different ones.
        at = sum(map(ord, row.cell.network)) + sizes.index(row.cell.step.batch_size)
        return str(at % len(sizes))

    return {NETWORK: _held_out(rows, lambda row: row.family), CELL: _held_out(rows, of_batch)}


def _held_out(rows: Sequence[MeasuredStep], group_of: Callable[[MeasuredStep], str]) -> HeldOut:
    def residuals_without(out: Rows) -> Floats:
        posterior = _posterior([row for row, gone in zip(rows, out, strict=True) if not gone])
        cells, observed, _ = columns([row for row, gone in zip(rows, out, strict=True) if gone])
        result = posterior.predict(cells)
        return np.column_stack([observed - result.mean, np.sqrt(result.variance + CPU_ROW_SIGMA**2)])

    return HeldOut(*held_out_values([group_of(row) for row in rows], residuals_without).T)


def _posterior(rows: Sequence[MeasuredStep]) -> Posterior:
    cells, observed, sigma = columns(rows)
    return learnt(fitted(cells, observed, sigma), cells, observed, sigma)[0]
