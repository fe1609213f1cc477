"""The share of its own rate that each GPU of a host keeps when several work at once.

    1 / efficiency(n) = n ** exponent * (1 + seconds_per_gb * 2 (n - 1) / n * pace)

Each doubling of the GPUs costs the same share, and a ring all-reduce (below) sends each GPU's gradients,
`pace` GB for each second of a step on one GPU alone. Server cards with NVLink on a board, other server
cards and consumer cards have separate constants (internals/scaling.md). In training each GPU has a whole
batch; in inference each has a separate process and sends no gradients. Batch size means that of one GPU.

The numbers come from published runs (infra/build/performance_sources/scaling.csv), and from the user's
measurements of such GPUs (`Scaling.given`). Those ran on other instances than the one in question, so
the rate of several GPUs is always modelled, even if that of one GPU was measured.

Training over several nodes also takes time to average gradients over the network between them. A ring
all-reduce (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
section 4) sends each rank's gradients twice around the ring, in n parts:

    seconds = 2 (n - 1) / n * bytes * 8 / (reach * rate) + 2 (n - 1) * latency

With several ranks on a node the ring enters and leaves each node once, so the same bytes pass its
network, whatever their number. DistributedDataParallel averages all buckets of gradients but the last during
the backward pass (Li et al. 2020, "PyTorch Distributed", section 3.2.3). So a step of s seconds becomes

    lower    s + all_reduce                     nothing overlaps
    median   max(s + last bucket, forward + all_reduce)
    upper    max(s, all_reduce)                 everything does

A user's measurements (`advisor measure --ranks`) change `reach`; a measured step that was slower than
the lower bound lowers that bound.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np
from msgspec import Struct, convert
from msgspec.structs import replace

from advisor.domain import STEP_SIGMA, Gpu, ScalingObservation, Task
from advisor.domain.machines import is_on_board
from advisor.messages import Message
from advisor.models.bayes import Floats, HalfWidths, gaussian_multiplier, half_widths
from advisor.models.bundled import read_bundled
from advisor.models.performance.machines import Integers, ResourceTable, distinct
from advisor.models.performance.networks import NetworkTable
from advisor.models.performance.pipeline import PipelineRequest
from advisor.models.performance.step_times import is_consumer_card, is_same_card

SCHEMA = "advisor.scaling/1"
BUNDLED = "scaling.json"
# Gradients are exchanged in the format of the parameters (fp32), in mixed precision too.
BYTES_PER_GRADIENT = 4
# Kinds of cards. Consumer cards copy from one to another through the host's memory.
CONSUMER, PCIE, NVLINK = "consumer", "pcie", "nvlink"
# Bounds of the counts whose residuals are pooled: 2, 3 to 4, 5 and more.
_POOLS = (2, 4)
# Log standard deviation of carrying a measured efficiency to another number of GPUs, per doubling
# between the two: the spread of the fitted exponents of cards.
_PER_DOUBLING_SIGMA = 0.03
# Smallest divisor: at a confidence of 0.5 widths are 0, and no standard deviation follows from them.
_LEAST_Z = 0.1


# The payload's share of an Ethernet frame of 1,514 bytes with TCP/IPv4 and timestamps.
PAYLOAD_SHARE = 1448 / 1514
# From rank to rank: half a round trip between hosts of one placement group, with its system calls.
LATENCY_SECONDS = 1e-4
# The backward pass computes gradients of inputs and of weights: twice the products of the forward
# pass (Kaplan et al. 2020, "Scaling laws for neural language models", section 2.1).
FORWARD_SHARE = 1 / 3
# `bucket_cap_mb` of torch.nn.parallel.DistributedDataParallel.
BUCKET_BYTES = 25 * 2**20
# The share of a cloud network's rate that all-reduces reach, as mean and log sigma: an assumption, since
# nothing is published; 0.54 at the 90 % bound. Emulated nodes reached 0.9 (tests/host/test_nodes.py).
_USUAL_REACH, _REACH_SIGMA = 0.75, 0.25
# Log standard deviations of carrying a measured reach over: of one measurement, of each doubling of the
# network's rate, and of another communication library.
_ROW_SIGMA, _PER_DOUBLED_RATE_SIGMA, _OTHER_BACKEND_SIGMA = 0.05, 0.1, 0.15
_BACKEND = "nccl"


def all_reduce_seconds(
    gradient_bytes: float, ranks: int, gbit_per_second: float, reach: float = PAYLOAD_SHARE
) -> float:
    """Seconds of an all-reduce of so many bytes; `reach` is the share of the network's rate that it gets."""
    bits = 8.0 * 2.0 * (ranks - 1) / ranks * gradient_bytes
    return bits / (reach * gbit_per_second * 1e9) + 2.0 * (ranks - 1) * LATENCY_SECONDS


