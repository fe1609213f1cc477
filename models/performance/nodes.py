"""Training over several nodes: what averaging gradients over the network between them takes.

A ring all-reduce (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", section 4) sends each rank's gradients twice around the ring, in n parts:

    seconds = 2 (n - 1) / n * bytes * 8 / (reach * rate) + 2 (n - 1) * latency

With several ranks on a node the ring enters and leaves each node once, so the same bytes pass its
network, whatever their number.

DistributedDataParallel averages buckets of gradients while the backward pass goes on (Li et al.
2020, "PyTorch Distributed", section 3.2.3), but for the last bucket. So a step of s seconds becomes

    lower    s + all_reduce                     nothing overlaps
    median   max(s + last bucket, forward + all_reduce)
    upper    max(s, all_reduce)                 everything does

What a user measured (`advisor measure --ranks`) moves `reach`, and a step that was slower than the
lower bound's lowers that bound: nothing is promised beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from advisor.domain import ScalingObservation
from advisor.models.bayes import gaussian_multiplier

# What TCP/IPv4 with timestamps leaves of an Ethernet frame of 1,514 bytes.
PAYLOAD_SHARE = 1448 / 1514
# From rank to rank: half a round trip between hosts of one placement group, with its system calls.
LATENCY_SECONDS = 1e-4
# The backward pass computes gradients of inputs and of weights: twice the products of the forward
# pass (Kaplan et al. 2020, "Scaling laws for neural language models", section 2.1).
FORWARD_SHARE = 1 / 3
# `bucket_cap_mb` of torch.nn.parallel.DistributedDataParallel.
BUCKET_BYTES = 25 * 2**20
# What all-reduces get of a network's rate on clouds, where nobody measured it: assumed, for want of
# a published row; 0.54 at the bound of 90 %. Emulated nodes reached 0.9 (tests/host/test_nodes.py).
_USUAL_REACH, _REACH_SIGMA = 0.75, 0.25
# How far a measured reach tells another: log standard deviations of one measurement, of each
# doubling of the rate, and of another library.
_ROW_SIGMA, _PER_DOUBLING_SIGMA, _OTHER_BACKEND_SIGMA = 0.05, 0.1, 0.15
_BACKEND = "nccl"


def all_reduce_seconds(
    gradient_bytes: float, ranks: int, gbit_per_second: float, reach: float = PAYLOAD_SHARE
) -> float:
    """Seconds of an all-reduce of so many bytes of gradients a rank. `reach` is the part of the
    network's rate that gradients get."""
    bits = 8.0 * 2.0 * (ranks - 1) / ranks * gradient_bytes
    return bits / (reach * gbit_per_second * 1e9) + 2.0 * (ranks - 1) * LATENCY_SECONDS


class NodeEfficiency(Struct, frozen=True):
    """The share of its own rate that a node keeps beside the others, 0 to 1; bounds as log half widths."""

    median: float
    lower_width: float
    upper_width: float


class NodeLaw(Struct, frozen=True):
    """The law above with what was measured between nodes, none at first."""

    rows: tuple[ScalingObservation, ...] = ()

    def efficiency(
        self,
        step_seconds: float,
        gradient_bytes: float,
        ranks: int,
        gbit_per_second: float,
        confidence: float,
    ) -> NodeEfficiency:
        """The efficiency of nodes whose GPUs alone take `step_seconds` a step, with `ranks` GPUs in all."""
        z = gaussian_multiplier(confidence)
        log_reach, sigma = self.reach(gbit_per_second)

        def reduced(z: float) -> float:
            reach = min(1.0, math.exp(log_reach + z * sigma))
            return all_reduce_seconds(gradient_bytes, ranks, gbit_per_second, reach)

        usual = reduced(0.0)
        last = usual * min(1.0, BUCKET_BYTES / gradient_bytes)
        step = max(step_seconds + last, FORWARD_SHARE * step_seconds + usual)
        slowest = (step_seconds + reduced(-z)) * self._slower(z)
        fastest = max(step_seconds, reduced(z))
        return NodeEfficiency(
            median=step_seconds / step,
            lower_width=math.log(max(slowest, step) / step),
            upper_width=math.log(step / min(step, fastest)),
        )

    def reach(self, gbit_per_second: float) -> tuple[float, float]:
        """Mean and standard deviation of the logarithm of the part of such a network's rate that
        all-reduces get; never more than TCP leaves of it, whatever was measured."""
        weight = _REACH_SIGMA**-2
        total = weight * math.log(_USUAL_REACH)
        for row in self.rows:
            assert row.gbit_per_second is not None
            doublings = abs(math.log2(gbit_per_second / row.gbit_per_second))
            other = _OTHER_BACKEND_SIGMA if row.backend != _BACKEND else 0.0
            sigma = math.hypot(_ROW_SIGMA, _PER_DOUBLING_SIGMA * doublings, other)
            # The part of its network's rate that the measured all-reduce got.
            at_whole = all_reduce_seconds(row.gradient_bytes, row.ranks, row.gbit_per_second, 1.0)
            weight += sigma**-2
            total += math.log(at_whole / row.all_reduce_seconds) / sigma**2
        return min(total / weight, math.log(PAYLOAD_SHARE)), weight**-0.5

    def _slower(self, z: float) -> float:
        """The largest ratio of a measured step over its lower bound; 1 where none was slower."""
        times = [1.0]
        for row in self.rows:
            assert row.gbit_per_second is not None
            log_reach, sigma = self.reach(row.gbit_per_second)
            reach = math.exp(log_reach - z * sigma)
            apart = all_reduce_seconds(row.gradient_bytes, row.ranks, row.gbit_per_second, reach)
            times.append(row.step_seconds / (row.one_step_seconds + apart))
        return max(times)


def node_law(rows: Sequence[ScalingObservation]) -> NodeLaw:
    """The law that knows the rows that were measured between nodes, on a network of known rate."""
    return NodeLaw(tuple(row for row in rows if row.nodes > 1 and row.gbit_per_second is not None))
