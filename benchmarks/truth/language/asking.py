"""What the serving predictor answers for measured rows, by the calls that answer questions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from advisor.domain.words import LlmEngine
from advisor.errors import AdvisorError
from advisor.infra.build.fitting.serving import conditioned_on, fit_serving, rows_of, version_of
from advisor.infra.build.language_sources.rows import ServingRow
from advisor.infra.build.language_sources.sheets import bundled_gpu_facts
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.deployments import Deployment, ServingObservation, Traffic
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.serving import ServingPredictor, ServingRates, bundled_serving_predictor
from advisor.models.language.serving.predictor import regime_of
from advisor.models.language.serving.rates import RequestLogs, sequences_held
from advisor.models.language.serving.seconds import Logs, static_batch_seconds
from advisor.models.language.serving.values import MeasuredValue
from advisor.models.performance.step_times import chip
from benchmarks.truth.language.scores import Bounds, RowAnswer, Scored

_ENGINES = frozenset(str(engine) for engine in LlmEngine)


def shipped() -> ServingPredictor:
    """The predictor that answers questions."""
    return bundled_serving_predictor()


def refitted(rows: Sequence[ServingRow]) -> ServingPredictor:
    """The predictor made of these rows as the shipped one is made of all; its intervals' quantiles
    stay those that ship."""
    return fit_serving(_values(rows), shipped=shipped())


def conditioned(predictor: ServingPredictor, rows: Sequence[ServingRow]) -> ServingPredictor:
    """The predictor conditioned on rows as on a user's trials: on TTFT and TPOT of closed loops, which a
    trial's file has, and on all values of other loads."""
    loops = [row for row in rows if row.kind == "closed"]
    trials = [
        ServingObservation(
            _deployment(row),
            _traffic(row),
            row.concurrency,
            ttft_seconds=_if_measured(row.ttft_seconds),
            tpot_seconds=_if_measured(row.tpot_seconds),
        )
        for row in loops
    ]
    others = [row for row in rows if row.kind != "closed"]
    return conditioned_on(predictor.conditioned(trials), _values(others))


def _if_measured(seconds: float) -> float | None:
    return seconds if seconds > 0 else None


def _values(rows: Sequence[ServingRow]) -> list[MeasuredValue]:
    return rows_of(rows, bundled_language_models(), bundled_gpu_facts())


def answers_of(
    predictor: ServingPredictor, rows: Sequence[ServingRow], confidence: float
) -> list[RowAnswer | str]:
    """An answer for each row, or in words why it cannot be asked."""
    found: list[RowAnswer | str] = [_refusal(row) or "" for row in rows]
    by_kind: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if not found[index]:
            by_kind[row.kind].append(index)
    held = _held([rows[index] for index in by_kind["static"]])
    for index, batch in zip(by_kind["static"], held, strict=True):
        if rows[index].concurrency > batch:
            found[index] = "a batch that memory does not hold at once"
    by_kind["static"] = [index for index in by_kind["static"] if not found[index]]
    for kind, indices in filter(all, by_kind.items()):
        rates = _rates(predictor, kind, [rows[index] for index in indices], confidence)
        for number, index in enumerate(indices):
            found[index] = _answer(rates, number)
    return found


def _refusal(row: ServingRow) -> str | None:
    """Why no question is like this row, or None."""
    if model_of(row.model) is None:
        return f"unknown model {row.model}"
    if row.gpu not in bundled_gpu_facts():
        return f"unknown GPU {row.gpu}"
    if row.engine not in _ENGINES:
        return f"unknown engine {row.engine}"
    if not row.fit:
        return f"doubtful: {row.flags}"
    if row.gpus != row.tensor_parallel:
        return "split by attention data or into a pipeline"
    if row.output_tokens <= 1:
        return "first tokens of a batch alone"
    return None if row.kind in _CALLS else f"unknown kind {row.kind}"


# By kind of load: the column that says how much of it there is, "" where memory decides.
_CALLS: Mapping[str, str] = {
    "closed": "concurrency",
    "static": "concurrency",
    "open": "requests_per_second_offered",
    "maximum": "",
}


def _held(rows: Sequence[ServingRow]) -> NDArray[np.float64]:
    """Sequences (n,) that memory holds at once; a batch that ends together has all their tokens."""
    tokens = np.array([row.input_tokens + row.output_tokens for row in rows])
    return sequences_held([_deployment(row) for row in rows], tokens, np.zeros(len(rows)))


def _rates(
    predictor: ServingPredictor, kind: str, rows: Sequence[ServingRow], confidence: float
) -> ServingRates:
    asked = [_deployment(row) for row in rows], [_traffic(row) for row in rows]
    load = np.array([getattr(row, _CALLS[kind]) for row in rows]) if _CALLS[kind] else None
    if kind == "closed":
        return predictor.closed_loop(*asked, load, confidence)
    if kind == "static":
        return static_batch(predictor, *asked, load, confidence)
    if kind == "open":
        return predictor.under_load(*asked, load, confidence)
    return predictor.closed_loop(*asked, None, confidence)


