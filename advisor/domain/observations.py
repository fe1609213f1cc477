"""What a user measured of a GPU alone: the one record that the predictor is conditioned on."""

from __future__ import annotations

from advisor.domain.machines import Gpu, require_positive
from advisor.domain.workload import Workload
from advisor.records import dataclass

# Standard error of the logarithm of a step that was timed with care.
STEP_SIGMA = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Seconds of one step of a workload's network alone on `gpu`, as PyTorch ran it there.

    The workload says batch, precision, stack and input; its data set does not matter. `sigma` is
    the standard error of log seconds, `peak_mib` what torch took from the GPU (None: not known),
    `origin` the file and row, or the trial, that a message names.
    """

    workload: Workload
    gpu: Gpu
    seconds: float
    sigma: float = STEP_SIGMA
    peak_mib: float | None = None
    origin: str = ""

    def __post_init__(self) -> None:
        require_positive(seconds=self.seconds, sigma=self.sigma, peak_mib=self.peak_mib)
