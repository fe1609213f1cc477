"""A number with its doubt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Bounds(NamedTuple):
    """Lower bound, median and upper bound of the same number, one of each for every row (n,)."""

    lower: Floats
    median: Floats
    upper: Floats
