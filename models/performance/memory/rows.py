"""Traced steps as columns: the one feature function of fitting and predicting GPU peaks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from advisor.records import dataclass
from models.performance.memory.profile import MemoryProfile, Point
from models.performance.memory.step import Conditions, step_memory
from models.performance.networks import Floats

_FLOOR_MIB = 0.1
# Batches at which the backward pass is looked at: gradients of weights show at the small ones,
# activations at the large one.
_SMALL, _MIDDLE, _LARGE = 8.0, 16.0, 128.0


@dataclass(frozen=True, slots=True)
class StepRows:
    """One row a step, every column of shape (n,), MiB but for the batch.

    `state` are weights, gradients and optimiser state where they are known apart (else 0);
    `sample` and `fixed` are what the forward pass leaves, the share of the batch and the rest;
    `backward` is what the backward pass adds at this batch, `small`, `middle` and `large` what
    it adds at batches of 8, 16 and 128.
    """

    batch: Floats
    state: Floats
    sample: Floats
    fixed: Floats
    backward: Floats
    small: Floats
    middle: Floats
    large: Floats

    def __len__(self) -> int:
        return len(self.batch)

    def take(self, chosen: np.ndarray) -> StepRows:
        """The rows that an index or mask names."""
        return StepRows(*(getattr(self, name)[chosen] for name in self.__slots__))

    def terms(self) -> Floats:
        """What adds up to a peak, shape (n, 5): state, sample, fixed, backward, small."""
        return np.column_stack([self.state, self.sample, self.fixed, self.backward, self.small])

    def features(self) -> Floats:
        """Logs for the learnt remainder, shape (n, 13): sizes, and their ratios."""
        logs = [
            np.log(np.maximum(column, _FLOOR_MIB))
            for column in (self.fixed, self.small, self.middle, self.backward)
        ]
        fixed, small, middle, backward = logs
        slope = np.log(np.maximum(self.sample / self.batch, _FLOOR_MIB / 100))
        large = np.log(np.maximum(self.large / _LARGE, _FLOOR_MIB / 100))
        total = np.log(self.sample + self.fixed + self.backward + _FLOOR_MIB)
        sizes = [np.log(self.batch), slope, fixed, small, middle, large, backward, total]
        ratios = [small - slope, small - middle, large - slope, fixed - small, fixed - slope]
        return np.column_stack([*sizes, *ratios])


def rows_of(points: Sequence[Point], batches: Iterable[float]) -> StepRows:
    """Rows of one network from its traced points, for batches that are among them.

    One point alone is taken for a line through the origin. The slope is that from the smallest
    to the largest batch.
    """
    batch, forward, peak = np.array(sorted(points), dtype=float).T
    first, last = batch[0], batch[-1]
    slope = (forward[-1] - forward[0]) / (last - first) if last > first else forward[0] / first
    fixed = max(0.0, forward[0] - slope * first)
    added = np.maximum(0.0, peak - forward)
    asked = np.array(list(batches), dtype=float)
    count = np.ones(len(asked))
    looks = [float(np.interp(one, batch, added)) * count for one in (_SMALL, _MIDDLE, _LARGE)]
    return StepRows(
        asked,
        0.0 * count,
        np.maximum(slope * asked, _FLOOR_MIB),
        fixed * count,
        np.interp(asked, batch, added),
        *looks,
    )


def row_of(profile: MemoryProfile, conditions: Conditions) -> StepRows:
    """One row of a profiled network, with what is known of it exactly as `state`."""
    parts = step_memory(profile, conditions)
    state = parts.weights_mib + parts.gradients_mib + parts.optimizer_mib
    points = profile.steps[conditions.step]
    rows = rows_of(points, [conditions.batch_size])
    return StepRows(
        rows.batch,
        np.array([state]),
        np.array([parts.saved_mib]),
        np.array([0.0]),
        np.array([parts.temporary_mib]),
        rows.small,
        rows.middle,
        rows.large,
    )


def joined(parts: Sequence[StepRows]) -> StepRows:
    """All rows, in order."""
    columns = ([getattr(part, name) for part in parts] for name in StepRows.__slots__)
    return StepRows(*(np.concatenate(list(column)) for column in columns))
