"""Computes the seconds of one step on the cores of a CPU: a roofline over classes of operations.

    step = sum count * ((compute^4 + memory^4)^(1/4) + kernel)

compute is FLOPs over the rate that the useful cores reach in that class of operations; memory is
bytes over the rate of the cores that memory can still feed, or of all cores as far as the kernel's
bytes fit the last-level cache; kernel is the time to start an operation, on one core however many
there are. Unlike a GPU, a CPU does not start kernels ahead of time, so their times add up. Logs of
rates are sums of named parameters, as in `step_time`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from msgspec import Struct

from advisor.models.bayes import Floats, Parameters, Prior
from advisor.models.network_columns import KINDS
from advisor.models.performance.step_parameters import Integers, Step, fourth

# One core of a server from 2020 or later: FLOP/s and bytes/s of products, and seconds to start a kernel;
# then how much faster the cache is than memory, and how much cores lose to contention.
_COMMON = {
    "compute": Prior(math.log(60e9), 0.8),
    "memory": Prior(math.log(8e9), 0.8),
    "kernel": Prior(math.log(2e-5), 0.8),
    "cache": Prior(0.0, 0.7),
    "contention/compute": Prior(math.log(0.03), 0.7),
    "contention/memory": Prior(math.log(0.3), 0.7),
}
_OF_A_CLASS, _OF_TRAINING = Prior(0.0, 0.5), Prior(0.0, 0.3)
# Kinds of operations that count as pooling, since no CPU's rows distinguish them.
_RESAMPLED = {"upsample": "pool", "fold": "pool"}
# Last-level cache that cores of one die share: 32 MiB on the measured CPU.
_CACHE_BYTES = 32 * 2.0**20
# Wider units count with half of the logarithm of their width: clocks fall, memory does not keep pace,
# and no such core was measured. Narrower units count in full. The priors are wide enough for no effect
# and for more than the full one, as is that of a CPU whose width is unknown.
_WIDER, _NARROWER = Prior(0.5, 0.5), Prior(1.0, 0.5)
_UNKNOWN_WIDTH = Prior(0.0, 0.35)
# The error left when one of timm's two CPUs is predicted from the other, and the additional error at
# 14 of their cores: docs/internals/processors.md.
_OF_ANOTHER_CPU, _OF_A_DOUBLING = Prior(0.0, 0.24), Prior(0.0, 0.20)
_LARGEST_MEASURED_CORES = 2.0
# SGD with momentum reads weight, gradient and momentum and writes weight and momentum, in fp32.
_BYTES, _OPTIMIZER_BYTES = 4.0, 20.0
# Keeps an operation without bytes from dividing by zero.
_SHORTEST_SECONDS = 1e-12

# Indices of the parameters of one row, with their coefficients.
_Terms = list[tuple[int, float]]


class CpuConditions(Struct, frozen=True):
    """The conditions of a step on a CPU, in fp32.

    `cpu` is the CPU's name, "" for the kind that was measured. `cores` counts physical cores. `speed` of a
    core and `width` of its arithmetic units are relative to the measured CPU (`width` None: unknown)."""

    task: str
    cpu: str = ""
    cores: float = 1.0
    speed: float = 1.0
    width: float | None = 1.0


class _Work(Struct, frozen=True):
    """The operations (k) of a network's step: FLOPs and bytes per sample, bytes per batch, how often each
    runs; and the coefficients of the parameters, (k, p) in rates and (1, p) in the time to start a kernel."""

    rows: Integers
    flops: Floats
    sample_bytes: Floats
    fixed_bytes: Floats
    count: Floats
    compute_by: Floats
    memory_by: Floats
    kernel_by: Floats


class CpuSteps(Struct, frozen=True):
    """`count` steps as columns (n,), and the operations of each network among them (`work`). `width_by` and
    `offset_by` (n, p) are the coefficients of the parameters in unit width and in the log of a whole step."""

    count: int
    work: tuple[_Work, ...]
    batch: Floats
    cores: Floats
    speed: Floats
    width_by: Floats
    offset_by: Floats
    common: Mapping[str, int]

    def log_seconds(self, theta: Floats) -> Floats:
        """Log of each step's seconds, shape (count,)."""
        return self.linearised(theta)[0]

    def linearised(self, theta: Floats) -> tuple[Floats, Floats]:
        """Log seconds (count,), and their derivatives by every parameter, shape (count, parameters)."""
        size = self.offset_by.shape[1]
        existing = theta[:size]
        arithmetic_cores, lost = _useful_cores(self.cores, theta[self.common["contention/compute"]])
        memory_cores, starved = _useful_cores(self.cores, theta[self.common["contention/memory"]])
        gain = float(np.exp(theta[self.common["cache"]]))
        width = np.exp(self.width_by @ existing)
        log, slopes = np.empty(self.count), np.zeros((self.count, len(theta)))
        for work in self.work:
            rows = work.rows
            batch, cores = self.batch[rows, None], arithmetic_cores[rows, None]
            moved = batch * work.sample_bytes + work.fixed_bytes
            cached = gain * cores / (1 + moved / _CACHE_BYTES)
            feeding = memory_cores[rows, None] + cached
            compute = batch * work.flops / (np.exp(work.compute_by @ existing) * cores * width[rows, None])
            memory = moved / (np.exp(work.memory_by @ existing) * feeding) + _SHORTEST_SECONDS
            fourths = fourth(compute), fourth(memory)
            joined = np.sqrt(np.sqrt(fourths[0] + fourths[1]))
            each = np.exp(work.kernel_by @ existing)
            starting = each * work.count.sum() / np.minimum(1.0, self.cores[rows])
            seconds = joined @ work.count + starting
            log[rows] = np.log(seconds)
            share = work.count / (joined * joined * joined * seconds[:, None])
            by_compute, by_memory = share * fourths[0], share * fourths[1]
            table = np.zeros((len(rows), len(theta)))
            table[:, :size] = (starting / seconds)[:, None] * work.kernel_by
            table[:, :size] -= by_compute @ work.compute_by + by_memory @ work.memory_by
            arithmetic = by_compute.sum(axis=1)
            table[:, :size] -= arithmetic[:, None] * self.width_by[rows]
            from_cache = (by_memory * cached / feeding).sum(axis=1)
            from_memory = by_memory.sum(axis=1) - from_cache
            table[:, self.common["cache"]] -= from_cache
            table[:, self.common["contention/compute"]] += (arithmetic + from_cache) * lost[rows]
            table[:, self.common["contention/memory"]] += from_memory * starved[rows]
            slopes[rows] = table
        slopes[:, :size] += self.offset_by
        return log + self.offset_by @ existing - np.log(self.speed), slopes


