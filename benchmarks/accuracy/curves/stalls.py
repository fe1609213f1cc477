"""Rates on real data from rates on synthetic data, and one probe of the host's input pipeline.

    R = (S'^-gamma + C^-gamma)^(-1/gamma),  S' = S exp(-loss),  C = C_probe (pixels)^-kappa ..

S is the rate on synthetic data, C what the host's pipeline delivers for this network. The probe
is a network so light that its real-data rate is nearly the pipeline's (AlexNet, fp16, inference).
The join is the product's smooth minimum; gamma differs between training and inference, for a
training step leaves the host alone for longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from models.performance.joining import GAMMA_RANGE, smooth_minimum
from models.performance.networks import Floats

# name: mean and standard deviation before anything is measured. gamma is the middle of what
# frameworks showed (1.5 TensorFlow, 6 PyTorch with prefetching) on a log scale; a pipeline's cost
# grows with the pixels it delivers; several GPUs that train together lose some per cent more
# with real data than with synthetic (MODEL.md: 2 to 9 %).
STALL_PRIORS: Mapping[str, tuple[float, float]] = {
    "log_gamma": (float(np.log(2.0)), 0.5),
    "log_gamma/training": (0.0, 0.5),
    "pixels": (1.0, 0.5),
    "training": (0.0, 0.3),
    "fp32": (0.0, 0.3),
    "loss": (0.0, 0.05),
    "loss/several_gpus_training": (0.03, 0.05),
}
# Scatter of a rate; residuals are counted in it.
_SIGMA = 0.05
# Rows that real data hardly slows tell less about how stages join.
_UNSTALLED_WEIGHT = 0.5
STALLED_BELOW = 0.95
# A probe that real data did not slow tells only that the pipeline is at least this much faster.
_FASTEST_PIPELINE = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StallColumns:
    """One row a cell of a host, every column of shape (n,); rates in samples/s.

    `pixels` is the input image's pixel count over the probe's; `training`, `fp32` and
    `several_gpus` are 0 or 1.
    """

    synthetic: Floats
    probe_real: Floats
    probe_synthetic: Floats
    pixels: Floats
    training: Floats
    fp32: Floats
    several_gpus: Floats

    def take(self, chosen: NDArray[np.bool_]) -> StallColumns:
        """The rows where `chosen` (n,) is true."""
        return StallColumns(**{one.name: getattr(self, one.name)[chosen] for one in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class StallModel:
    """Fitted parameters by the names of `STALL_PRIORS`."""

    parameters: Mapping[str, float]

    def gamma(self, *, training: bool) -> float:
        """How sharply network and pipeline limit each other."""
        log_gamma = self.parameters["log_gamma"]
        log_gamma += self.parameters["log_gamma/training"] * training
        return float(np.clip(np.exp(log_gamma), *GAMMA_RANGE))

    def pipeline_rate(self, columns: StallColumns) -> Floats:
        """Samples per second that the host's pipeline would deliver to each row's network."""
        found = self.parameters
        factor = found["training"] * columns.training + found["fp32"] * columns.fp32
        scale = np.exp(factor) * columns.pixels ** -found["pixels"]
        rate: Floats = self._probed_rate(columns) * scale
        return rate

    def predict(self, columns: StallColumns) -> Floats:
        """Samples per second on real data, (n,)."""
        found = self.parameters
        several = columns.several_gpus * columns.training
        loss = found["loss"] + found["loss/several_gpus_training"] * several
        rates = np.column_stack([columns.synthetic * np.exp(-loss), self.pipeline_rate(columns)])
        training, _ = smooth_minimum(rates, self.gamma(training=True))
        inference, _ = smooth_minimum(rates, self.gamma(training=False))
        return np.where(columns.training > 0, training, inference)

    def _probed_rate(self, columns: StallColumns) -> Floats:
        """The pipeline's rate behind the probe: the smooth minimum, solved for its other part."""
        gamma = self.gamma(training=False)
        share = (columns.probe_real / columns.probe_synthetic) ** gamma
        rest = np.maximum(1 - share, _FASTEST_PIPELINE**-gamma)
        rate: Floats = columns.probe_real * rest ** (-1 / gamma)
        return rate


def fit_stalls(columns: StallColumns, real: Floats) -> StallModel:
    """Maximum a posteriori parameters from real-data rates (n,); n may be 0 (the priors)."""
    from scipy.optimize import least_squares

    means, sigmas = (np.array(part) for part in zip(*STALL_PRIORS.values(), strict=True))
    weights = np.where(real < STALLED_BELOW * columns.synthetic, 1.0, _UNSTALLED_WEIGHT) / _SIGMA

    def model(units: Floats) -> StallModel:
        values = (means + sigmas * units).tolist()
        return StallModel(parameters=dict(zip(STALL_PRIORS, values, strict=True)))

    def residuals(units: Floats) -> Floats:
        errors = np.log(real / model(units).predict(columns)) * weights
        soft = np.sign(errors) * np.sqrt(8 * (np.sqrt(1 + errors**2 / 4) - 1))
        return np.concatenate([soft, units])

    return model(least_squares(residuals, np.zeros(len(means)), bounds=(-5, 5)).x)
