"""Pseudo-networks: two networks run one after the other at equal image size and batch.

Their operations, gaps and steps add up, on every GPU. So the mixtures are training rows of
networks between the measured ones, and teach a regression that only sums matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.performance.networks import Floats
from models.performance.transfer.cells import Cells, Profiles
from models.performance.transfer.features import Samples, stacked

_SEED = 20_211


def with_mixtures(samples: Samples, target_seconds: Floats, count: int) -> tuple[Samples, Floats]:
    """`samples` and up to `count` sums of two of them, with the seconds on the target."""
    first, second = _partners(samples.cells, count)
    if not len(first):
        return samples, target_seconds
    cells = _sum(samples.cells[first], samples.cells[second])
    operations = samples.target_operations
    added = None if operations is None else operations[first] + operations[second]
    seconds = np.concatenate([target_seconds, target_seconds[first] + target_seconds[second]])
    return stacked([samples, Samples(cells, added)]), seconds


def _partners(cells: Cells, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of pairs of different networks at equal image size and batch."""
    generator = np.random.default_rng(_SEED)
    first, second = [], []
    for row in generator.integers(len(cells), size=count):
        alike = (cells.image_px == cells.image_px[row]) & (cells.batch == cells.batch[row])
        others = np.flatnonzero(alike & (cells.network != cells.network[row]))
        if len(others):
            first.append(int(row))
            second.append(int(generator.choice(others)))
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)


def _sum(left: Cells, right: Cells) -> Cells:
    profiles = None
    if left.profiles is not None and right.profiles is not None:
        profiles = Profiles(
            operations=left.profiles.operations + right.profiles.operations,
            idle=left.profiles.idle + right.profiles.idle,
        )
    return Cells(
        network=np.array([f"{a}+{b}" for a, b in zip(left.network, right.network, strict=True)]),
        image_px=left.image_px,
        batch=left.batch,
        seconds=left.seconds + right.seconds,
        profiles=profiles,
    )
