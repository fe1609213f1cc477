"""Workloads measured on one GPU, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.performance.networks import Floats
from models.performance.transfer.operations import CLASSES

Rows = NDArray[np.bool_] | NDArray[np.int64]
Names = NDArray[np.str_]

# A profile whose operations and gaps add up to less than the step was cut off by the profiler.
_LEAST_OPERATION_SECONDS = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """Device seconds of one step: `operations` (n, len(CLASSES)), and `idle` (n,) gaps.

    A row of NaN is a workload without a profile.
    """

    operations: Floats
    idle: Floats

    def __getitem__(self, rows: Rows) -> Profiles:
        return Profiles(operations=self.operations[rows], idle=self.idle[rows])

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which rows have a profile that says something."""
        busy = self.operations.sum(axis=1) > _LEAST_OPERATION_SECONDS
        known: NDArray[np.bool_] = busy & np.isfinite(self.idle)
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """n workloads (network, image size, batch) with their `seconds` a step on one GPU."""

    network: Names
    image_px: Floats
    batch: Floats
    seconds: Floats
    profiles: Profiles | None = None

    def __len__(self) -> int:
        return len(self.seconds)

    def __getitem__(self, rows: Rows) -> Cells:
        return Cells(
            network=self.network[rows],
            image_px=self.image_px[rows],
            batch=self.batch[rows],
            seconds=self.seconds[rows],
            profiles=None if self.profiles is None else self.profiles[rows],
        )

    def without_profiles(self) -> Cells:
        """The same workloads, known by their step time only."""
        return Cells(
            network=self.network, image_px=self.image_px, batch=self.batch, seconds=self.seconds
        )


def completed(profiles: Profiles, seconds: Floats) -> Profiles:
    """Profiles whose operations fill the step: what a cut-off profile lacks is more of the same.

    Profilers keep a limited number of events; the steps of very deep networks lose their end.
    Profiles that already fill the step, or more (profiling slows the host), stay as they are.
    """
    total = np.maximum(profiles.operations.sum(axis=1), _LEAST_OPERATION_SECONDS)
    scale = np.maximum(1.0, (seconds - profiles.idle) / total)
    return Profiles(operations=profiles.operations * scale[:, None], idle=profiles.idle)


def empty_operations(rows: int) -> Floats:
    """A table of zeros to add operation times into."""
    return np.zeros((rows, len(CLASSES)))


def joined(parts: Sequence[Cells]) -> Cells:
    """The rows of all parts; profiles only where every part has them."""
    with_profiles = [part.profiles for part in parts if part.profiles is not None]
    profiles = None
    if len(with_profiles) == len(parts):
        profiles = Profiles(
            operations=np.concatenate([one.operations for one in with_profiles]),
            idle=np.concatenate([one.idle for one in with_profiles]),
        )
    return Cells(
        network=np.concatenate([part.network for part in parts]),
        image_px=np.concatenate([part.image_px for part in parts]),
        batch=np.concatenate([part.batch for part in parts]),
        seconds=np.concatenate([part.seconds for part in parts]),
        profiles=profiles,
    )