def static_batch(
    predictor: ServingPredictor,
    deployments: Sequence[Deployment],
    traffic: Traffic | Sequence[Traffic],
    batch: Sequence[float] | NDArray[np.float64],
    confidence: float = 0.9,
) -> ServingRates:
    """A batch that starts and ends together: TPOT is its seconds over its output tokens."""
    sequences = np.asarray(batch, dtype=float)
    view = predictor.view(deployments, traffic, "static")
    requests = view.requests

    def logs_of(logs: Logs) -> RequestLogs:
        each = np.log(static_batch_seconds(requests, logs, sequences) / requests.output_tokens)
        return RequestLogs(each, np.full_like(each, np.nan), each - np.log(sequences))

    return predictor.rates_of(view, logs_of, sequences, confidence)


def _deployment(row: ServingRow) -> Deployment:
    model = model_of(row.model)
    assert model is not None
    return Deployment(
        model,
        row.precision,
        row.kv_precision,
        row.engine,
        bundled_gpu_facts()[row.gpu],
        row.tensor_parallel,
        row.link,
        version_of(row),
        max_sequences=int(row.places) if row.places < row.concurrency else None,
    )


def _traffic(row: ServingRow) -> Traffic:
    equal_lengths = "equal-lengths" in row.flags.split()
    return Traffic(row.input_tokens, row.output_tokens, equal_lengths=equal_lengths, starts_together=True)


def _answer(rates: ServingRates, index: int) -> RowAnswer | str:
    columns = (rates.tpot_seconds, rates.ttft_seconds, rates.output_tokens_per_second)
    answer = RowAnswer(*(_bounds(column, index) for column in columns))
    return answer if any(answer) else "more than it is said to serve, or to fit"


def _bounds(columns: Sequence[NDArray[np.float64]], index: int) -> Bounds | None:
    values = [float(column[index]) for column in columns]
    return Bounds(*values) if all(math.isfinite(value) and value > 0 for value in values) else None


def measured_rate(row: ServingRow) -> float:
    """Output tokens a second of the replica; of a closed loop by Little's law where only the times
    are published: it always has `concurrency` requests in flight."""
    if not math.isnan(row.output_tokens_per_second) or row.kind != "closed":
        return row.output_tokens_per_second
    whole = row.ttft_seconds + (row.output_tokens - 1) * row.tpot_seconds
    return row.concurrency * row.output_tokens / whole


def scored(row: ServingRow, answer: RowAnswer) -> list[Scored]:
    """Every quantity that the row has and the answer too."""
    groups = groups_of(row)
    # Of an open loop the rate is what was offered.
    rate = None if row.kind == "open" else answer.output_tokens_per_second
    figures = (
        ("tpot", row.tpot_seconds, answer.tpot_seconds),
        ("ttft", row.ttft_seconds, answer.ttft_seconds),
        ("output_rate", measured_rate(row), rate),
    )
    found = [
        Scored(groups, name, value, bounds, is_rate=name == "output_rate")
        for name, value, bounds in figures
        if bounds and value > 0
    ]
    main = "tpot" if row.kind in ("closed", "open") and row.tpot_seconds > 0 else "output_rate"
    return found + [one._replace(quantity="step") for one in found if one.quantity == main]


def groups_of(row: ServingRow) -> dict[str, str]:
    """What a row belongs to, by each kind of group. Cards of one chip are one GPU; models of one
    shape differ in their weights' values alone."""
    return {
        "kind": row.kind,
        "gpu": chip(row.gpu),
        "model": row.model,
        "shape": shape_of(row.model),
        "engine": row.engine,
        "precision": f"{row.precision}, kv {row.kv_precision}",
        "joined": "by PCIe" if row.link == "pcie" else "by NVLink, or one GPU",
        "gpus": str(row.tensor_parallel),
        "source": row.source,
        "in_flight": _class_of(row.concurrency),
        "experts": _experts_of(row),
    }


def _class_of(concurrency: float) -> str:
    edges = (1, 8, 32, 128)
    return next((f"to {edge}" for edge in edges if concurrency <= edge), "above, or unknown")


def _experts_of(row: ServingRow) -> str:
    model = model_of(row.model)
    regime = regime_of(model, row.precision, row.concurrency) if model else ""
    return regime or "dense"


@cache
def shape_of(name: str) -> str:
    """Sizes of the model, in words; the name itself of an unknown one."""
    model = model_of(name)
    if model is None:
        return name
    experts = f", {model.experts} experts of {model.expert_ffn}" if model.experts else ""
    return f"{model.layers} layers of {model.hidden} and {model.ffn}{experts}"


@cache
def model_of(name: str) -> LanguageModel | None:
    """The facts of a model that is known by this very name, or None."""
    try:
        return bundled_language_models().find(name)
    except AdvisorError:
        return None