class NodeLaw(Struct, frozen=True):
    """The formulas above for several nodes, with `rows` of measurements between nodes, if any."""

    rows: tuple[ScalingObservation, ...] = ()

    def efficiency(
        self,
        step_seconds: float,
        gradient_bytes: float,
        ranks: int,
        gbit_per_second: float,
        confidence: float,
    ) -> tuple[float, float, float]:
        """The share of its rate alone, 0 to 1, that a node keeps among several whose GPUs take `step_seconds`
        a step, with `ranks` GPUs in all; then the lower and upper half widths of its log."""
        z = gaussian_multiplier(confidence)
        log_reach, sigma = self.reach(gbit_per_second)

        def reduced(z: float) -> float:
            reach = min(1.0, math.exp(log_reach + z * sigma))
            return all_reduce_seconds(gradient_bytes, ranks, gbit_per_second, reach)

        usual = reduced(0.0)
        last = usual * BUCKET_BYTES / max(BUCKET_BYTES, gradient_bytes)
        step = max(step_seconds + last, FORWARD_SHARE * step_seconds + usual)
        slowest = (step_seconds + reduced(-z)) * self._slower(z)
        fastest = max(step_seconds, reduced(z))
        widths = math.log(max(slowest, step) / step), math.log(step / min(step, fastest))
        return step_seconds / step, *widths

    def reach(self, gbit_per_second: float) -> tuple[float, float]:
        """Mean and standard deviation of the log share of the network's rate that all-reduces get; the
        mean is at most the log of `PAYLOAD_SHARE`."""
        weight = _REACH_SIGMA**-2
        total = weight * math.log(_USUAL_REACH)
        for row in self.rows:
            assert row.gbit_per_second is not None
            doublings = abs(math.log2(gbit_per_second / row.gbit_per_second))
            other = _OTHER_BACKEND_SIGMA if row.backend != _BACKEND else 0.0
            sigma = math.hypot(_ROW_SIGMA, _PER_DOUBLED_RATE_SIGMA * doublings, other)
            # The share of its network's rate that the measured all-reduce got.
            at_whole = all_reduce_seconds(row.gradient_bytes, row.ranks, row.gbit_per_second, 1.0)
            weight += sigma**-2
            total += math.log(at_whole / row.all_reduce_seconds) / sigma**2
        return min(total / weight, math.log(PAYLOAD_SHARE)), weight**-0.5

    def _slower(self, z: float) -> float:
        """The largest ratio of a measured step's seconds to those of the lower bound; at least 1."""
        times = [1.0]
        for row in self.rows:
            assert row.gbit_per_second is not None
            log_reach, sigma = self.reach(row.gbit_per_second)
            reach = math.exp(log_reach - z * sigma)
            apart = all_reduce_seconds(row.gradient_bytes, row.ranks, row.gbit_per_second, reach)
            times.append(row.step_seconds / (row.one_step_seconds + apart))
        return max(times)


def node_law(rows: Sequence[ScalingObservation]) -> NodeLaw:
    """The law given those of `rows` that were measured between nodes, on a network of known rate."""
    return NodeLaw(tuple(row for row in rows if row.nodes > 1 and row.gbit_per_second is not None))


