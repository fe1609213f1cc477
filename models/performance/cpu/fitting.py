"""Fits what a core reaches on measured steps, and says how wrong it is about networks left out.

A maximum a posteriori fit of the logarithms with Gaussian priors and the soft-L1 loss, as for GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from models.performance.cpu.form import ARITHMETIC, Form, cpu_work, own_names, step_seconds
from models.performance.cpu.records import CpuRow
from models.performance.machines import useful_cores
from models.performance.networks import OPERATION_CLASSES, Floats, NetworkTable

# Scatter of a row on a machine that others use too; residuals are counted in it.
_ROW_SIGMA = 0.10
# name: (mean, standard deviation) of the logarithm, of one core of a server of 2020 or later.
_PRIORS: dict[str, tuple[float, float]] = {
    "compute": (float(np.log(60e9)), 0.8),
    "memory": (float(np.log(8e9)), 0.8),
    "kernel": (float(np.log(2e-5)), 0.8),
    "scaling/compute": (float(np.log(0.03)), 0.7),
    "scaling/memory": (float(np.log(0.3)), 0.7),
}
_CLASS_SIGMA, _TASK_SIGMA, _NETWORK_SIGMA = 0.5, 0.3, 0.15


def fit_parameters(rows: Sequence[CpuRow], table: NetworkTable, form: Form) -> dict[str, float]:
    """Parameters by name, natural logarithms; `ValueError` without rows."""
    from scipy.optimize import least_squares

    if not rows:
        raise ValueError("no step of a network on a CPU to learn from")
    priors = _priors(rows)
    names = list(priors)
    means, sigmas = (np.array(column) for column in zip(*priors.values(), strict=True))
    predict = _predictor(rows, table, form)
    observed = np.log([row.seconds for row in rows])

    def residuals(units: Floats) -> Floats:
        parameters = dict(zip(names, (means + sigmas * units).tolist(), strict=True))
        off = (observed - predict(parameters)) / _ROW_SIGMA
        soft = np.sign(off) * np.sqrt(8 * (np.sqrt(1 + off**2 / 4) - 1))
        return np.concatenate([soft, units])

    result = least_squares(residuals, np.zeros(len(means)), max_nfev=40)
    values = np.round(means + sigmas * result.x, 6).tolist()
    return dict(zip(names, values, strict=True))


def log_residuals(
    rows: Sequence[CpuRow], parameters: dict[str, float], table: NetworkTable, form: Form
) -> Floats:
    """log(observed rate / predicted rate) of each row, shape (n,)."""
    observed = np.log([row.seconds for row in rows])
    residuals: Floats = _predictor(rows, table, form)(parameters) - observed
    return residuals


def held_out_families(rows: Sequence[CpuRow], table: NetworkTable, form: Form) -> Floats:
    """Residuals (n,) of each row under the fit without its family of networks."""
    return _held_out(rows, table, form, lambda row: table[row.network].family)


def held_out_batches(rows: Sequence[CpuRow], table: NetworkTable, form: Form) -> Floats:
    """Residuals (n,) of each row under the fit without its batch size of its network and task."""
    sizes = sorted({row.batch_size for row in rows})

    def fold(row: CpuRow) -> str:
        # One batch size of each network at a time, another one for its neighbours in the list.
        at = sum(map(ord, row.network)) + sizes.index(row.batch_size)
        return str(at % len(sizes))

    return _held_out(rows, table, form, fold)


def _held_out(
    rows: Sequence[CpuRow], table: NetworkTable, form: Form, group_of: Callable[[CpuRow], str]
) -> Floats:
    groups = np.array([group_of(row) for row in rows])
    found = np.empty(len(rows))
    for group in sorted(set(groups)):
        out = groups == group
        rest = [row for row, held in zip(rows, out, strict=True) if not held]
        asked = [row for row, held in zip(rows, out, strict=True) if held]
        found[out] = log_residuals(asked, fit_parameters(rest, table, form), table, form)
    return found


def _priors(rows: Iterable[CpuRow]) -> dict[str, tuple[float, float]]:
    priors = dict(_PRIORS)
    for kind in OPERATION_CLASSES:
        if kind in ARITHMETIC:
            priors[f"compute/{kind}"] = (0.0, _CLASS_SIGMA)
        priors[f"memory/{kind}"] = (0.0, _CLASS_SIGMA)
    for part in ("compute", "memory", "kernel"):
        priors[f"{part}/task/training"] = (0.0, _TASK_SIGMA)
    names = sorted({name for row in rows for name in own_names(row.network, row.task)})
    return priors | dict.fromkeys(names, (0.0, _NETWORK_SIGMA))


def _predictor(
    rows: Sequence[CpuRow], table: NetworkTable, form: Form
) -> Callable[[dict[str, float]], Floats]:
    """A function from parameters to log seconds (n,) of the rows."""
    places: dict[tuple[str, object], list[int]] = {}
    for at, row in enumerate(rows):
        places.setdefault((row.network, row.task), []).append(at)
    batches = np.array([row.batch_size for row in rows], dtype=float)
    cores = np.array([row.cores for row in rows], dtype=float)
    groups = [
        (np.array(at), cpu_work(table[rows[at[0]].network], rows[at[0]].task))
        for at in places.values()
    ]

    def predict(parameters: dict[str, float]) -> Floats:
        compute = useful_cores(cores, float(np.exp(parameters["scaling/compute"])), 0.0)
        memory = useful_cores(cores, float(np.exp(parameters["scaling/memory"])), 0.0)
        seconds = np.empty(len(rows))
        for at, work in groups:
            seconds[at] = step_seconds(
                work, batches[at], parameters, form,
                compute_cores=compute[at], memory_cores=memory[at],
            )  # fmt: skip
        return np.log(seconds)

    return predict
