"""How alike two rows of a sweep are: the Matern kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def matern52(left: Floats, right: Floats, lengths: Floats | float) -> Floats:
    """Correlations (n, m); Rasmussen and Williams, Gaussian Processes, equation 4.17."""
    far = scaled_distance(((left[:, None, :] - right[None, :, :]) / lengths) ** 2)
    correlations: Floats = (1 + far + far**2 / 3) * np.exp(-far)
    return correlations


def scaled_distance(squares: Floats) -> Floats:
    """Distances (n, m) of squared differences (n, m, d), as the Matern kernel takes them."""
    far: Floats = np.sqrt(5.0 * squares.sum(axis=-1))
    return far
