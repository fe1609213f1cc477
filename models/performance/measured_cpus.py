"""The CPUs that a sweep ran on: what each other one has of its own beside the reference one, and
how far its trials tell that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from advisor.domain import require_positive

# A mark is no measure across instruction sets: two benchmarks disagree about Arm cores that far.
OTHER_ARCHITECTURE_SIGMA = 0.42
# Log standard deviation of what second threads add, over CPUs and work (internals/processors.md).
SECOND_THREAD_SIGMA = 0.42

# What differs between the CPUs of one sweep. The k-th other CPU has parameters of its own,
# "host/speed/k" and so on: logarithms over what the reference CPU has, speed over what its mark
# tells.
SPEED, CONTENTION, SECOND_THREAD = "host/speed", "host/contention", "host/second_thread"
_OWN_CONTENTION_SIGMA = 0.5
# A CPU counts as measured from so many trials that its cores bound.
FEWEST_TRIALS_OF_A_CPU = 12


class ReferenceCpu(Struct, frozen=True, kw_only=True):
    """The CPU that was measured: its PassMark single-thread mark, and how far to trust it.

    `model` is its name, empty where nobody says; `sigma` is the log standard deviation of carrying
    its rates to a CPU of another mark; `architecture` is what the kernel calls its instruction set.
    """

    score: float
    sigma: float
    architecture: str = "x86_64"
    model: str = ""

    def __post_init__(self) -> None:
        require_positive(score=self.score, sigma=self.sigma)

    def priors_of(self, other: ReferenceCpu, number: int) -> Mapping[str, tuple[float, float]]:
        """Those of what the `other` CPU, the sweep's `number`-th, has of its own."""
        alike = other.architecture == self.architecture
        speed = max(self.sigma, other.sigma, 0.0 if alike else OTHER_ARCHITECTURE_SIGMA)
        return {
            f"{SPEED}/{number}": (0.0, speed),
            f"{CONTENTION}/{number}": (0.0, _OWN_CONTENTION_SIGMA),
            f"{SECOND_THREAD}/{number}": (0.0, SECOND_THREAD_SIGMA),
        }


class CoreTrials(NamedTuple):
    """What trials tell of another CPU than the reference one: how many of them its cores bound, the
    most vCPUs of those, and the log standard deviation that is left of its speed."""

    number: int
    largest_vcpus: float
    speed_sigma: float

    @property
    def are_enough(self) -> bool:
        """Whether the CPU counts as measured."""
        return self.number >= FEWEST_TRIALS_OF_A_CPU
