"""Makes the GPU part of a model from published step times: parameters, anchors, residuals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from advisor.domain import Precision, Provenance, Workload
from models.performance.anchoring.calibration import held_out_ratios
from models.performance.calibration import gpu_bound, held_out, pooled, residuals_of
from models.performance.datasheet.known_networks import fit_known_networks
from models.performance.evaluation import summary
from models.performance.fit_accelerator import fit_accelerator
from models.performance.gpu_rates import Anchor, GpuRates, cell_name, network_key
from models.performance.networks import Floats, NetworkTable
from models.performance.published import PublishedRow
from models.performance.step_work import HALF, chip

# Parameters that only explain how a source measured; predictions never name them.
_OF_SOURCES = ("stack/", "host/", "launch/")
_OF_PREDICTIONS = ("launch/training", "launch/inference", "launch/network/")
_NOTHING = 1e-4


def fit_gpu_rates(
    rows: Sequence[PublishedRow], networks: NetworkTable, offered: Collection[str]
) -> tuple[GpuRates, dict[str, float]]:
    """Fit on all rows, with residuals of fits that held rows out (takes ten minutes).

    Also gives the mean absolute percentage error by distance, each GPU or family counting
    alike. Cells of `offered` networks are kept as anchors.
    """
    ratios, _ = held_out_ratios(rows, gpu_bound(rows, networks, alike=True), networks)
    residuals = {**held_out(rows, networks), **ratios}
    errors = {kind: summary(groups)["mean_percent"] for kind, groups in residuals.items()}
    whole = _gpu_rates(rows, networks, residuals)
    anchors = {n: a for n, a in whole.anchors.items() if n.split("/")[0] in offered}
    known = whole.known_networks.only(offered)
    return replace(whole, anchors=anchors, known_networks=known), errors


def _gpu_rates(
    rows: Sequence[PublishedRow],
    networks: NetworkTable,
    residuals: Mapping[str, Mapping[str, Floats]],
) -> GpuRates:
    parameters = fit_accelerator(rows, networks)
    pytorch = [row for row in rows if row.is_pytorch]
    eager = [row for row in rows if row.is_eager]
    return GpuRates(
        parameters=_predictive(parameters),
        ratio_parameters=ratio_parameters(rows, networks),
        known_networks=fit_known_networks(rows),
        anchors=_anchors(pytorch, parameters, networks),
        residuals={
            kind: tuple(np.round(values, 3).tolist()) for kind, values in pooled(residuals).items()
        },
        chips=frozenset(chip(row.gpu.name) for row in pytorch),
        other_chips=frozenset(chip(row.gpu.name) for row in eager if not row.is_pytorch),
        capabilities=frozenset(str(row.gpu.compute_capability) for row in eager),
        networks=frozenset(network_key(row.network, row.task) for row in pytorch),
    )


def ratio_parameters(rows: Sequence[PublishedRow], networks: NetworkTable) -> dict[str, float]:
    """What tells how GPUs compare for a network that nobody measured."""
    return _predictive(fit_accelerator(rows, networks, alike=True))


def _predictive(parameters: Mapping[str, float]) -> dict[str, float]:
    """Without what belongs to sources and what the prior left at nothing."""
    return {
        name: value
        for name, value in parameters.items()
        if abs(value) > _NOTHING
        and (not name.startswith(_OF_SOURCES) or name.startswith(_OF_PREDICTIONS))
    }


def _anchors(
    rows: Sequence[PublishedRow], parameters: Mapping[str, float], networks: NetworkTable
) -> dict[str, Anchor]:
    """Cells measured with PyTorch as predictions mean it: not wholly in fp16.

    What the source's host and copying add is taken off by the model, what remains is the
    cell's own; several rows count by their median.
    """
    without_source = {n: v for n, v in parameters.items() if not n.startswith(("stack/", "host/"))}
    cells: dict[str, list[PublishedRow]] = {}
    for row in rows:
        if row.precision != HALF:
            cells.setdefault(_cell_name(row), []).append(row)
    return {
        name: Anchor(
            log_ratio=round(float(np.median(-residuals_of(members, without_source, networks))), 4),
            memory_gb_per_second=members[0].gpu.memory_gb_per_second,
            provenance=Provenance.PUBLISHED,
            source=members[0].stack.name,
        )
        for name, members in cells.items()
    }


def _cell_name(row: PublishedRow) -> str:
    workload = Workload(
        network=row.network,
        task=row.task,
        batch_size=row.batch_size,
        precision=Precision(row.precision),
    )
    return cell_name(workload, row.gpu)
