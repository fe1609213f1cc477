"""Workload + offers + performance model + target -> Recommendation. Pure: no clock, no files.

The answer is the cheapest spec (instance plus disk) whose lower bound meets the target; where a run
is asked for, the one whose run costs least; without either, the one with the cheapest samples.
Every type that is passed over keeps its reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from advisor.domain import Candidate, Recommendation, Request
from advisor.engine.assumptions import chosen_assumptions, warnings
from advisor.engine.borderline import close_calls
from advisor.engine.limits import (
    GOOD_ENOUGH,
    answering,
    at_count,
    best_rows,
    cost,
    cost_of,
    require_countable,
    sure_rate,
)
from advisor.engine.pareto import LEAST_SHARE, worth_taking
from advisor.engine.prepared import Preparations, Prepared
from advisor.engine.price_calls import Draft, decided_by_price
from advisor.engine.rejected import Missed, Rejections
from advisor.engine.search import Found, searched
from advisor.engine.table import Table
from advisor.errors import NoIntervalError
from advisor.messages import Message

if TYPE_CHECKING:
    from advisor.engine.model import Integers


def recommend(request: Request, preparations: Preparations, *, today: date) -> Recommendation:
    """Answer one request, from what was prepared for others of its workload.

    Raises `UsageError` for what the catalogue or the model does not know, and
    `NoIntervalError` where only predictions without a calibrated interval would answer.
    """
    answer = decided_by_price(
        request,
        lambda asked: _by_median_price(asked, preparations, today),
        lambda candidate: cost_of(request, candidate),
        today,
    )
    return replace(answer, pareto=worth_taking(answer.pareto, answer.chosen))


def _by_median_price(request: Request, preparations: Preparations, today: date) -> Draft[Recommendation]:
    """The answer where every price were what it is at the median."""
    require_countable(request)
    prepared = preparations.of(request)
    found = searched(request, prepared, request.max_results)
    table = Table.joined([one.table for one in found.looked]) if found.looked else None
    ranked = Ranked(request, found, table)
    shown: tuple[Candidate, ...] = ()
    near = ranked.rows
    nearest = beyond_price = None
    if table is not None and len(ranked.rows):
        if request.target_throughput is None:
            near = near[table.lower[near] >= LEAST_SHARE * table.lower[near[0]]]
        shown = _shown(request, prepared, table, near[: request.max_results].tolist())
    elif table is not None:
        _require_intervals(request, table)
        nearest, beyond_price = _nearest(request, prepared, table), _beyond_price(request, table)
    chosen, front = shown[0] if shown else None, found.front()
    # An answer at surer prices is asked for its first spec alone.
    at_any_price = request.listed_on is None and request.price_spread is None
    unpriced = prepared.unpriced if at_any_price else ()
    rejected = Rejections(
        [*found.rejected, *unpriced],
        [Missed(request, one.table, one.missed) for one in found.looked],
        found.slow,
    )
    prepared.was_asked = True
    answer = Recommendation(
        request=request,
        ranked=shown,
        nearest=nearest,
        beyond_price=beyond_price,
        rejected=rejected,
        rejected_counts=rejected.counts,
        offers_considered=found.considered,
        assumptions=chosen_assumptions(request, chosen or nearest),
        warnings=warnings(chosen or nearest, today),
        today=today,
        pareto=() if front is None else tuple(front.candidates(range(len(front)), request)),
    )

    def details() -> dict[str, Any]:
        if table is None:
            return {}
        known = dict(zip(near.tolist(), shown, strict=False))
        return {"close_calls": close_calls(request, prepared, table, ranked, known)}

    return Draft(answer, details)


def specs_that_answer(request: Request, prepared: Prepared) -> Table | None:
    """Every spec and batch size that may be recommended, in no order, whatever `max_results`; of
    types without a GPU those that could be among the `max_results` best: there are thousands. None
    where nothing runs."""
    everything = replace(request, max_results=sys.maxsize)
    found = searched(everything, prepared, request.max_results)
    if not found.looked:
        return None
    table = Table.joined([one.table for one in found.looked])
    return table.take(answering(everything, table))


class Ranked:
    """The rows of the answers' table by rank: those that may be shown, and what is too dear."""

    def __init__(self, request: Request, found: Found, table: Table | None) -> None:
        self._request, self._found, self._table = request, found, table
        rows, before = [np.empty(0, dtype=np.intp)], 0
        for one in found.looked:
            rows.append(one.best + before)
            before += len(one.table)
        self.rows = self._sorted(np.concatenate(rows))

    def __iter__(self) -> Iterator[int]:
        """Every type that answers, those too dear to be shown among them."""
        first = self.rows[:1]  # what is too dear to be shown is dearer than the first
        yield from first.tolist()
        every = self._sorted(np.concatenate([self.rows, *self._beyond()]))
        yield from every[len(first) :].tolist()

    def _beyond(self) -> Iterator[Integers]:
        before = 0
        for one in self._found.looked:
            good = answering(self._request, one.table) & one.beyond[one.table.kind]
            if good.any():
                yield best_rows(self._request, one.table, np.flatnonzero(good)) + before
            before += len(one.table)

    def _sorted(self, rows: Integers) -> Integers:
        """By cost; ties by rate, then by name."""
        table = self._table
        if table is None or not len(rows):
            return rows
        costs, lower = cost(self._request, table)[rows].tolist(), table.lower[rows].tolist()
        names = table.names[table.kind[rows]].tolist()
        order = sorted(range(len(rows)), key=lambda at: (costs[at], -lower[at], names[at]))
        return rows[order]


