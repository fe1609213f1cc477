"""Fits the bundled serving predictor: effects on measured values, and the widths of intervals.

Each source has a separate scatter in each quantity, and Student-t weights limit the influence of wrong rows
in public sources (`models.bayes`)."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import chain, compress, repeat
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.errors import UsageError
from advisor.infra.build.fitting.likeliest import Rows, Search, kept, most_likely
from advisor.models.bayes import Floats, Gaussian, Parameters, Prior, student_weights, variances
from advisor.models.language.configs import LanguageModels
from advisor.models.language.deployments import Deployment, GpuFacts
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.serving.effects import Setting, line_of, minor_version
from advisor.models.language.serving.predictor import RUN_SIGMA, ServingPredictor, regime_of
from advisor.models.language.serving.rates import sequences_held
from advisor.models.language.serving.values import QUANTITIES, MeasuredValue, measured
from advisor.models.performance.step_times import chip

_SHORTEST_OUTPUT = 8
# Effects of who measured, and of what stands for one line of rows: no question names them.
OF_ROWS = ("source", "client", "cell")
# Requests per second above which runs of a few hundred requests consist mainly of their start and end.
_MOST_OFFERED = 8.0


def rows_of(
    records: Iterable[Any], models: LanguageModels, gpus: Mapping[str, GpuFacts]
) -> list[MeasuredValue]:
    """The values of records (rows with the columns of `infra/build/language_sources/SOURCES.md`) that the
    model covers: NVIDIA GPUs, known models, one replica with tensor parallelism only, and sequences that fit
    in memory together."""
    values: list[MeasuredValue] = []
    for record in records:
        gpu = gpus.get(record.gpu)
        if gpu and gpu.compute_capability and record.gpus == record.tensor_parallel:
            with suppress(UsageError):
                values += _values(record, models.find(record.model), gpu)
    return values


def version_of(record: Any) -> str:
    """The minor version of a record's engine, or the year of the run if no version is stated."""
    return minor_version(record.engine_version) or f"of {record.date[:4]}"


def _values(record: Any, model: LanguageModel, gpu: GpuFacts) -> Iterator[MeasuredValue]:
    deployment = Deployment(
        model,
        record.precision,
        record.kv_precision,
        record.engine,
        gpu,
        record.tensor_parallel,
        record.link,
        version_of(record),
    )
    waves = "equal-lengths" in record.flags.split()
    load = record.kind if record.kind != "closed" else "waves" if waves else ""
    length = record.input_tokens + record.output_tokens
    setting = Setting(deployment, record.source, "eager" in record.flags.split(), load)
    # A static batch ends with all its sequences at full length.
    kept = (length, 0.0) if load == "static" else (record.input_tokens, record.output_tokens)
    held = float(sequences_held([deployment], *np.array(kept)[:, None])[0])

    def row(quantity: str, sequences: float, seconds: float) -> MeasuredValue:
        arrivals = record.requests_per_second if quantity == "arriving" else 0.0
        return MeasuredValue(
            setting, quantity, sequences, record.input_tokens, record.output_tokens, seconds, arrivals
        )

    if record.kind == "maximum":
        if held >= 1:
            most = record.concurrency if record.concurrency > 0 else held
            yield row("saturated", min(held, most), 1 / record.output_tokens_per_second)
    elif record.kind == "open":
        yield from _at_a_rate(record, held, row)
    elif record.places <= held:
        yield from _timed(record, row)


def _timed(record: Any, value: Callable[[str, float, float], MeasuredValue]) -> Iterator[MeasuredValue]:
    """The values of a record of a closed loop or a static batch."""
    batch, output = record.places, record.output_tokens
    each, first, rate = (record.tpot_seconds, record.ttft_seconds, record.output_tokens_per_second)
    if record.kind == "closed":
        streamed = not math.isnan(first) and "not-streamed" not in record.flags
        if not math.isnan(each):
            yield value("each_token", batch, each)
        if streamed and batch == record.concurrency:
            yield value("first_token", batch, first)
        if streamed and not math.isnan(each):
            yield value("rate", batch, (first + (output - 1) * each) / (record.concurrency * output))
    elif record.kind == "static" and output >= _SHORTEST_OUTPUT and not math.isnan(rate):
        yield value("batch", batch, batch * output / rate)


