"""The product's own form on public vCPU curves: the host's scaling law and the smooth minimum."""

from __future__ import annotations

import numpy as np

from models.performance.joining import smooth_minimum
from models.performance.networks import Floats
from models.performance.stages import PIPELINE_PRIORS, useful_cores

_GAMMA = float(np.exp(PIPELINE_PRIORS["join/gamma"][0]))
# Scatter of a rate, and how far apart the contention of two pipelines lies.
_RATE_SIGMA, _TRIAL_SIGMA = 0.1, 0.02
_CONTENTION = (float(np.log(0.03)), 2.0)


def law_at_eight(rates: Floats, *, coherent: bool) -> float:
    """The scaling law fitted to 1, 2 and 4 threads; Amdahl's without coherence."""
    from scipy.optimize import least_squares

    threads = np.array([1.0, 2.0, 4.0])

    def law(values: Floats, at: Floats) -> Floats:
        return np.exp(values[0]) * useful_cores(
            at, float(np.exp(values[1])), float(np.exp(values[2])) if coherent else 0.0
        )

    prior = np.array([np.log(0.05), np.log(3e-3)])

    def residuals(values: Floats) -> Floats:
        data = np.log(law(values, threads) / rates) / _RATE_SIGMA
        return np.concatenate([data, values[1:] - prior])

    start = np.array([np.log(rates[0]), *prior])
    found = least_squares(residuals, start, bounds=([-50, -20, -20], [50, 0, 0])).x
    return float(law(found, np.array([8.0]))[0])


def joined_stages(vcpus: Floats, rates: Floats) -> Floats:
    """Rates (n,) at all vCPUs from the trials among `rates` (n,), nan elsewhere.

    A host that scales by the law beside an accelerator of one rate, joined as stages are.
    """
    from scipy.optimize import least_squares

    tried = np.isfinite(rates)
    cores = vcpus / vcpus[0]

    def curve(values: Floats) -> Floats:
        host = rates[0] * useful_cores(cores, float(np.exp(values[0])), 0.0)
        stages = np.column_stack([host, np.full(len(cores), np.exp(values[1]))])
        return smooth_minimum(stages, _GAMMA)[0]

    def residuals(values: Floats) -> Floats:
        data = np.log(curve(values)[tried] / rates[tried]) / _TRIAL_SIGMA
        return np.append(data, (values[0] - _CONTENTION[0]) / _CONTENTION[1])

    start = np.array([_CONTENTION[0], np.log(1.05 * rates[-1])])
    return curve(least_squares(residuals, start).x)
