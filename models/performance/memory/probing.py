"""One measured peak of a network corrects what is predicted for its other batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.performance.networks import Floats

_FEWEST_PAIRS = 20


@dataclass(frozen=True, slots=True)
class ProbeCorrection:
    """Adds (near + far * log2(batch / probe)) of the probe's log error, between none and all."""

    near: float
    far: float

    @classmethod
    def fit(
        cls, batches: Floats, held_out_log: Floats, networks: Sequence[str], probe: float
    ) -> ProbeCorrection:
        """From held-out log errors of shape (n,), of networks that also ran a batch of `probe`.

        Least absolute deviations over a grid; with few pairs the probe is believed in full.
        """
        names = np.asarray(networks)
        at_probe = dict(
            zip(names[batches == probe], held_out_log[batches == probe].tolist(), strict=True)
        )
        known = np.array([name in at_probe for name in names], dtype=bool) & (batches != probe)
        if known.sum() < _FEWEST_PAIRS:
            return cls(1.0, 0.0)
        probed = np.array([at_probe[name] for name in names[known]])
        distance = np.abs(np.log2(batches[known] / probe))
        grid = [(near, far) for near in np.linspace(0, 1, 21) for far in np.linspace(-0.3, 0, 16)]
        losses = [
            np.abs(held_out_log[known] - cls(*pair).share(distance) * probed).mean()
            for pair in grid
        ]
        return cls(*map(float, grid[int(np.argmin(losses))]))

    def share(self, distance: Floats) -> Floats:
        """The part of the probe's log error that is added at |log2(batch / probe)|."""
        return np.clip(self.near + self.far * distance, 0.0, 1.0)
