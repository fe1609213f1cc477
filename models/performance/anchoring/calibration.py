"""Held-out ratios: how far an anchor on one GPU is off on another, by what was not known.

Both steps of a ratio are rows of one source, stack, network, task, precision and batch size. For
`anchored/gpu` and `anchored/unknown` the family of the network and the target GPU are left out
of the fit, for `anchored/network` the family alone. Each pair of target and family weighs alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from models.performance.anchoring.combining import combine
from models.performance.anchoring.likeness import any_of
from models.performance.anchoring.records import Places, card
from models.performance.anchoring.widths import GPU, NETWORK, UNKNOWN, scale_of
from models.performance.calibration import residuals_of
from models.performance.fit_accelerator import fit_accelerator
from models.performance.gpu_rates import family
from models.performance.networks import Floats, NetworkTable
from models.performance.published import PublishedRow
from models.performance.step_work import chip

ALONE, SEVERAL, SCALED = "without an anchor", "several anchors", "several anchors, scaled"
Parameters = Mapping[str, float]
Fit = Callable[[Sequence[PublishedRow], NetworkTable], Parameters]
# What belongs to a source's host: a user's anchor has a host that nobody measured.
_OF_HOSTS = ("host/", "launch/pytorch")


def fit_alike(rows: Sequence[PublishedRow], networks: NetworkTable) -> Parameters:
    """A roofline without effects of single networks: see `GpuRates.for_ratios`."""
    return fit_accelerator(rows, networks, alike=True)


class Pair(NamedTuple):
    """One network on two GPUs, alike in everything else."""

    anchor: PublishedRow
    target: PublishedRow


def held_out_ratios(
    rows: Sequence[PublishedRow],
    telling: Sequence[PublishedRow],
    networks: NetworkTable,
    fit: Fit = fit_alike,
) -> tuple[dict[str, dict[str, Floats]], dict[str, dict[str, Floats]]]:
    """Residuals by group and by target GPU and family; `telling` are rows that the GPU bounds.

    And, for comparison, with network and GPU left out: of the targets without an anchor (`ALONE`),
    with all other GPUs of their source as anchors (`SEVERAL`), and these divided by how much
    narrower their intervals are than one anchor's (`SCALED`).

    A residual is log(observed rate / predicted rate) at the target. Fits once for each pair of
    a family and a GPU (five minutes for the published rows).
    """
    found: dict[str, dict[str, Floats]] = {NETWORK: {}, GPU: {}, UNKNOWN: {}}
    beside: dict[str, dict[str, Floats]] = {ALONE: {}, SEVERAL: {}, SCALED: {}}
    for name, pairs in sorted(_by_family(pairs_of(telling)).items()):
        left = [row for row in rows if family(row.network) != name]
        without_family = _without_hosts(fit(left, networks))
        for target, some in sorted(_by_target(pairs).items()):
            key = f"{target}/{name}"
            parameters = _without_hosts(
                fit([row for row in left if chip(row.gpu.name) != target], networks)
            )
            found[NETWORK][key] = ratio_residuals(some, without_family, networks)
            found[GPU][key] = ratio_residuals(some, parameters, networks)
            found[UNKNOWN][key] = unknown_residuals(some, parameters, networks)
            beside[ALONE][key] = residuals_of([pair.target for pair in some], parameters, networks)
            several, scales = several_residuals(some, parameters, networks)
            beside[SEVERAL][key], beside[SCALED][key] = several, several / scales
    return found, beside


def pairs_of(rows: Iterable[PublishedRow]) -> Iterator[Pair]:
    """Every row with each of the same work on another chip."""
    alike: dict[tuple[object, ...], list[PublishedRow]] = defaultdict(list)
    for row in rows:
        alike[
            (row.stack.name, row.stack.tf32, row.network, row.task, row.precision, row.batch_size)
        ].append(row)
    for group in alike.values():
        for target in group:
            for anchor in group:
                if chip(anchor.gpu.name) != chip(target.gpu.name):
                    yield Pair(anchor, target)


def ratio_residuals(
    pairs: Sequence[Pair], parameters: Parameters, networks: NetworkTable
) -> Floats:
    """Of targets predicted from their anchors, the network's operations known."""
    targets = residuals_of([pair.target for pair in pairs], parameters, networks)
    return targets - residuals_of([pair.anchor for pair in pairs], parameters, networks)


def several_residuals(
    pairs: Sequence[Pair], parameters: Parameters, networks: NetworkTable
) -> tuple[Floats, Floats]:
    """Of each target with all its anchors together, and the scale of its interval to that of a
    single anchor; rows of one card count once, by their mean."""
    residuals = ratio_residuals(pairs, parameters, networks)
    by_target: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (anchor, target), residual in zip(pairs, residuals.tolist(), strict=True):
        by_target[id(target)][card(anchor.gpu)].append(residual)
    found, scales = [], []
    for cards in by_target.values():
        places = Places(tuple(cards), np.zeros(len(cards)))
        told = combine(places, Places(("",), np.zeros(1)))
        found.append(float(told.weights[0] @ [np.mean(values) for values in cards.values()]))
        scales.append(scale_of(float(told.sigma[0]), same_card=False))
    return np.array(found), np.array(scales)


def unknown_residuals(
    pairs: Sequence[Pair], parameters: Parameters, networks: NetworkTable
) -> Floats:
    """The same where nothing is known of the network: the mean ratio of all other families."""
    ratios: dict[tuple[object, ...], float] = {}
    found = []
    for anchor, target in pairs:
        key = (anchor.gpu.name, target.gpu.name, target.task, target.precision, target.batch_size)
        if key not in ratios:
            ratios[key] = _mean_ratio(anchor, target, parameters, networks)
        found.append(np.log(anchor.step_seconds / target.step_seconds) + ratios[key])
    return np.array(found)


def _mean_ratio(
    anchor: PublishedRow, target: PublishedRow, parameters: Parameters, networks: NetworkTable
) -> float:
    """Log of modelled seconds at the target over those at the anchor, over other networks."""
    others = any_of([n for n in networks.names if family(n) != family(target.network)])
    logs = [
        residuals_of([_of_network(row, name) for name in others.weights], parameters, networks)
        for row in (anchor, target)
    ]
    # log(modelled seconds / row seconds) of each; the rows' own seconds leave again.
    own = np.log(target.step_seconds / anchor.step_seconds)
    return float(others.shares @ (logs[1] - logs[0]) + own)


def _of_network(row: PublishedRow, name: str) -> PublishedRow:
    return replace(row, network=name)


def _without_hosts(parameters: Parameters) -> Parameters:
    return {name: v for name, v in parameters.items() if not name.startswith(_OF_HOSTS)}


def _by_family(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        found[family(pair.target.network)].append(pair)
    return found


def _by_target(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        found[chip(pair.target.gpu.name)].append(pair)
    return found
