"""The physical form as a function of its parameters, in standard deviations of their priors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.performance.networks import Floats
from models.performance.pipeline import Pipeline, ReferenceCpu
from models.performance.stages import PIPELINE_PRIORS

_CPU_FLOPS_PRIOR = (float(np.log(50e9)), 0.8)
_CPU_NETWORK_SIGMA = 0.5


@dataclass(frozen=True, slots=True)
class PhysicalForm:
    """Parameters `names` (p,) with their priors; each network on the CPU has one of its own."""

    names: tuple[str, ...]
    means: Floats
    sigmas: Floats
    reference: ReferenceCpu
    largest_vcpus: float
    cpu_networks: frozenset[str]

    @classmethod
    def of(cls, on_cpu: list[str], largest_vcpus: float, reference: ReferenceCpu) -> PhysicalForm:
        """The form of trials of which those `on_cpu` ("resnet50/training") ran there."""
        own = {f"cpu/network/{network}": (0.0, _CPU_NETWORK_SIGMA) for network in on_cpu}
        priors = {**PIPELINE_PRIORS, "cpu/flops_per_second": _CPU_FLOPS_PRIOR, **own}
        means, sigmas = (np.array(column) for column in zip(*priors.values(), strict=True))
        return cls(tuple(priors), means, sigmas, reference, largest_vcpus, frozenset(on_cpu))

    def pipeline(self, units: Floats) -> Pipeline:
        """The form with parameters `units` (p,) standard deviations from their priors' means."""
        values = (self.means + self.sigmas * units).tolist()
        return Pipeline(
            parameters=dict(zip(self.names, values, strict=True)),
            reference=self.reference,
            largest_vcpus=self.largest_vcpus,
            residuals={},
            cpu_networks=self.cpu_networks,
            remainder=None,
        )