class Scaling(Struct, frozen=True):
    """Scaling of n GPUs: `efficiency` is the share of its rate alone that each keeps, 0 to 1.

    `widths` are half widths of the log efficiency. `largest` is the largest number of GPUs measured, and
    `pace` the highest rate of gradients measured, in GB/s; infinite if none are exchanged. `seconds_per_gb`
    are added to a step for each GB that a GPU sends, on top of `efficiency` (`with_pace`)."""

    gpus: int
    efficiency: float
    widths: HalfWidths
    largest: int
    pace: float = math.inf
    seconds_per_gb: float = 0.0
    beyond_pace: bool = False
    nodes: int = 1
    node_efficiency: float = 1.0
    is_network_measured: bool = True

    def on_nodes(
        self,
        nodes: int,
        step_seconds: float,
        gradient_bytes: float,
        gbit_per_second: float,
        law: NodeLaw,
        confidence: float,
    ) -> Scaling:
        """The scaling on each of several nodes, whose GPUs alone take `step_seconds` per step."""
        ranks = nodes * self.gpus
        median, *widths = law.efficiency(step_seconds, gradient_bytes, ranks, gbit_per_second, confidence)
        lower, upper = map(math.hypot, self.widths[:2], widths)
        return replace(
            self,
            nodes=nodes,
            node_efficiency=median,
            is_network_measured=bool(law.rows),
            widths=HalfWidths(lower, upper, self.widths.calibrated),
        )

    def with_pace(self, gradient_gb_per_second: float) -> Scaling:
        """The scaling if one GPU alone produces `gradient_gb_per_second`.

        Beyond the measured pace the time lost in a step is constant, since as many bytes are exchanged. The
        efficiency is at least 1/n: nobody has to use more GPUs than help."""
        if self.gpus == 1:
            return self
        within = min(gradient_gb_per_second, self.pace)
        lost = (1 + exchange_share(self.gpus, self.seconds_per_gb, within)) / self.efficiency - 1
        # No GPU is faster among others than alone.
        lost = max(0.0, lost) * max(1.0, gradient_gb_per_second / self.pace)
        efficiency = max(1 / (1 + lost), 1 / self.gpus)
        lower, upper, calibrated = self.widths
        widths = HalfWidths(lower, min(upper, -math.log(efficiency)), calibrated)
        beyond = gradient_gb_per_second > self.pace
        return replace(self, efficiency=efficiency, widths=widths, beyond_pace=beyond)

    def given(self, rows: Sequence[ScalingObservation], gpu: Gpu, confidence: float) -> Scaling:
        """The scaling (before `with_pace`) conditioned on measured `rows` of such GPUs on one node: a
        Gaussian update of the log efficiency, whose prior follows from the bounds."""
        z = max(gaussian_multiplier(confidence), _LEAST_Z)
        weight = (max(self.widths.lower, STEP_SIGMA * z) / z) ** -2
        total, pace = weight * math.log(self.efficiency), self.pace
        for row in rows:
            if row.nodes == 1 and row.gpu is not None and is_same_card(row.gpu, gpu):
                own_pace = row.gradient_bytes / row.one_step_seconds / 1e9
                exchanged = math.log1p(exchange_share(row.ranks, self.seconds_per_gb, own_pace))
                # Each doubling costs the same share of what the exchange leaves.
                logs = (math.log(min(1.0, row.efficiency)) + exchanged) * math.log(self.gpus, row.ranks)
                sigma = math.hypot(STEP_SIGMA, _PER_DOUBLING_SIGMA * abs(math.log2(self.gpus / row.ranks)))
                weight, total = weight + sigma**-2, total + logs / sigma**2
                pace = max(pace, own_pace)
        log, width = total / weight, z * weight**-0.5
        widths = HalfWidths(width, width, self.widths.calibrated)
        return replace(self, efficiency=math.exp(log), widths=widths, pace=pace)

    @property
    def speed_up(self) -> float:
        """The rate of one node over that of one GPU alone."""
        return self.gpus * self.efficiency * self.node_efficiency

    def notes(self) -> Iterator[Message]:
        """Notes on facts outside the measured range."""
        if self.gpus > self.largest:
            yield Message(
                "{gpus} GPUs lie beyond the {largest} whose scaling was measured",
                gpus=self.gpus,
                largest=self.largest,
            )
        if self.beyond_pace:
            yield Message("scaling over GPUs was measured on longer steps only")
        if not self.is_network_measured:
            yield Message(
                "training over {nodes} nodes is modelled: nobody measured their network", nodes=self.nodes
            )


ALONE = Scaling(1, 1.0, HalfWidths(0.0, 0.0, True), 1)


def exchange_share(gpus: int, seconds_per_gb: float, pace: float) -> float:
    """The time that a ring all-reduce adds to a step, as a share of the step on one GPU."""
    return 2 * (gpus - 1) / gpus * seconds_per_gb * pace


