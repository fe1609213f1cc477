"""What a user measured of a GPU alone: the one record that the predictor is conditioned on."""

from __future__ import annotations

from msgspec import Struct

from advisor.domain.machines import Gpu, require_positive
from advisor.domain.workload import Workload

# Standard error of the logarithm of a step that was timed with care.
STEP_SIGMA = 0.03


class ScalingObservation(Struct, frozen=True, kw_only=True):
    """A training on several ranks beside the same on one, measured (`advisor measure --ranks`).

    Mean seconds of a step alone, together, and of an all-reduce of the gradients alone.
    `gbit_per_second` is the network's rate as sold, None where nobody said; `gpu` None where a GPU
    was emulated, or none computed.
    """

    gpu: Gpu | None
    backend: str
    ranks: int
    nodes: int
    gbit_per_second: float | None
    gradient_bytes: float
    one_step_seconds: float
    step_seconds: float
    all_reduce_seconds: float

    def __post_init__(self) -> None:
        require_positive(
            ranks=self.ranks,
            nodes=self.nodes,
            gbit_per_second=self.gbit_per_second,
            gradient_bytes=self.gradient_bytes,
            one_step_seconds=self.one_step_seconds,
            step_seconds=self.step_seconds,
            all_reduce_seconds=self.all_reduce_seconds,
        )

    @property
    def efficiency(self) -> float:
        """The rate of all over as many times that of one."""
        return self.one_step_seconds / self.step_seconds


class Observation(Struct, frozen=True, kw_only=True):
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