def _at_a_rate(
    record: Any, held: float, value: Callable[[str, float, float], MeasuredValue]
) -> Iterator[MeasuredValue]:
    """Times per token and to first token at a request rate; Little's law gives the number of sequences. Only
    for low rates: at high ones, the runs are too short to reach a steady state."""
    each, rate = record.tpot_seconds, record.requests_per_second
    if record.requests_per_second_offered <= _MOST_OFFERED and not math.isnan(each * rate):
        sequences = 1 + rate * record.output_tokens * each
        if sequences <= held:
            yield value("each_token", sequences, each)
            if record.ttft_seconds > 0:
                yield value("arriving", sequences, record.ttft_seconds)


FITTED = QUANTITIES[:-1]
_NOISE = {"each_token": 0.1, "first_token": 0.25, "arriving": 0.25, "batch": 0.1, "saturated": 0.15}
_LEAST_NOISE = 0.05
_MOST_OF_A_LINE = 8
_SEARCH = Search(steps=30, close=2e-4, damping=1e-3, least_damping=1e-7, most_damping=1e4, more=5.0)
# The measured quantity -> the quantity of an answer whose interval it calibrates.
_ANSWERED = {
    "each_token": "each_token",
    "first_token": "first_token",
    "rate": "rate",
    "saturated": "rate",
    "batch": "rate",
    "arriving": "first_token",
}
# Held out in turn: all GPUs of each chip, each model, each chip with half of the models, and cells of rows.
_CELL_FOLDS, _MODEL_HALVES, _TRIALS = 2, 2, 3
_PROCESSES = 2
_FEWEST_ROWS, _MOST_QUANTILES = 60, 200
# Versions with fewer values than this are not used for answers: they come from a single contributor.
_FEWEST_OF_A_VERSION = 60
_NARROWED, _MOVED = 0.92, 0.25


class Fit(NamedTuple):
    """Parameters with their priors, values at the maximum and covariance; the values left after thinning,
    their residuals and their noise (n,)."""

    names: tuple[str, ...]
    prior: Sequence[Prior]
    mean: Floats
    covariance: Floats
    rows: Sequence[MeasuredValue]
    residuals: Floats
    noise: Floats


def thinned(rows: Sequence[MeasuredValue]) -> list[MeasuredValue]:
    """At most `_MOST_OF_A_LINE` values of one deployment, source and quantity, spread over its requests and
    sequences. More values add little, but would count as independent."""
    lines: dict[Hashable, list[MeasuredValue]] = defaultdict(list)
    for row in rows:
        setting, deployment = row.setting, row.setting.deployment
        lines[
            (
                row.quantity,
                setting.source,
                setting.eager,
                deployment.model.name,
                deployment.gpu.name,
                *deployment[1:4],
                *deployment[5:],
            )
        ].append(row)
    result = []
    for line in lines.values():
        line.sort(key=lambda row: (row.input_tokens, row.output_tokens, row.sequences))
        places = np.unique(np.linspace(0, len(line) - 1, _MOST_OF_A_LINE).round().astype(int))
        result += [line[place] for place in places]
    return result


def fitted(rows: Sequence[MeasuredValue]) -> Fit:
    """Fit on the quantities in `FITTED`, starting at the priors."""
    rows = thinned([row for row in rows if row.quantity in FITTED])
    parameters = Parameters()
    columns = measured(rows, parameters)
    log_measured = np.log([row.seconds for row in rows])
    noise = Scatter(rows)
    start = np.array([prior.mean for prior in parameters.priors])
    best = most_likely(parameters.priors, columns, log_measured, noise, start, _SEARCH)
    white = noise.whitened(columns.linearised(best.theta)[1])
    precision = white.T @ white + np.diag([prior.sigma**-2.0 for prior in parameters.priors])
    covariance = np.asarray(np.linalg.inv(precision))
    return Fit(parameters.names, parameters.priors, best.theta, covariance, rows, best.residuals, noise.noise)


