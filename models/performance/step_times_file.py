"""The files of fitted step times: numbers only, of which just the needed ones are decoded.

advisor.step-times/1: one NumPy record. `meta` is JSON (names of parameters, groups of effects, networks, what
was measured, quantiles); the other fields are arrays: parameters with their correlations, effects of networks
one after another (`effect_first`), and the measured steps for `kinship`.
advisor.cpu-step-times/1 is the same without kinship. Opening an archive of arrays instead took 12 ms longer
per answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from advisor.models.bayes import Gaussian
from advisor.models.bundled import CPU_STEP_TIMES, FOLDER, STEP_TIMES, read_bundled_array
from advisor.models.performance.posterior import Kinship, Posterior
from advisor.models.performance.step_times import StepTimes

SCHEMA, CPU_SCHEMA = "advisor.step-times/1", "advisor.cpu-step-times/1"
FILE, CPU_FILE = FOLDER / STEP_TIMES, FOLDER / CPU_STEP_TIMES
SETS = ("networks", "gpus", "cells", "capabilities")
KINSHIP = ("centre", "spread", "features", "residuals", "noise")


class StoredEffects(Mapping[str, Gaussian]):
    """Effects by network, decoded on access."""

    def __init__(self, networks: list[str], groups: list[str], arrays: Mapping[str, Any]) -> None:
        self._place = {name: position for position, name in enumerate(networks)}
        self._groups = groups
        self._first, self._packed_first = arrays["effect_first"], arrays["covariance_first"]
        self._group, self._mean = arrays["effect_group"], arrays["effect_mean"]
        self._packed = arrays["effect_covariance"]

    def __getitem__(self, network: str) -> Gaussian:
        position = self._place[network]
        first, end = int(self._first[position]), int(self._first[position + 1])
        size = end - first
        packed = self._packed[int(self._packed_first[position]) : int(self._packed_first[position + 1])]
        covariance = np.zeros((size, size))
        covariance[np.tril_indices(size)] = packed
        covariance += np.tril(covariance, -1).T
        names = tuple(self._groups[group] for group in self._group[first:end].tolist())
        return Gaussian(names, self._mean[first:end].astype(float), covariance)

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)


@cache
def bundled_step_times() -> StepTimes:
    """The step times that ship, read once; `DataError` if their file is missing or damaged."""
    return step_times_from(read_bundled_array(STEP_TIMES))


def step_times_from(record: Any) -> StepTimes:
    """The step times of a file's record."""
    meta = json.loads(record["meta"].tobytes())
    numbers = {name: record[f"kinship_{name}"].astype(float) for name in KINSHIP}
    sets: dict[str, Any] = {name: frozenset(meta[name]) for name in SETS}
    return StepTimes(
        posterior=posterior_of(meta, record),
        kinship=Kinship(**numbers, level=float(meta["level"])),
        quantiles=quantiles_of(meta),
        id=str(meta["id"]),
        **sets,
    )


def posterior_of(meta: Mapping[str, Any], arrays: Any) -> Posterior:
    """The posterior in a file's arrays, with names from its `meta`."""
    deviation = arrays["deviation"].astype(float)
    covariance = arrays["correlation"].astype(float)
    covariance *= deviation[:, None]
    covariance *= deviation
    return Posterior(
        tuple(meta["names"]),
        arrays["mean"].astype(float),
        covariance,
        StoredEffects(meta["networks_with_effects"], meta["groups"], arrays),
    )


def quantiles_of(meta: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Sorted standardised residuals by group."""
    return {name: tuple(map(float, values)) for name, values in meta["quantiles"].items()}