def steps_of(steps: Sequence[Step], parameters: Parameters) -> CpuSteps:
    """The steps as columns; adds the parameters that they need to `parameters`."""
    common = {name: parameters.of(name, prior) for name, prior in _COMMON.items()}
    how: list[CpuConditions] = [step.conditions for step in steps]
    members: dict[tuple[int, str], list[int]] = {}
    for row, (step, entry) in enumerate(zip(steps, how, strict=True)):
        members.setdefault((id(step.operations), entry.task), []).append(row)
    terms = [_terms(steps[rows[0]], how[rows[0]].task, parameters) for rows in members.values()]
    widths, offsets = zip(*(_step_terms(entry, parameters) for entry in how), strict=True)
    size = len(parameters.priors)
    work = [
        _Work(np.array(rows, dtype=np.intp), *columns, *(_coefficients(entry, size) for entry in result))
        for rows, (columns, result) in zip(members.values(), terms, strict=True)
    ]
    return CpuSteps(
        len(steps),
        tuple(work),
        np.array([step.batch_size for step in steps]),
        np.array([conditions.cores for conditions in how]),
        np.array([conditions.speed for conditions in how]),
        _coefficients(widths, size),
        _coefficients(offsets, size),
        common,
    )


def _terms(step: Step, task: str, parameters: Parameters) -> tuple[list[Floats], tuple[list[_Terms], ...]]:
    """Columns of a step's operations, and the parameters of their arithmetic, memory and kernel starts."""
    rows = np.asarray(step.operations)
    rows = rows[rows["kind"] != KINDS.index("cast")]
    flops, sample, fixed, count = (
        rows[name].astype(float) for name in ("flops", "sample_elements", "fixed_elements", "count")
    )
    kinds = [*(_RESAMPLED.get(KINDS[kind], KINDS[kind]) for kind in rows["kind"].tolist()), "elementwise"]
    is_training = task == "training"
    updated = _OPTIMIZER_BYTES * step.parameters if is_training else 0.0
    columns = [
        np.append(flops, 0.0),
        np.append(_BYTES * sample, 0.0),
        np.append(_BYTES * fixed, updated),
        np.append(count, 1.0),
    ]

    def terms(part: str, kind: str = "") -> _Terms:
        result = [(parameters.of(part, _COMMON[part]), 1.0)]
        if kind:
            result.append((parameters.of(f"{part}/{kind}", _OF_A_CLASS), 1.0))
        if is_training:
            result.append((parameters.of(f"{part}/training", _OF_TRAINING), 1.0))
        return result

    return columns, (
        [terms("compute", kind) if entry > 0 else [] for kind, entry in zip(kinds, columns[0], strict=True)],
        [terms("memory", kind) for kind in kinds],
        [terms("kernel")],
    )