class Scatter:
    """The scatter of each source in each quantity, with Student-t weights."""

    def __init__(self, rows: Sequence[MeasuredValue]) -> None:
        labels = [f"{row.quantity}/{row.setting.source}" for row in rows]
        distinct, code = np.unique(labels, return_inverse=True)
        self._members = [np.flatnonzero(code == place) for place in range(len(distinct))]
        self.noise = np.array([_NOISE[row.quantity] for row in rows])
        self._weights: Floats = np.ones(len(rows))

    def whitened(self, columns: Floats) -> Floats:
        """The columns (n, m), transformed to unit covariance."""
        result: Floats = columns * (np.sqrt(self._weights) / self.noise)[:, None]
        return result

    def learn(self, residuals: Floats) -> None:
        """Update noise and weights from the residuals (n,)."""
        for members in self._members:
            usual = 1.4826 * float(np.median(np.abs(residuals[members])))
            self.noise[members] = max(usual, _LEAST_NOISE)
        self._weights = student_weights(residuals / self.noise)


def fit_serving(
    values: Sequence[MeasuredValue], *, shipped: ServingPredictor | None = None
) -> ServingPredictor:
    """Fit the predictor on values. Intervals are calibrated on values held out in turn (some forty fits); if
    `shipped` is given, they are copied from it and one fit is enough."""
    widths = shipped.widths if shipped else held_out_widths(values)
    return replace(predictor_of(fitted(values), values), widths=widths)


def predictor_of(fit: Fit, values: Sequence[MeasuredValue]) -> ServingPredictor:
    """The part of a fit that questions need: without effects of a source or of a single line of rows."""
    index = {name: row for row, name in enumerate(fit.names)}
    whole = Gaussian(fit.names, fit.mean, fit.covariance)
    known = kept(whole, lambda name: _is_kept(fit, index[name], name))
    deployments = [value.setting.deployment for value in values]
    return ServingPredictor(
        names=known.names,
        mean=known.mean,
        covariance=known.covariance,
        widths={},
        versions=newest_versions(values),
        models=frozenset(entry.model.name for entry in deployments),
        gpus=frozenset(entry.gpu.name for entry in deployments),
    )


def _is_kept(fit: Fit, place: int, name: str) -> bool:
    """True if questions need a parameter: it is not specific to rows, and the rows moved or narrowed it. For
    parameters left out, the prior in the code applies."""
    if name.split("/")[1:2] in ([kind] for kind in OF_ROWS):
        return False
    prior = fit.prior[place]
    narrowed = fit.covariance[place, place] < (_NARROWED * prior.sigma) ** 2
    return bool(narrowed or abs(fit.mean[place] - prior.mean) > _MOVED * prior.sigma)


def newest_versions(values: Sequence[MeasuredValue]) -> dict[str, str]:
    """The newest version of each engine that has enough values."""
    counts = Counter((value.setting.deployment.engine, value.setting.deployment.version) for value in values)
    result: dict[str, str] = {}
    for (engine, version), count in counts.items():
        numbered = re.fullmatch(r"[\d.]+", version) and count >= _FEWEST_OF_A_VERSION
        if numbered and _numbers(version) > _numbers(result.get(engine, "0")):
            result[engine] = version
    return result


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)


def held_out_widths(values: Sequence[MeasuredValue]) -> dict[str, tuple[float, ...]]:
    """Sorted residuals in units of predicted deviations, by quantity and by what was known of the deployment
    (`ServingPredictor.known`), with extra groups for mixtures of experts. Values weigh alike. Fits start at
    the priors: starting at the fit of all values would leak held-out values."""
    residuals: dict[str, list[float]] = defaultdict(list)
    with ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn")) as pool:
        for found in pool.map(_residuals, repeat(values), *zip(*_splits(values), strict=True)):
            for group, one in found:
                residuals[group].append(one)
    return {
        name: _quantiles(group)
        for name, group in residuals.items()
        if name.count("/") == 1 or len(group) >= _FEWEST_ROWS
    }


def conditioned_on(predictor: ServingPredictor, values: Sequence[MeasuredValue]) -> ServingPredictor:
    """The predictor conditioned on values, as if one user had measured them."""
    settings = [value.setting._replace(source="") for value in values]
    own = [
        value._replace(setting=setting._replace(deployment=predictor.answering(setting.deployment)))
        for value, setting in zip(values, settings, strict=True)
    ]
    return predictor.knowing(own, _run_sigmas(own))


def log_estimates(predictor: ServingPredictor, values: Sequence[MeasuredValue]) -> tuple[Floats, Floats]:
    """Log seconds of values as a question would predict them: means and deviations, each (n,)."""
    own = [value._replace(setting=value.setting._replace(source="")) for value in values]
    parameters = predictor.parameters()
    columns = measured(own, parameters)
    known = predictor.extended(parameters)
    mean, slopes = columns.linearised(known.mean)
    used = np.flatnonzero(slopes.any(axis=0))
    doubt = variances(slopes[:, used], known.covariance[np.ix_(used, used)]) + _run_sigmas(own) ** 2
    return mean, np.sqrt(doubt)


