"""How many cores' worth of work so many cores do."""

from __future__ import annotations

import numpy as np

from models.performance.networks import Floats


def useful_cores(cores: Floats, contention: float, coherence: float) -> Floats:
    """Gunther's universal scalability law, `n / (1 + a (n - 1) + b n (n - 1))`; n below one.

    Past its peak at `sqrt((1 - a) / b)` nobody has to use more cores, so it stays there.
    """
    if coherence > 0:
        cores = np.minimum(cores, np.sqrt(max(1.0, (1 - contention) / coherence)))
    more = np.maximum(cores - 1, 0.0)
    useful: Floats = cores / (1 + contention * more + coherence * cores * more)
    return useful
