"""What the regressions see of a workload on the anchor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.performance.networks import Floats
from models.performance.transfer.cells import Cells, Profiles, Rows, joined
from models.performance.transfer.operations import transfer_column

_TINY = 1e-7


@dataclass(frozen=True, slots=True)
class Samples:
    """Workloads with what each form starts from.

    `target_operations` (n, classes) are the operation times expected on the target; None where
    the anchor has no profiles.
    """

    cells: Cells
    target_operations: Floats | None

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, rows: Rows) -> Samples:
        operations = self.target_operations
        return Samples(self.cells[rows], None if operations is None else operations[rows])

    @property
    def log_expected(self) -> Floats:
        """Log seconds by operations alone; without a profile the anchor's own step."""
        if self.target_operations is None:
            return np.log(self.cells.seconds)
        expected: Floats = np.log(self.target_operations.sum(axis=1) + _TINY)
        return expected

    def features(self) -> Floats:
        """All features, (n, d); d depends on whether there are profiles."""
        size = self.size_features()
        profiles = self.cells.profiles
        if self.target_operations is None or profiles is None:
            return size
        return np.column_stack([size, self.regime_features(), _mixture(profiles)])

    def size_features(self) -> Floats:
        """Step time, batch and image size, and the time that a pixel takes."""
        cells = self.cells
        pixels = cells.batch * cells.image_px**2
        seconds = np.log(cells.seconds)
        return np.column_stack(
            [seconds, np.log(cells.batch), np.log(cells.image_px), seconds - np.log(pixels)]
        )

    def regime_features(self) -> Floats:
        """How busy the anchor was, and how its gaps compare with the work on the target.

        The gaps tell how many kernels are launched: a faster GPU waits for just these.
        """
        profiles, there = self.cells.profiles, self.target_operations
        if profiles is None or there is None:
            raise ValueError("regime features need profiles")
        seconds, idle = np.log(self.cells.seconds), np.log(profiles.idle + _TINY)
        copies = np.log(there[:, transfer_column()] + _TINY)
        expected = self.log_expected
        busy = np.log(profiles.operations.sum(axis=1) + _TINY)
        return np.column_stack(
            [
                busy - seconds,
                idle,
                idle - seconds,
                expected,
                idle - expected,
                copies - expected,
                expected - seconds,
            ]
        )


def _mixture(profiles: Profiles) -> Floats:
    """Square roots of each class's share: a tenth of the step moves as much as from 0 to 1 %."""
    total = profiles.operations.sum(axis=1, keepdims=True) + _TINY
    mixture: Floats = np.sqrt(profiles.operations / total)
    return mixture


def stacked(parts: list[Samples]) -> Samples:
    """The rows of all parts, one below the other."""
    tables = [part.target_operations for part in parts if part.target_operations is not None]
    operations = np.concatenate(tables) if len(tables) == len(parts) else None
    return Samples(joined([part.cells for part in parts]), operations)
