"""What is predicted of many requests at once, as columns."""

from __future__ import annotations

import numpy as np

from advisor.domain import Stage
from advisor.records import dataclass
from models.performance.doubts import Booleans, Doubts, interval
from models.performance.features import PipelineColumns
from models.performance.networks import Floats
from models.performance.pipeline import Pipeline
from models.performance.resource_table import Integers
from models.performance.stages import STAGES


@dataclass(frozen=True, slots=True)
class Estimates:
    """Samples per second with a one-sided bound on either side, columns of shape (n,).

    `stage_rates` and `weights` (n, 4) are in the order of `STAGES`, infinite and 0 where a
    request has no such stage; the largest weight is the bottleneck's.
    """

    lower: Floats
    median: Floats
    upper: Floats
    stage_rates: Floats
    weights: Floats
    calibrated: Booleans

    @property
    def bottleneck(self) -> Integers:
        """Which of `STAGES` binds, shape (n,)."""
        return np.asarray(self.weights.argmax(axis=1))

    def mattering(self, least: float) -> Integers:
        """Which stages weigh `least` or more, shape (n,): bit k stands for the k-th of `STAGES`."""
        bits = 1 << np.arange(len(STAGES))
        return np.asarray((self.weights >= least) @ bits)

    def bottleneck_names(self) -> list[Stage]:
        """The binding stages by name."""
        return [STAGES[place] for place in self.bottleneck.tolist()]


def estimates(
    columns: PipelineColumns, rates: Floats, doubts: Doubts, pipeline: Pipeline
) -> Estimates:
    """Join the stages' `rates` (n, 4)."""
    found = interval(columns, rates, doubts, pipeline)
    joined = found.log_rate
    return Estimates(
        lower=np.exp(joined - found.lower),
        median=np.exp(joined),
        upper=np.exp(joined + found.upper),
        stage_rates=rates,
        weights=found.weights.T,
        calibrated=found.calibrated,
    )
