"""Training over several nodes: what averaging gradients over the network between them takes.

A ring all-reduce (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", section 4) sends each rank's gradients twice around the ring, in n parts:

    seconds = 2 (n - 1) / n * bytes * 8 / (reach * rate) + 2 (n - 1) * latency

With several ranks on a node the ring enters and leaves each node once, so the same bytes pass its
network, whatever their number.
"""

from __future__ import annotations

import numpy as np

from models.performance.networks import Floats

# What TCP/IPv4 with timestamps leaves of an Ethernet frame of 1,514 bytes.
PAYLOAD_SHARE = 1448 / 1514
# From rank to rank: half a round trip between hosts of one placement group, with its system calls.
LATENCY_SECONDS = 1e-4


def all_reduce_seconds(
    gradient_bytes: Floats | float, ranks: Floats | float, gbit_per_second: Floats | float,
    reach: Floats | float = PAYLOAD_SHARE,
) -> Floats:  # fmt: skip
    """Of gradients of so many bytes a rank; shapes broadcast. `reach` is the part of the network's
    rate that gradients get."""
    ranks = np.asarray(ranks, dtype=float)
    bits = 8.0 * 2.0 * (ranks - 1) / ranks * np.asarray(gradient_bytes, dtype=float)
    transfer = bits / (np.asarray(reach) * np.asarray(gbit_per_second) * 1e9)
    return np.asarray(transfer + 2.0 * (ranks - 1) * LATENCY_SECONDS)
