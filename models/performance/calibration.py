"""Held-out residuals of the GPU part: by GPU, by architecture and by family of networks.

Rows of one GPU, or of one family, are far more alike than rows of two, so whole GPUs and
families are held out, and each counts alike in the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from models.performance.accelerator import step_logs, step_times
from models.performance.datasheet.known_networks import (
    KnownNetworks,
    fit_known_networks,
    published_rate,
)
from models.performance.fit_accelerator import fit_accelerator
from models.performance.gpu_rates import family
from models.performance.networks import Floats, NetworkTable
from models.performance.published import PublishedRow
from models.performance.step_work import chip, step_work

# A row whose step is this much the host's launching tells more of the host than of the GPU.
_LAUNCH_BOUND = 0.5
_PER_GROUP, _PER_POOL = 32, 256
Key = Callable[[PublishedRow], str]


def held_out(rows: Sequence[PublishedRow], networks: NetworkTable) -> dict[str, dict[str, Floats]]:
    """Residuals of PyTorch rows by distance and by what was held out."""
    telling = gpu_bound(rows, networks)
    return {
        "network": _leave_out(rows, telling, networks, lambda row: family(row.network)),
        "gpu/other-stack": _leave_out(
            rows, telling, networks, _chip_under_pytorch, _is_in_other_stack(rows)
        ),
        "gpu/architecture": _leave_out(
            rows, telling, networks, lambda row: chip(row.gpu.name), _has_sibling(rows)
        ),
        "gpu/new": _leave_out(rows, telling, networks, lambda row: str(row.gpu.compute_capability)),
        "cell": _batch_transfer(rows, networks),
    }


def pooled(residuals: Mapping[str, Mapping[str, Floats]]) -> dict[str, Floats]:
    """Sorted residuals by distance, each GPU or family thinned to the same weight."""
    return {
        kind: thinned(
            np.sort(np.concatenate([np.empty(0), *map(thinned, groups.values())])), _PER_POOL
        )
        for kind, groups in residuals.items()
    }


def gpu_bound(
    rows: Sequence[PublishedRow], networks: NetworkTable, *, alike: bool = False
) -> list[PublishedRow]:
    """PyTorch rows that the GPU bounds, not the host that launches its kernels; `alike` as in
    `fit_accelerator`."""
    parameters = fit_accelerator(rows, networks, alike=alike)
    return [
        row
        for row in rows
        if row.is_pytorch and _launch_share(row, parameters, networks) < _LAUNCH_BOUND
    ]


def residuals_of(
    rows: Iterable[PublishedRow], parameters: Mapping[str, float], networks: NetworkTable
) -> Floats:
    """log(observed rate / predicted rate) of each row, the stack's conventions included."""
    return np.array([_residual(row, parameters, networks) for row in rows])


def _residual(row: PublishedRow, parameters: Mapping[str, float], networks: NetworkTable) -> float:
    work = step_work(networks[row.network], row.task, row.precision, row.gpu, row.stack)
    logs = step_logs(work, parameters)
    seconds = step_times(work, np.array([float(row.batch_size)]), logs).seconds[0]
    return float(np.log(seconds / row.step_seconds))


def _launch_share(
    row: PublishedRow, parameters: Mapping[str, float], networks: NetworkTable
) -> float:
    work = step_work(networks[row.network], row.task, row.precision, row.gpu, row.stack)
    times = step_times(work, np.array([float(row.batch_size)]), step_logs(work, parameters))
    return float(times.launch_share[0])


def _leave_out(
    rows: Sequence[PublishedRow],
    telling: Sequence[PublishedRow],
    networks: NetworkTable,
    key: Key,
    wanted: Callable[[str], bool] = bool,
) -> dict[str, Floats]:
    """For each key of the telling rows: fit without all its rows, then score its own."""
    found = {}
    for name in sorted({key(row) for row in telling} - {""}):
        if wanted(name):
            kept = [row for row in rows if key(row) != name]
            parameters, known = fit_accelerator(kept, networks), fit_known_networks(kept)
            own = [row for row in telling if key(row) == name]
            found[name] = _of_both_forms(own, residuals_of(own, parameters, networks), known)
    return found


def _of_both_forms(
    rows: Sequence[PublishedRow], of_roofline: Floats, known: KnownNetworks
) -> Floats:
    """Residuals of what is predicted: the mean of both forms where both can tell."""
    residuals = of_roofline.copy()
    for i, row in enumerate(rows):
        told = known.step_seconds(published_rate(row), np.array([float(row.batch_size)]))
        if told is not None:
            residuals[i] = (of_roofline[i] + np.log(told[0] / row.step_seconds)) / 2
    return residuals


def _chip_under_pytorch(row: PublishedRow) -> str:
    return chip(row.gpu.name) if row.is_pytorch else ""


def _is_in_other_stack(rows: Sequence[PublishedRow]) -> Callable[[str], bool]:
    """Whether a chip remains known when its PyTorch rows are left out."""
    chips = {chip(row.gpu.name) for row in rows if row.is_eager and not row.is_pytorch}
    return lambda name: name in chips


def _has_sibling(rows: Sequence[PublishedRow]) -> Callable[[str], bool]:
    """Whether a chip's architecture remains known when the chip is left out."""
    chips: dict[str | None, set[str]] = {}
    for row in filter(attrgetter("is_eager"), rows):
        chips.setdefault(row.gpu.compute_capability, set()).add(chip(row.gpu.name))
    return lambda name: any(name in members and len(members) > 1 for members in chips.values())


def _batch_transfer(rows: Sequence[PublishedRow], networks: NetworkTable) -> dict[str, Floats]:
    """How well one batch size of a cell, with the model's curve, tells the cell's others."""
    parameters = fit_accelerator(rows, networks)
    cells: dict[str, list[PublishedRow]] = {}
    for row in rows:
        name = f"{row.stack.name}/{row.gpu.name}/{row.network}/{row.task}/{row.precision}"
        if row.batch_size >= 8:
            cells.setdefault(name, []).append(row)
    return {
        name: _spread(residuals_of(members, parameters, networks))
        for name, members in cells.items()
        if len(members) > 1
    }


def _spread(residuals: Floats) -> Floats:
    """Differences of each row to each other row of its cell."""
    differences = residuals[:, None] - residuals[None, :]
    return differences[~np.eye(len(residuals), dtype=bool)]


def thinned(values: Floats, most: int = _PER_GROUP) -> Floats:
    """At most that many evenly spaced quantiles that stand for all values."""
    if len(values) <= most:
        return values
    return np.quantile(values, (np.arange(most) + 0.5) / most)
