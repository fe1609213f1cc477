"""The specs that nothing beats in both: less money an hour, and more samples at the lower bound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from advisor.domain import Candidate
from advisor.engine.limits import answering, completed, good_batches
from advisor.engine.table import Table, best_of_each
from advisor.questions.network import NetworkQuestion

if TYPE_CHECKING:
    from advisor.engine.model import Integers


# Nobody takes a spec of less than a fiftieth of the cheapest one's rate; nor instead of the recommended
# one a spec of less than a twentieth of its rate, or whose samples cost more than five times as much.
LEAST_SHARE, LEAST_OF_FRONT, MOST_TIMES = 0.02, 0.05, 5.0


def pareto_rows(table: Table, rows: Integers) -> Integers:
    """Of some rows those than which no other is as cheap and faster, or as fast and cheaper;
    cheapest first. Of equal ones the first by name, then by the smaller batch."""
    _, by_name = np.unique(table.names.astype(str), return_inverse=True)
    lower = table.lower[rows]
    keys = table.batch[rows], by_name.reshape(-1)[table.kind[rows]], -lower, table.usd[rows]
    order = np.lexsort(keys)
    before = np.concatenate([[-np.inf], np.maximum.accumulate(lower[order])])[: len(order)]
    return rows[order[lower[order] > before]]


def specs_of(request: NetworkQuestion, table: Table) -> list[Candidate]:
    """Every spec of a table that answers, at its smallest good batch."""
    table = completed(request, table)
    good = np.flatnonzero(answering(request, table))
    if not len(good):
        return []
    chosen = good[best_of_each(table.spec[good], table.batch[good])]
    return table.candidates(good_batches(table, good, chosen).tolist(), request)


def pareto_front(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The same of records."""
    front: list[Candidate] = []
    for candidate in sorted(candidates, key=_order):
        if not front or candidate.prediction.lower > front[-1].prediction.lower:
            front.append(candidate)
    return tuple(front)


def worth_taking(front: tuple[Candidate, ...], chosen: Candidate | None) -> tuple[Candidate, ...]:
    """Of a front what somebody may take instead of the chosen spec, with that itself, by price."""
    if chosen is None or not front:
        return front
    spec, lower = chosen.spec, chosen.prediction.lower
    same = spec.offer, spec.count, spec.disk.choice
    near = [
        candidate
        for candidate in front
        if candidate.prediction.lower >= LEAST_OF_FRONT * lower
        and candidate.usd_per_million_samples <= MOST_TIMES * chosen.usd_per_million_samples
        and (candidate.spec.offer, candidate.spec.count, candidate.spec.disk.choice) != same
    ]
    return tuple(sorted([*near, chosen], key=_order))


def _order(candidate: Candidate) -> tuple[float, float, str, int]:
    spec = candidate.spec
    return (
        spec.total_usd_per_hour,
        -candidate.prediction.lower,
        spec.offer.instance.name,
        candidate.workload.batch_size,
    )
