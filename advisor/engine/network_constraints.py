"""The constraints of a request about a network, with what each row of its table needs of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from advisor.domain import Request, Task
from advisor.engine.constraints import Amount, Answers, Constraint
from advisor.engine.limits import most_count
from advisor.engine.place_constraints import Choice, of_place
from advisor.engine.table import Table

if TYPE_CHECKING:
    from advisor.engine.model import Floats


class _Amount(Amount):
    """Samples, dollars or time of a workload."""

    def needs(self, found: Answers) -> Floats:
        """The limit with which each row just answers."""
        request: Request = found.request
        table: Table = found.table
        if self.name == "target_throughput":
            costs = request.max_usd_per_hour is not None or request.max_run_usd is not None
            # Where nothing is to be reached one instance answers, and as many as may be had reach
            # more.
            if costs or request.task is Task.TRAINING:
                return table.lower
            return most_count(request, table) * table.lower_each
        if self.name == "max_usd_per_hour":
            return table.usd
        if self.name == "max_latency_ms":
            return 1000 * table.p99_seconds
        if self.name == "max_first_epoch_hours":
            samples = min(request.run_samples or math.inf, request.dataset.samples)
            return samples / table.first_lower / 3600
        hours = np.full(len(table), np.inf) if table.hours_upper is None else table.hours_upper
        return hours if self.name == "max_hours" else hours * table.usd


def constraints_of(request: Request) -> Iterator[Constraint]:
    """Every constraint that is set, and the place, market and confidence, which always are."""
    costs = request.max_usd_per_hour is not None or request.max_run_usd is not None
    amounts = (
        _Amount("target_throughput", "--target-throughput", most=False, exact=not costs),
        _Amount("max_usd_per_hour", "--max-price"),
        _Amount("max_latency_ms", "--max-latency-ms", exact=True),
        _Amount("max_first_epoch_hours", "--max-first-epoch-hours"),
        _Amount("max_hours", "--max-hours"),
        _Amount("max_run_usd", "--max-cost"),
    )
    yield from (one for one in amounts if getattr(request, one.name) is not None)
    yield from of_place(request, Choice("batch_size", "--batch-size", None))
