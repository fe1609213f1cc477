"""Writes the bundled files of fitted numbers; equal numbers give equal bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from advisor.models.bundled import CPU_STEP_TIMES, FOLDER, MANIFEST, MODEL, STEP_TIMES
from advisor.models.language.finetuning.predictor import PATH, FineTuningPredictor
from advisor.models.language.finetuning.predictor import SCHEMA as TUNING_SCHEMA
from advisor.models.language.serving import CORRELATIONS, FACTS, ONE
from advisor.models.language.serving.predictor import ServingPredictor
from advisor.models.performance.cpu_step_times import CpuStepTimes
from advisor.models.performance.persistence import CPU_SCHEMA, KINSHIP, SETS, STEP_TIMES_SCHEMA
from advisor.models.performance.posterior import Posterior
from advisor.models.performance.step_times import StepTimes

_SEALED = ("memory.npy", "memory_model.json", "scaling.json", STEP_TIMES, CPU_STEP_TIMES, MODEL)
_DIGITS = 5


def seal() -> None:
    """Update the digests of bundled files to the present content."""
    digests = {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in _SEALED}
    (FOLDER / MANIFEST).write_text(json.dumps(digests, indent=2) + "\n")


def write_step_times(times: StepTimes, path: Path) -> None:
    """Write the file; equal numbers give equal bytes."""
    meta, arrays = _of_posterior(times.posterior, times.quantiles)
    kinship = times.kinship
    meta |= {"schema": STEP_TIMES_SCHEMA, "level": round(kinship.level, 5)}
    meta |= {name: sorted(getattr(times, name)) for name in SETS}
    arrays |= {f"kinship_{name}": getattr(kinship, name).astype(np.float16) for name in KINSHIP[2:]}
    arrays |= {f"kinship_{name}": getattr(kinship, name).astype(np.float32) for name in KINSHIP[:2]}
    _write(meta, arrays, path)


def write_cpu_step_times(times: CpuStepTimes, path: Path) -> None:
    """Write the file; equal numbers give equal bytes."""
    meta, arrays = _of_posterior(times.posterior, times.quantiles)
    meta |= {"schema": CPU_SCHEMA, "networks": sorted(times.networks)}
    _write({**meta, "reference_score": times.reference_score}, arrays, path)


def _of_posterior(
    posterior: Posterior, quantiles: Mapping[str, tuple[float, ...]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON values and the arrays that store a posterior and its residual quantiles."""
    networks = sorted(posterior.effects)
    groups = sorted({name for entry in networks for name in posterior.effects[entry].names})
    place = {name: at for at, name in enumerate(groups)}
    each = [posterior.effects[name] for name in networks]
    sizes = [len(entry.names) for entry in each]
    deviation = np.sqrt(np.diag(posterior.covariance))
    meta = {
        "names": list(posterior.names),
        "networks_with_effects": networks,
        "groups": groups,
        "quantiles": {name: list(values) for name, values in quantiles.items()},
    }
    return meta, {
        "mean": posterior.mean.astype(np.float32),
        "deviation": deviation.astype(np.float32),
        "correlation": (posterior.covariance / np.outer(deviation, deviation)).astype(np.float16),
        "effect_first": np.cumsum([0, *sizes]).astype(np.int32),
        "covariance_first": np.cumsum([0, *(n * (n + 1) // 2 for n in sizes)]).astype(np.int32),
        "effect_group": np.array([place[n] for entry in each for n in entry.names], np.uint16),
        "effect_mean": np.concatenate([entry.mean for entry in each]).astype(np.float32),
        "effect_covariance": np.concatenate(
            [entry.covariance[np.tril_indices(len(entry.names))] for entry in each]
        ).astype(np.float16),
    }


def _write(meta: Mapping[str, Any], arrays: dict[str, Any], path: Path) -> None:
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    text = json.dumps({**meta, "id": digest.hexdigest()[:12]}, separators=(",", ":"))
    with path.open("wb") as file:
        np.save(file, _record({"meta": np.frombuffer(text.encode(), np.uint8), **arrays}))


def _record(arrays: Mapping[str, Any]) -> Any:
    record = np.empty((), [(name, array.dtype, array.shape) for name, array in arrays.items()])
    for name, array in arrays.items():
        record[name] = array
    return record


def write_serving(predictor: ServingPredictor, folder: Path) -> None:
    """Write the two files with five digits, so that a new fit on the same rows gives the same files."""
    sigma = np.sqrt(predictor.covariance.diagonal())
    raw = {
        "versions": dict(predictor.versions),
        "models": sorted(predictor.models),
        "gpus": sorted(predictor.gpus),
        "widths": {name: list(group) for name, group in sorted(predictor.widths.items())},
        "parameters": {
            name: [float(f"{mean:.{_DIGITS}g}"), float(f"{deviation:.{_DIGITS}g}")]
            for name, mean, deviation in zip(
                predictor.names, predictor.mean.tolist(), sigma.tolist(), strict=True
            )
        },
    }
    text = json.dumps(raw, indent=0)
    (folder / FACTS).write_text(text + "\n", encoding="utf-8")
    correlation = predictor.covariance / sigma[:, None] / sigma
    below = correlation[np.tril_indices(len(sigma), -1)]
    np.save(folder / CORRELATIONS, np.round(below * ONE).astype(np.int16))


def write_tuning(predictor: FineTuningPredictor, path: Path = PATH) -> None:
    """Write a predictor with numbers of five digits."""
    belief = predictor.belief
    lower = belief.covariance[np.tril_indices(len(belief.names))]
    raw = {
        "schema": TUNING_SCHEMA,
        "trained_on": predictor.trained_on,
        "names": list(belief.names),
        "mean": _rounded(belief.mean.tolist()),
        "covariance": _rounded(lower.tolist()),
        "standardised": {kind: _rounded(each) for kind, each in predictor.standardised.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(raw, separators=(",", ":")) + "\n", encoding="utf-8")


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]
