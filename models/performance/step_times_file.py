"""The file of fitted step times: numbers alone, opened without decoding what nobody asks for.

advisor.step-times/1: one NumPy record. `meta` is JSON (names of parameters, groups of effects,
networks, what was measured, quantiles); the other fields are arrays: parameters with their
correlations, effects of networks one after another (`effect_first`), and the measured steps that
likeness is told from. Opening an archive of arrays instead took 12 ms more of each answer.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from advisor.errors import DataError
from models.performance.bundled import FOLDER, STEP_TIMES, read_bundled_array
from models.performance.kinship import Kinship
from models.performance.posterior import Effects, Posterior
from models.performance.step_times import StepTimes

SCHEMA = "advisor.step-times/1"
FILE = FOLDER / STEP_TIMES
_SETS = ("networks", "gpus", "cells", "capabilities")
_KINSHIP = ("centre", "spread", "features", "residuals", "noise")


class StoredEffects(Mapping[str, Effects]):
    """Effects by network, decoded when asked for."""

    def __init__(self, networks: list[str], groups: list[str], arrays: Any) -> None:
        self._place = {name: place for place, name in enumerate(networks)}
        self._groups = groups
        self._first, self._packed_first = arrays["effect_first"], arrays["covariance_first"]
        self._group, self._mean = arrays["effect_group"], arrays["effect_mean"]
        self._packed = arrays["effect_covariance"]

    def __getitem__(self, network: str) -> Effects:
        place = self._place[network]
        first, end = int(self._first[place]), int(self._first[place + 1])
        size = end - first
        packed = self._packed[int(self._packed_first[place]) : int(self._packed_first[place + 1])]
        covariance = np.zeros((size, size))
        covariance[np.tril_indices(size)] = packed
        covariance += np.tril(covariance, -1).T
        names = tuple(self._groups[group] for group in self._group[first:end].tolist())
        return Effects(names, self._mean[first:end].astype(float), covariance)

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)


def write_step_times(times: StepTimes, path: Path) -> None:
    """Write the file; equal numbers make equal bytes."""
    posterior, kinship = times.posterior, times.kinship
    networks = sorted(posterior.effects)
    groups = sorted({name for one in networks for name in posterior.effects[one].names})
    place = {name: at for at, name in enumerate(groups)}
    each = [posterior.effects[name] for name in networks]
    sizes = [len(one.names) for one in each]
    deviation = np.sqrt(np.diag(posterior.covariance))
    meta = {
        "schema": SCHEMA,
        "names": list(posterior.names),
        "networks_with_effects": networks,
        "groups": groups,
        "level": round(kinship.level, 5),
        "quantiles": {name: list(values) for name, values in times.quantiles.items()},
        **{name: sorted(getattr(times, name)) for name in _SETS},
    }
    arrays = {
        "mean": posterior.mean.astype(np.float32),
        "deviation": deviation.astype(np.float32),
        "correlation": (posterior.covariance / np.outer(deviation, deviation)).astype(np.float16),
        "effect_first": np.cumsum([0, *sizes]).astype(np.int32),
        "covariance_first": np.cumsum([0, *(n * (n + 1) // 2 for n in sizes)]).astype(np.int32),
        "effect_group": np.array([place[n] for one in each for n in one.names], np.uint16),
        "effect_mean": np.concatenate([one.mean for one in each]).astype(np.float32),
        "effect_covariance": np.concatenate([
            one.covariance[np.tril_indices(len(one.names))] for one in each
        ]).astype(np.float16),
        **{f"kinship_{name}": getattr(kinship, name).astype(np.float16) for name in _KINSHIP[2:]},
        **{f"kinship_{name}": getattr(kinship, name).astype(np.float32) for name in _KINSHIP[:2]},
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    text = json.dumps({**meta, "id": digest.hexdigest()[:12]}, separators=(",", ":"))
    with path.open("wb") as file:
        np.save(file, _record({"meta": np.frombuffer(text.encode(), np.uint8), **arrays}))


def _record(arrays: Mapping[str, Any]) -> Any:
    record = np.empty((), [(name, one.dtype, one.shape) for name, one in arrays.items()])
    for name, one in arrays.items():
        record[name] = one
    return record


def read_step_times(path: Path) -> StepTimes:
    """The step times of a file; `DataError` where it is missing or none."""
    try:
        return _decoded(np.load(path), path)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path} holds no fitted step times ({error}); {_WAY_OUT}") from error


@cache
def bundled_step_times() -> StepTimes:
    """The step times that ship, read once; raises as `read_step_times` does, and where they are
    not those that were shipped."""
    return _decoded(read_bundled_array(STEP_TIMES), FILE)


_WAY_OUT = "install the package again (in a checkout: python -m advisor.operations.fitting)"


def _decoded(record: Any, path: Path) -> StepTimes:
    try:
        meta = json.loads(record["meta"].tobytes())
        if meta["schema"] != SCHEMA:
            raise DataError(f"{path} has the format {meta['schema']}, not {SCHEMA}; {_WAY_OUT}")
        return _step_times(meta, record)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(f"{path} holds no fitted step times ({error}); {_WAY_OUT}") from error


def _step_times(meta: Mapping[str, Any], arrays: Any) -> StepTimes:
    deviation = arrays["deviation"].astype(float)
    if not (np.isfinite(deviation).all() and np.isfinite(arrays["mean"]).all()):
        raise ValueError("it holds numbers that are none")
    covariance = arrays["correlation"].astype(float)
    covariance *= deviation[:, None]
    covariance *= deviation
    posterior = Posterior(
        tuple(meta["names"]),
        arrays["mean"].astype(float),
        covariance,
        StoredEffects(meta["networks_with_effects"], meta["groups"], arrays),
    )
    numbers = {name: arrays[f"kinship_{name}"].astype(float) for name in _KINSHIP}
    kinship = Kinship(**numbers, level=float(meta["level"]))
    quantiles = {name: tuple(map(float, values)) for name, values in meta["quantiles"].items()}
    if any(list(v) != sorted(v) or not all(map(math.isfinite, v)) for v in quantiles.values()):
        raise ValueError("its quantiles are no sorted numbers")
    return StepTimes(
        posterior=posterior,
        kinship=kinship,
        quantiles=quantiles,
        id=str(meta["id"]),
        **{name: frozenset(meta[name]) for name in _SETS},
    )
