"""From measured values to the predictor that answers: fit, posterior, and how wide bounds are."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.records import replace
from models.language.serving.effects import OF_ROWS
from models.language.serving.fit import Fit, MeasuredValue, fitted
from models.language.serving.predictor import ServingPredictor

Rows = NDArray[np.bool_]

# Quantities of rows by the quantity of an answer whose bounds they calibrate.
_ANSWERED = {
    "each_token": "each_token", "first_token": "first_token", "rate": "rate", "saturated": "rate",
    "batch": "each_token", "arriving": "first_token",
}  # fmt: skip
# Held out: each GPU, each model, each GPU with half of the models, cells of rows.
_CELL_FOLDS, _MODEL_HALVES = 2, 2
_FEWEST_ROWS, _MOST_OF_A_GROUP, _MOST_QUANTILES = 60, 60, 200
# Versions of fewer values than this do not answer: they are a single visitor's.
_FEWEST_OF_A_VERSION = 60
_NARROWED, _MOVED = 0.92, 0.25


def fit_serving(
    values: Sequence[MeasuredValue], *, shipped: ServingPredictor | None = None
) -> ServingPredictor:
    """The predictor fitted on values, with bounds calibrated on what is held out in turn; with
    those of `shipped` where one is given, in one fit instead of some thirty."""
    predictor = predictor_of(fitted(values), values)
    widths = shipped.widths if shipped else held_out_widths(values)
    return replace(predictor, widths=widths)


def predictor_of(fit: Fit, values: Sequence[MeasuredValue]) -> ServingPredictor:
    """What questions need of a fit: without effects of who measured or of one line of rows."""
    kept = [place for place, name in enumerate(fit.names) if _is_kept(fit, place, name)]
    deployments = [value.setting.deployment for value in values]
    return ServingPredictor(
        names=tuple(fit.names[place] for place in kept),
        mean=fit.mean[kept],
        covariance=fit.covariance[np.ix_(kept, kept)],
        widths={},
        versions=newest_versions(values),
        models=frozenset(entry.model.name for entry in deployments),
        gpus=frozenset(entry.gpu.name for entry in deployments),
    )


def _is_kept(fit: Fit, place: int, name: str) -> bool:
    """Whether questions need a parameter: it is not of rows alone, and rows moved or narrowed it;
    of others the prior stands in the code."""
    if name.split("/")[1:2] in ([kind] for kind in OF_ROWS):
        return False
    prior = fit.prior[place]
    narrowed = fit.covariance[place, place] < (_NARROWED * prior.sigma) ** 2
    return bool(narrowed or abs(fit.mean[place] - prior.mean) > _MOVED * prior.sigma)


def newest_versions(values: Sequence[MeasuredValue]) -> dict[str, str]:
    """The newest version of each engine that enough values are of."""
    counts = Counter(
        (value.setting.deployment.engine, value.setting.deployment.version) for value in values
    )
    result: dict[str, str] = {}
    for (engine, version), count in counts.items():
        numbered = re.fullmatch(r"[\d.]+", version) and count >= _FEWEST_OF_A_VERSION
        if numbered and _numbers(version) > _numbers(result.get(engine, "0")):
            result[engine] = version
    return result


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)


def held_out_widths(values: Sequence[MeasuredValue]) -> dict[str, tuple[float, ...]]:
    """Sorted residuals in predicted deviations, by quantity and what was held out.

    Of each GPU or model at most `_MOST_OF_A_GROUP` count, so that none outweighs the others."""
    residuals: dict[str, list[float]] = defaultdict(list)
    for name, out, scored in _splits(values):
        kept = [value for value, gone in zip(values, out, strict=True) if not gone]
        test = _some([value for value, one in zip(values, scored, strict=True) if one])
        if not test:
            continue
        predictor = predictor_of(fitted(kept), kept)
        mean, doubt = predictor.log_estimates(test)
        left = (np.log([value.seconds for value in test]) - mean) / doubt
        for value, one in zip(test, left.tolist(), strict=True):
            residuals[f"{_ANSWERED[value.quantity]}/{name}"].append(one)
    return {name: _quantiles(group) for name, group in residuals.items()}


def _splits(values: Sequence[MeasuredValue]) -> Iterator[tuple[str, Rows, Rows]]:
    """What is held out, which values are left out of the fit then, and which are scored."""
    gpus = np.array([value.setting.deployment.gpu.name for value in values])
    models = np.array([value.setting.deployment.model.name for value in values])
    halves = np.unique(models, return_inverse=True)[1] % _MODEL_HALVES
    cells = np.array([_cell(value) for value in values])
    folds = np.random.default_rng(1).permutation(len(np.unique(cells))) % _CELL_FOLDS
    fold = folds[np.unique(cells, return_inverse=True)[1]]
    for gpu in _large(gpus):
        yield "gpu", gpus == gpu, gpus == gpu
        for half in range(_MODEL_HALVES):
            out = (gpus == gpu) | (halves == half)
            yield "both", out, (gpus == gpu) & (halves == half)
    for model in _large(models):
        yield "model", models == model, models == model
    for one in range(_CELL_FOLDS):
        yield "known", fold == one, fold == one


def _cell(value: MeasuredValue) -> str:
    deployment = value.setting.deployment
    return "/".join((deployment.model.name, deployment.gpu.name, deployment.engine,
                     deployment.precision, str(deployment.tensor_parallel)))  # fmt: skip


def _large(labels: NDArray[np.str_]) -> list[str]:
    names, counts = np.unique(labels, return_counts=True)
    return [str(name) for name in names[counts >= _FEWEST_ROWS]]


def _some(values: Sequence[MeasuredValue]) -> list[MeasuredValue]:
    """At most so many of each GPU, model and quantity."""
    groups: dict[tuple[str, ...], list[MeasuredValue]] = defaultdict(list)
    for value in values:
        deployment = value.setting.deployment
        groups[value.quantity, deployment.gpu.name, deployment.model.name].append(value)
    rng = np.random.default_rng(2)
    return [
        group[place]
        for group in groups.values()
        for place in sorted(rng.permutation(len(group))[:_MOST_OF_A_GROUP].tolist())
    ]


def _quantiles(group: Sequence[float]) -> tuple[float, ...]:
    count = min(len(group), _MOST_QUANTILES)
    ranks = (np.arange(count) + 0.5) / count
    return tuple(round(float(value), 3) for value in np.quantile(np.sort(group), ranks))
