"""What physics leaves over: a small regression on the log residual, as numbers."""

from __future__ import annotations

import numpy as np

from advisor.records import dataclass
from models.performance.features import PipelineColumns
from models.performance.networks import Floats

REMAINDER_NAMES = ("log_batch", "log_vcpus", "cached_share", "log_disk_samples", "on_cpu")


@dataclass(frozen=True, slots=True)
class Remainder:
    """Linear in scaled features; outside the fitted range it stays at the range's edge."""

    lows: tuple[float, ...]
    highs: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float

    def log_correction(self, columns: PipelineColumns) -> Floats:
        """Added to log rates, shape (n,)."""
        features = np.clip(remainder_features(columns), self.lows, self.highs)
        correction: Floats = features @ np.array(self.coefficients) + self.intercept
        return correction


def remainder_features(columns: PipelineColumns) -> Floats:
    """The columns named in `REMAINDER_NAMES`, shape (n, 5)."""
    bandwidth = columns.disk_bytes_per_second / columns.stored_bytes
    disk = np.minimum(np.minimum(bandwidth, columns.disk_operations_per_second), 1e5)
    return np.column_stack(
        [
            np.log(columns.batch_size),
            np.log(columns.vcpus),
            columns.cached_share,
            np.log(disk),
            columns.on_cpu,
        ]
    )
