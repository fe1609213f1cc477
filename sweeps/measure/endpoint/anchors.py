"""Reads observations for the serving predictor from an endpoint's anchor."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from advisor.domain.machines import is_positive
from advisor.domain.verification import p99_of
from advisor.domain.words import KvPrecision, LlmPrecision
from advisor.errors import UsageError
from advisor.models.language.deployments import Deployment, GpuFacts, ServingObservation, Traffic
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.serving.effects import minor_version
from advisor.sweeps.measure.endpoint.records import Load

SCHEMA = "advisor.serving_anchor/1"
WAY_OUT = "--anchor takes what `advisor measure --endpoint` or `advisor measure --engine` wrote"
# The spread between runs of one configuration on the same engine, however precise each run is (456 repeated
# configurations of InferenceX: TPOT 0.3 % in the median, 10.5 % at the 90th percentile; TTFT 1.6 and 22 %).
RUN_SIGMA = 0.03
TTFT_RUN_SIGMA = 0.08
# Loads whose figures count.
USED = ("ok", "few")
_LONGEST_SECONDS = 86_400.0
_MOST = 1_000_000
_LINKS = ("nvlink", "pcie", "none")

Document = Mapping[str, Any]
ModelOf = Callable[[str], LanguageModel]
GpuOf = Callable[[str], GpuFacts]


class MeasuredTail(NamedTuple):
    """The 99th percentiles of one load on the whole endpoint."""

    load: Load
    ttft_p99_seconds: float
    tpot_p99_seconds: float


class ServingAnchor(Struct, frozen=True):
    """A file's observations, the reasons why its other loads are refused, and its 99th percentiles."""

    path: Path
    observations: tuple[ServingObservation, ...]
    refused: tuple[str, ...]
    tails: tuple[MeasuredTail, ...]


def read_serving_anchor(
    path: Path, model_of: ModelOf, gpu_of: GpuOf, *, precision: str, kv_precision: str
) -> ServingAnchor:
    """The observations in a file, for one replica each. `precision` and `kv_precision` are used if the file
    has none. Raises `UsageError` if it has no usable load."""
    try:
        document: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read '{path}' ({error.strerror})", hint=WAY_OUT, field="anchor") from error
    except (ValueError, RecursionError) as error:
        raise _no_anchor(path, "it is no JSON") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise _no_anchor(path, f"its schema is not {SCHEMA}")
    try:
        deployment, replicas = _deployment(path, document, model_of, gpu_of, precision, kv_precision)
        rows = [
            _row(f"{path}, load {number}", load, deployment, replicas, document["traffic"])
            for number, load in enumerate(document["loads"], 1)
        ]
        tails = [tail for load in document["loads"] if (tail := _tail(load))]
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise _no_anchor(path, f"{type(error).__name__}: {error}") from error
    observations = tuple(row for row in rows if isinstance(row, ServingObservation))
    refused = tuple(row for row in rows if isinstance(row, str))
    if not observations:
        raise _no_anchor(path, refused[0] if refused else "it holds no load")
    return ServingAnchor(path, observations, refused, tuple(tails))


def _deployment(
    path: Path, document: Document, model_of: ModelOf, gpu_of: GpuOf, precision: str, kv_precision: str
) -> tuple[Deployment, int]:
    served, engine = document["deployment"], document["engine"]
    if not served["gpu"]:
        raise _no_anchor(path, "it names no GPU; measure again with --gpu NAME")
    if not engine["name"]:
        raise _no_anchor(path, "it names no engine; measure again with --engine NAME")
    parts, count = _whole(served["tensor_parallel"]), _whole(served["gpus"])
    if count % parts:
        raise _no_anchor(path, f"{count} GPUs are no replicas of {parts} each")
    gpu = gpu_of(served["gpu"])
    link = _known(served["link"] or ("nvlink" if gpu.nvlink_gb_s else "pcie"), _LINKS)
    return Deployment(
        model=model_of(document["model"]),
        precision=_known(served["precision"] or precision, LlmPrecision),
        kv_precision=_known(served["kv_precision"] or kv_precision, KvPrecision),
        engine=engine["name"],
        gpu=gpu,
        tensor_parallel=parts,
        link="none" if parts == 1 else link,
        version=minor_version(engine["version"] or ""),
    ), count // parts


def _row(
    origin: str, load: Mapping[str, Any], deployment: Deployment, replicas: int, wanted: Mapping[str, Any]
) -> ServingObservation | str:
    """The observation of one load on one replica, or why it is refused; uncounted lengths are as `wanted`."""
    if load["status"] not in USED:
        return f"{origin}: {load['status']} {load['reason']}".rstrip()
    if load["generator"]["is_capped"]:
        return f"{origin}: the server fell behind"
    rate = load["requests_per_second_wanted"]
    concurrency = load["concurrency"] if rate is None else load["in_flight"]
    ttft, tpot = load["ttft_seconds"], load["tpot_seconds"]
    tokens = load["output_tokens_per_second"]
    prompt = _mean(load["input_tokens"]) or _number(wanted["input_tokens"])
    answer = _mean(load["output_tokens"]) or _number(wanted["output_tokens"])
    return ServingObservation(
        deployment=deployment,
        traffic=Traffic(prompt, answer, load["cached_share"] or 0.0),
        concurrency=_number(concurrency) / replicas,
        requests_per_second=None if rate is None else _number(rate) / replicas,
        ttft_seconds=_mean(ttft),
        tpot_seconds=_mean(tpot),
        output_tokens_per_second=None if tokens is None else _number(tokens["mean"]) / replicas,
        ttft_sigma=_sigma(ttft, TTFT_RUN_SIGMA),
        tpot_sigma=_sigma(tpot, RUN_SIGMA),
        rate_sigma=_sigma(tokens, RUN_SIGMA),
        origin=origin,
    )


def _tail(load: Mapping[str, Any]) -> MeasuredTail | None:
    ttft, tpot = p99_of(load["ttft_seconds"]), p99_of(load["tpot_seconds"])
    if load["status"] not in USED or ttft is None or tpot is None:
        return None
    return MeasuredTail(
        Load(load["concurrency"], load["requests_per_second_wanted"]), _number(ttft), _number(tpot)
    )


def _known(name: str, names: Iterable[str]) -> str:
    known = tuple(map(str, names))
    if name not in known:
        raise ValueError(f"'{name}' is none of {', '.join(known)}")
    return name


def _mean(figure: Mapping[str, Any] | None) -> float | None:
    return None if figure is None else _number(figure["mean"])


def _sigma(figure: Mapping[str, Any] | None, run: float) -> float:
    """Standard error of a figure's logarithm, within this run and between runs."""
    if figure is None:
        return run
    error = figure["standard_error"]
    # A single answer has no standard error, so a large one is assumed.
    own = 0.5 if error is None else min(0.5, abs(float(error)) / _number(figure["mean"]))
    return math.hypot(own, run)


def _number(value: Any) -> float:
    if not is_positive(value) or value > _LONGEST_SECONDS * _MOST:
        raise ValueError(f"a finite number above 0 is needed, not {str(value)[:40]}")
    return float(value)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
        raise ValueError(f"a whole number above 0 is needed, not {str(value)[:40]}")
    return value


def _no_anchor(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is no anchor of an endpoint: {why}", hint=WAY_OUT, field="anchor")
