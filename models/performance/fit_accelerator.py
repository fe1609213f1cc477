"""Fits the accelerator's parameters on published step times.

A maximum a posteriori fit: every named parameter has a Gaussian prior, which is what a GPU,
network or software stack never seen falls back to; a soft-L1 loss keeps single wrong rows of
public sources from bending the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.performance.accelerator import KERNEL, StepLogs, StepTimes, step_times
from models.performance.networks import Floats, NetworkTable
from models.performance.published import PublishedRow
from models.performance.step_work import StepWork, step_work

# Scatter of public step times around a good model; residuals are counted in it.
_ROW_SIGMA = 0.08
_MOST_STEPS, _TOLERANCE = 60, 1e-5
_NOTHING = 1e-6
# (start of the name, mean, standard deviation); the first that fits counts.
_PRIORS: tuple[tuple[str, float, float], ...] = (
    ("compute/network/", 0.0, 0.2),
    ("memory/network/", 0.0, 0.2),
    ("launch/network/", 0.0, 0.2),
    ("compute/conv_depthwise/", math.log(0.15), 0.8),
    ("compute/conv_grouped/", math.log(0.3), 0.6),
    ("compute/linear/", math.log(0.6), 0.4),
    ("compute/architecture/", 0.0, 0.12),
    ("compute/training/", 0.0, 0.2),
    ("compute/inference/", 0.0, 1e-6),
    ("compute/tf32", 0.0, 0.25),
    ("compute/none", 0.0, 1e-6),
    ("compute/elementwise", 0.0, 1e-6),
    ("compute/norm", 0.0, 1e-6),
    ("compute/pool", 0.0, 1e-6),
    ("compute/", math.log(0.6), 0.4),
    ("memory/architecture/", 0.0, 0.12),
    ("memory/16-bit/True", 0.0, 0.2),
    ("memory/16-bit/False", 0.0, 1e-6),
    ("memory/training", 0.0, 0.2),
    ("memory/inference", 0.0, 1e-6),
    ("memory/", math.log(0.7), 0.3),
    ("kernel_seconds", math.log(4e-6), 0.25),
    ("launch_seconds", math.log(20e-6), 0.3),
    ("launch/training", 0.0, 0.3),
    ("launch/inference", 0.0, 1e-6),
    ("launch/", 0.0, 0.4),
    ("task/training", 0.0, 0.3),
    ("task/inference", 0.0, 1e-6),
    ("host//", 0.0, 1e-6),
    ("host/", 0.0, 0.12),
    ("gpu/", 0.0, 0.12),
    ("stack/pytorch-2020", 0.0, 0.06),
    ("stack/pytorch", 0.0, 0.08),
    ("stack//", 0.0, 1e-6),
    ("stack/tensorrt-int8", 0.0, 0.5),
    ("stack/", 0.0, 0.3),
    ("network/", 0.0, 0.08),
    ("precision/fp32", 0.0, 1e-6),
    ("precision/", 0.0, 0.1),
)


# Effects of one network on its own kernels, which nobody can know of a network never measured.
_OF_NETWORKS = ("compute/network/", "memory/network/", "launch/network/")


def fit_accelerator(
    rows: Sequence[PublishedRow], networks: NetworkTable, *, alike: bool = False
) -> dict[str, float]:
    """Parameters by name. Raises ValueError without rows.

    `alike`: all networks are as efficient in each class of operations, so that what differs
    between them teaches the classes. It tells ratios of GPUs better for networks left out.
    """
    from scipy.optimize import least_squares

    if not rows:
        raise ValueError("no published rows to fit the accelerator on")
    cells, names = _cells(rows, networks)
    means, sigmas = (np.array(column) for column in zip(*map(prior, names), strict=True))
    if alike:
        sigmas[[name.startswith(_OF_NETWORKS) for name in names]] = _NOTHING
    problem = _Problem(cells, means, sigmas)
    result = least_squares(
        problem.residuals,
        np.zeros(len(names)),
        jac=problem.jacobian,
        loss=_robust(len(rows)),
        max_nfev=_MOST_STEPS,
        tr_solver="lsmr",
        **dict.fromkeys(("ftol", "xtol", "gtol"), _TOLERANCE),
    )
    fitted = means + sigmas * result.x
    return {name: round(float(value), 5) for name, value in zip(names, fitted, strict=True)}


def prior(name: str) -> tuple[float, float]:
    """Mean and standard deviation of a parameter before any row is seen."""
    for start, mean, sigma in _PRIORS:
        if name.startswith(start):
            return mean, sigma
    raise KeyError(f"no prior for the parameter {name}")


@dataclass(frozen=True, slots=True)
class _Cell:
    """Rows that differ in nothing but batch size and repeat.

    `logs_of` maps the whole parameter vector to the cell's logs: one row an operation's
    compute, one an operation's memory, then offset, launch and kernel.
    """

    work: StepWork
    batch_sizes: Floats
    log_seconds: Floats
    weights: Floats
    columns: NDArray[np.intp]
    design: Floats

    def times(self, values: Floats) -> StepTimes:
        logs = self.design @ values[self.columns]
        n = len(self.work.count)
        return step_times(
            self.work,
            self.batch_sizes,
            StepLogs(logs[:n], logs[n : 2 * n], logs[-3], logs[-2], logs[-1]),
        )

    def residuals(self, values: Floats) -> Floats:
        residuals: Floats = np.log(self.times(values).seconds) - self.log_seconds
        return residuals * self.weights

    def add_derivatives(self, values: Floats, block: Floats) -> None:
        times = self.times(values)
        rest = (times.gpu_share, times.launch_share, times.kernel_share)
        shares = np.hstack([-times.compute_share, -times.memory_share, np.column_stack(rest)])
        block[:, self.columns] = (shares @ self.design) * self.weights[:, None]


def _cells(
    rows: Sequence[PublishedRow], networks: NetworkTable
) -> tuple[list[_Cell], tuple[str, ...]]:
    grouped: dict[tuple[object, ...], list[PublishedRow]] = {}
    for row in rows:
        key = (row.stack, row.gpu.name, row.network, row.task, row.precision)
        grouped.setdefault(key, []).append(row)
    works = [_work(members[0], networks) for members in grouped.values()]
    index = {name: i for i, name in enumerate(sorted({n for w in works for n in _names(w)}))}
    cells = [_cell(m, w, index) for m, w in zip(grouped.values(), works, strict=True)]
    return cells, tuple(index)


def _work(row: PublishedRow, networks: NetworkTable) -> StepWork:
    return step_work(networks[row.network], row.task, row.precision, row.gpu, row.stack)


def _cell(rows: list[PublishedRow], work: StepWork, index: Mapping[str, int]) -> _Cell:
    """Repeats at one batch size share the weight of one row, many batch sizes that of three."""
    batches = np.array([row.batch_size for row in rows], dtype=float)
    repeats = np.array([(batches == batch).sum() for batch in batches], dtype=float)
    crowd = max(1.0, len(set(batches)) / 3)
    names = sorted(set(_names(work)))
    return _Cell(
        work=work,
        batch_sizes=batches,
        log_seconds=np.log([row.step_seconds for row in rows]),
        weights=1 / (_ROW_SIGMA * np.sqrt(repeats * crowd)),
        columns=np.array([index[name] for name in names]),
        design=_design(work, {name: i for i, name in enumerate(names)}),
    )


def _design(work: StepWork, index: Mapping[str, int]) -> Floats:
    """Which parameters count for which log, shape (2 * operations + 3, parameters)."""
    n = len(work.count)
    design = np.zeros((2 * n + 3, len(index)))
    for i, name in enumerate(work.compute_names):
        shared = work.shared_tensor if work.tensor[i] else work.shared_simt
        for each in (name, *shared):
            design[i, index[each]] += 1
    for i, name in enumerate(work.traffic_names):
        for each in (name, *work.shared_traffic):
            design[n + i, index[each]] += 1
    for row, names in ((-3, work.offset_names), (-2, work.launch_names), (-1, (KERNEL,))):
        for name in names:
            design[row, index[name]] += 1
    return design


def _names(work: StepWork) -> Iterable[str]:
    yield from work.compute_names
    yield from work.traffic_names
    for group in (work.shared_simt, work.shared_tensor, work.shared_traffic):
        yield from group
    yield from (*work.offset_names, *work.launch_names, KERNEL)


@dataclass(slots=True)
class _Problem:
    """Residuals and derivatives in units of the priors: data rows first, then the priors."""

    cells: list[_Cell]
    means: Floats
    sigmas: Floats

    def residuals(self, units: Floats) -> Floats:
        values = self.means + self.sigmas * units
        return np.concatenate([*(cell.residuals(values) for cell in self.cells), units])

    def jacobian(self, units: Floats) -> Floats:
        values = self.means + self.sigmas * units
        count = sum(len(cell.batch_sizes) for cell in self.cells)
        whole = np.zeros((count + len(units), len(units)))
        start = 0
        for cell in self.cells:
            stop = start + len(cell.batch_sizes)
            cell.add_derivatives(values, whole[start:stop])
            start = stop
        whole[:count] *= self.sigmas
        whole[count:] = np.eye(len(units))
        return whole


def _robust(count: int) -> object:
    """Soft-L1 for the first `count` residuals, squares for the priors after them."""

    def loss(squares: Floats) -> Floats:
        root = np.sqrt(1 + squares[:count] / 4)
        rho = np.vstack([squares, np.ones_like(squares), np.zeros_like(squares)])
        rho[0, :count] = 8 * (root - 1)
        rho[1, :count] = 1 / root
        rho[2, :count] = -0.125 / root**3
        return rho

    return loss