def _shown(request: Request, prepared: Prepared, table: Table, rows: Sequence[int]) -> tuple[Candidate, ...]:
    """Rows as records, each with its latency and with what its disk lends for a while."""
    shown = table.candidates(rows, request)
    return tuple(
        replace(candidate, spec=replace(candidate.spec, disk=prepared.with_burst(candidate)), latency=latency)
        for candidate, latency in zip(shown, table.latencies(rows), strict=True)
    )


def _require_intervals(request: Request, table: Table) -> None:
    """Refuse where the only answers are predictions that nothing held out backs."""
    if request.allow_extrapolation:
        return
    guessing = answering(request, table, but_for=("no_interval",))
    if (guessing & ~table.calibrated).any():
        raise NoIntervalError(
            Message(
                "no interval of {network} {task} at {precision} is calibrated to {percent:g} % "
                "(no calibrated interval)",
                network=request.network,
                task=request.task,
                precision=request.precision,
                percent=100 * request.confidence,
            ),
            hint=Message("ask for less with --confidence, or accept a guess with --allow-extrapolation"),
            field="confidence",
        )


def _nearest(request: Request, prepared: Prepared, table: Table) -> Candidate | None:
    """What comes closest within the price: the cheapest of those within 5 % of the fastest."""
    sure = np.ones(len(table), dtype=bool) if request.allow_extrapolation else table.calibrated
    affordable = _as_many_as_affordable(request, table)
    at = _nearest_row(request, affordable, np.flatnonzero(sure))
    if at is None:
        return None
    return _shown(request, prepared, affordable, [at])[0]


def _nearest_row(request: Request, table: Table, sure: Integers) -> int | None:
    usd = table.usd
    if not len(sure):
        return None
    most = request.max_usd_per_hour
    within = sure if most is None else sure[usd[sure] <= most]
    if not len(within):
        return int(sure[np.argmin(usd[sure])])
    but_for_cost = within[answering(request, table, but_for=("over_max_cost",))[within]]
    if len(but_for_cost):
        return int(but_for_cost[np.argmin(table.run_usd_upper[but_for_cost])])
    soonest, rate = within, sure_rate(request, table)
    but_for_first = within[answering(request, table, but_for=("slow_first_epoch",))[within]]
    if len(but_for_first):
        soonest, rate = but_for_first, table.first_lower
    limit = request.max_latency_ms
    if limit is not None:
        seconds = table.p99_seconds[within]
        soon = within[1000 * seconds <= limit]
        soonest = soon if len(soon) else within[seconds == seconds.min()]
    fastest = soonest[rate[soonest] >= GOOD_ENOUGH * rate[soonest].max()]
    return int(fastest[np.lexsort((-rate[fastest], usd[fastest]))[0]])


def _as_many_as_affordable(request: Request, table: Table) -> Table:
    """Rows with no more instances than the price allows, one at least."""
    limit = request.max_usd_per_hour
    if limit is None or request.max_count == 1:
        return table
    fewer = np.maximum(1, np.floor(limit / table.usd_each)).astype(np.intp)
    return at_count(table, np.where((table.count > 1) & (table.usd > limit), fewer, table.count))


def _beyond_price(request: Request, table: Table) -> Candidate | None:
    """The cheapest that would answer if only its price were allowed."""
    if request.max_usd_per_hour is None:
        return None
    fast = np.flatnonzero(answering(request, table, but_for=("over_max_price",)))
    if not len(fast):
        return None
    return table.candidates([int(fast[np.argmin(table.usd[fast])])], request)[0]