def _run_sigmas(values: Sequence[MeasuredValue]) -> Floats:
    return np.array([RUN_SIGMA.get(value.quantity, RUN_SIGMA["rate"]) for value in values])


def _residuals(
    values: Sequence[MeasuredValue], out: Rows, scored: Rows, tried: bool
) -> list[tuple[str, float]]:
    """One fit of `held_out_widths`: the residuals of the scored values, with their groups."""
    test, kept = list(compress(values, scored)), list(compress(values, ~out))
    if not test:
        return []
    predictor = predictor_of(fitted(kept), kept)
    return [*_standardised(predictor, test), *(_after_trials(predictor, test) if tried else ())]


def _standardised(
    predictor: ServingPredictor, values: Sequence[MeasuredValue]
) -> Iterator[tuple[str, float]]:
    """Residuals of values in units of predicted deviations, with the group that each calibrates."""
    mean, doubt = log_estimates(predictor, values)
    left = (np.log([value.seconds for value in values]) - mean) / doubt
    known = predictor.known([value.setting.deployment for value in values])
    for value, group, one in zip(values, known, left.tolist(), strict=True):
        name, deployment = f"{_ANSWERED[value.quantity]}/{group}", value.setting.deployment
        yield name, one
        if regime := regime_of(deployment.model, deployment.precision, value.sequences):
            yield f"{name}/{regime}", one


def _after_trials(
    predictor: ServingPredictor, values: Sequence[MeasuredValue]
) -> Iterator[tuple[str, float]]:
    """The same for closed loops, after conditioning on `_TRIALS` runs of their model, GPU and engine."""
    lines: dict[str, dict[Hashable, list[MeasuredValue]]] = defaultdict(dict)
    for value in values:
        if value.setting.load in ("", "waves"):
            line = lines[line_of(value.setting.deployment)]
            line.setdefault(value._replace(quantity="", seconds=0.0), []).append(value)
    rng = np.random.default_rng(3)
    for loops in lines.values():
        runs = [list(loops.values())[place] for place in rng.permutation(len(loops))]
        if len(runs) > _TRIALS:
            known = conditioned_on(predictor, list(chain(*runs[:_TRIALS])))
            yield from _standardised(known, list(chain(*runs[_TRIALS:])))


def _splits(values: Sequence[MeasuredValue]) -> Iterator[tuple[Rows, Rows, bool]]:
    """Triples: values to leave out of the fit, values to score, and whether to score after trials too."""
    gpus = np.array([chip(value.setting.deployment.gpu.name) for value in values])
    models = np.array([value.setting.deployment.model.name for value in values])
    halves = np.unique(models, return_inverse=True)[1] % _MODEL_HALVES
    cells = np.array([_cell(value) for value in values])
    folds = np.random.default_rng(1).permutation(len(np.unique(cells))) % _CELL_FOLDS
    fold = folds[np.unique(cells, return_inverse=True)[1]]
    for gpu in _large(gpus):
        yield gpus == gpu, gpus == gpu, True
        for half in range(_MODEL_HALVES):
            yield (gpus == gpu) | (halves == half), (gpus == gpu) & (halves == half), False
    for model in _large(models):
        yield models == model, models == model, True
    for one in range(_CELL_FOLDS):
        yield fold == one, fold == one, False


def _cell(value: MeasuredValue) -> str:
    deployment = value.setting.deployment
    return "/".join(
        (
            deployment.model.name,
            deployment.gpu.name,
            deployment.engine,
            deployment.precision,
            str(deployment.tensor_parallel),
        )
    )


def _large(labels: NDArray[np.str_]) -> list[str]:
    names, counts = np.unique(labels, return_counts=True)
    return [str(name) for name in names[counts >= _FEWEST_ROWS]]


def _quantiles(group: Sequence[float]) -> tuple[float, ...]:
    count = min(len(group), _MOST_QUANTILES)
    ranks = (np.arange(count) + 0.5) / count
    return tuple(round(float(value), 3) for value in np.quantile(np.sort(group), ranks))