class ScalingModel(Struct, frozen=True, kw_only=True):
    """Exponents, seconds per GB sent, and held-out residuals, by kind ('training/pcie').

    `residuals` are sorted lists by kind and pool ('training/pcie/4'), `largest` the most GPUs measured of a
    kind, and `gradient_gb_per_second` the highest pace measured of a kind."""

    exponents: Mapping[str, float]
    seconds_per_gb: Mapping[str, float]
    residuals: Mapping[str, Sequence[float]]
    largest: Mapping[str, int]
    gradient_gb_per_second: Mapping[str, float]

    def of(self, task: Task, gpu: Gpu | None, gpus: int, confidence: float) -> Scaling:
        """The scaling of `gpus` equal GPUs before any exchange (`with_pace`); `ALONE` for one or none."""
        if gpus <= 1 or gpu is None or task is Task.PREPROCESSING:
            return ALONE
        kind = kind_of(task, gpu.name)
        log = -self.exponents[kind] * math.log(gpus)
        widths = self.widths(kind, gpus, confidence)
        pace = self.gradient_gb_per_second[kind] if task is Task.TRAINING else math.inf
        per_gb = self.seconds_per_gb[kind]
        return Scaling(gpus, math.exp(log), widths, self.largest[kind], pace, per_gb)

    def widths(self, kind: str, gpus: int, confidence: float) -> HalfWidths:
        """Half widths of the log efficiency: the widest of this count's pool and of pools of smaller counts.
        Beyond the largest measured count they grow in proportion to its log."""
        pools = [pool_name(kind, bound) for bound in (*_POOLS, math.inf)]
        wanted = pools.index(pool_name(kind, gpus))
        result = [half_widths(self.residuals, (pool, kind), confidence) for pool in pools[: wanted + 1]]
        beyond = max(1.0, math.log(gpus) / math.log(self.largest[kind]))
        return HalfWidths(
            beyond * max(entry.lower for entry in result),
            beyond * max(entry.upper for entry in result),
            all(entry.calibrated for entry in result),
        )


def kind_of(task: Task, gpu_name: str) -> str:
    """'training/nvlink', 'training/pcie', 'training/consumer' or 'inference'."""
    if task is not Task.TRAINING:
        return str(task)
    if is_consumer_card(gpu_name):
        return f"{task}/{CONSUMER}"
    return f"{task}/{NVLINK if is_on_board(gpu_name) else PCIE}"


def pool_name(kind: str, gpus: float) -> str:
    """The name of a pool of residuals, such as 'training/pcie/4' for three or four GPUs."""
    bound = next((most for most in _POOLS if gpus <= most), "more")
    return f"{kind}/{bound}"


@cache
def bundled_scaling() -> ScalingModel:
    """The scaling that ships; `DataError` if its file is missing or damaged."""
    return convert(json.loads(read_bundled(BUNDLED)), ScalingModel)


def scaled_rows(
    loads: Sequence[PipelineRequest],
    which: Integers,
    machines: ResourceTable,
    confidence: float,
    steps_per_second: Floats,
    networks: NetworkTable,
    measured: Sequence[ScalingObservation],
) -> tuple[list[Scaling], Integers]:
    """The distinct scalings of `machines` (n rows) under `loads[which]`, and the index (n,) of each row's;
    one GPU alone makes `steps_per_second` (n,), infinitely many where the task has no step."""
    several = ((machines.gpu_count > 1) | (machines.nodes > 1)) & np.isfinite(steps_per_second)
    rows = np.flatnonzero(several)
    facts = (which, machines.gpu, machines.gpu_count, machines.nodes, machines.gbit_per_second)
    first, of_rows = distinct(*(fact[rows] for fact in facts), steps_per_second[rows])
    within = [row for row in measured if row.nodes == 1 < row.ranks]
    law, scalings = node_law(measured), [ALONE]
    for row in rows[first].tolist():
        workload, gpu = loads[which[row]].workload, machines.gpus[machines.gpu[row]]
        rate, nodes = float(steps_per_second[row]), int(machines.nodes[row])
        scaling = bundled_scaling().of(workload.task, gpu, int(machines.gpu_count[row]), confidence)
        if workload.task is Task.TRAINING and gpu is not None and scaling.gpus > 1 and within:
            scaling = scaling.given(within, gpu, confidence)
        gradient_bytes = float(BYTES_PER_GRADIENT * networks[workload.network].parameters)
        scaling = scaling.with_pace(gradient_bytes / 1e9 * rate)
        if nodes > 1:
            alone, gbit = 1 / (rate * scaling.efficiency), float(machines.gbit_per_second[row])
            scaling = scaling.on_nodes(nodes, alone, gradient_bytes, gbit, law, confidence)
        scalings.append(scaling)
    index = np.zeros(len(which), dtype=np.intp)
    index[rows] = of_rows + 1
    return scalings, index