def _step_terms(how: CpuConditions, parameters: Parameters) -> tuple[_Terms, _Terms]:
    """The parameters that apply to a step: those of its unit width, and those of the whole step."""
    wide = math.log(how.width or 1.0)
    doublings = math.log2(max(how.cores, _LARGEST_MEASURED_CORES) / _LARGEST_MEASURED_CORES)

    def terms(*named: tuple[str, Prior, float]) -> _Terms:
        return [(parameters.of(name, prior), by) for name, prior, by in named if by]

    return terms(
        ("width/wider", _WIDER, max(wide, 0.0)),
        ("width/narrower", _NARROWER, min(wide, 0.0)),
        ("width/unknown", _UNKNOWN_WIDTH, float(how.width is None)),
    ), terms((f"cpu/{how.cpu}", _OF_ANOTHER_CPU, float(how.cpu != "")), ("cores", _OF_A_DOUBLING, doublings))


def _coefficients(terms: Sequence[_Terms], size: int) -> Floats:
    """The coefficient of each parameter in each row, (rows, size)."""
    matrix = np.zeros((len(terms), size))
    for row, term in enumerate(terms):
        for column, by in term:
            matrix[row, column] = by
    return matrix


def _useful_cores(cores: Floats, log_contention: float) -> tuple[Floats, Floats]:
    """The number of useful cores (n,), and minus the derivative of its log by the log of contention."""
    lost = math.exp(log_contention) * np.maximum(cores - 1, 0.0)
    return cores / (1 + lost), lost / (1 + lost)


# fp32 operations per core and cycle, from the makers' descriptions of their cores (2 x fused
# multiply-add units x lanes): AVX is 16 (one multiplier and one adder of 8 lanes), AVX2 32, AVX-512
# 64 with two units of 16 lanes; Zen 4 splits AVX-512 over units of 8 lanes; Arm Neon has 4 lanes a
# unit: N1 two units, V1, V2 and V3 as much as four.
_FLOPS_PER_CYCLE: tuple[tuple[str, int], ...] = (
    (r"Xeon.* E[57]-\d+( 0)?$", 16),
    (r"Xeon.* E[57]-\d+ ?v2", 16),
    (r"Xeon.* E[357]-\d+\w? ?v[34]", 32),
    (r"Xeon.* (Platinum|Gold|6\d{3}P)", 64),
    (r"EPYC 7\w\w1\b", 16),
    (r"EPYC (7|9\w\w4)", 32),
    (r"EPYC 9\w\w5", 64),
    (r"Cortex-A72", 8),
    (r"Neoverse-N1", 16),
    (r"Neoverse-V", 32),
)
# AMD's measured core (Zen 4).
REFERENCE_FLOPS_PER_CYCLE = 32


@cache
def relative_width(model: str) -> float:
    """The width of a CPU model's vector units, relative to the measured CPU's; nan for an unknown model."""
    width = next((n for pattern, n in _FLOPS_PER_CYCLE if re.search(pattern, model)), math.nan)
    return width / REFERENCE_FLOPS_PER_CYCLE
