"""Limits of candidates: runs and counts, the limits that a row keeps, the ranking of rows, and the row of
a type that shows the limit it misses.

The limits are judged in one order. A type is turned down for the first one that none of its
candidates keeps, of those that keep all before it: so the reason is true of the whole type,
whatever its disk and batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog.support import most_startable
from advisor.domain import Candidate, Task
from advisor.engine.table import Table, best_of_each, is_among
from advisor.errors import UsageError
from advisor.messages import Message
from advisor.questions.network import NetworkQuestion

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers

# The smallest batch within 5 % of the best lower bound: latency and memory are dear.
GOOD_ENOUGH = 0.95
# The first epoch reads the disk: it may take at most so many times as long as a later one has to.
MOST_FIRST_EPOCHS = 2.0
# Beyond this nobody rents a handful of machines, and wants another kind of answer.
MOST_INSTANCES = 1000
TOO_SLOW = "too_slow"


class Limit(Struct, frozen=True):
    """A limit: its reason, which rows keep it, and how near each row comes to it."""

    reason: str
    keeps: Booleans
    nearness: Floats


def require_countable(request: NetworkQuestion) -> None:
    """Refuse instances that share work where they would have to train together."""
    if request.max_count > 1 and request.task is Task.TRAINING:
        raise UsageError(
            Message(
                "--max-count goes with inference and preprocessing: instances that train together "
                "are nodes, which wait for each other's gradients"
            ),
            hint=Message("ask for --max-nodes {count}", count=request.max_count),
            field="max_count",
        )


def wants_front(request: NetworkQuestion) -> bool:
    """Where price and rate are weighed by the reader: without a target, and where it is asked."""
    return request.target_throughput is None or request.pareto


def is_plain(request: NetworkQuestion) -> bool:
    """Whether a rate and a price by the hour of one instance decide: then few types are near."""
    return request.ranks_by_price and not wants_front(request) and request.max_count == 1


def completed(request: NetworkQuestion, table: Table) -> Table:
    """The table with its runs' hours, and as many instances as each row needs: `max_count` where
    those are too few.

    Instances that share nothing have the bottleneck of one of them, and all are wrong alike: the
    lower bound of n is n times that of one (docs/scaling.md).
    """
    table = with_runs(request, table)
    if request.max_count == 1:
        return table
    needed = np.ones(len(table))
    if request.target_throughput is not None:
        needed = np.maximum(needed, times_needed(request.target_throughput, table.lower_each))
    if request.max_hours is not None and table.hours_upper is not None:
        needed = np.maximum(needed, times_needed(table.hours_upper, request.max_hours))
    return at_count(table, np.minimum(needed, most_count(request, table)).astype(np.intp))


def with_runs(request: NetworkQuestion, table: Table) -> Table:
    """The table with the hours of a run on one instance, or on all nodes that train together, where
    the request has a run.

    Training reads its data from the disk in the first epoch, and from the page cache, as far as RAM
    holds it, in later ones.
    """
    samples = request.run_samples
    if samples is None:
        return table
    training = request.task is Task.TRAINING
    count = table.count if training else np.ones(len(table), dtype=np.intp)
    first = min(samples, request.dataset.samples) if training else samples
    hours = []
    with np.errstate(divide="ignore"):
        for cold, warm in (
            (table.first_upper, count * table.upper_each),
            (table.first_median, count * table.median_each),
            (table.first_lower, count * table.lower_each),
        ):
            of_first = first / cold / 3600
            hours.append(of_first + (samples - first) / warm / 3600 if samples > first else of_first)
    return replace(table, hours_lower=hours[0], hours_median=hours[1], hours_upper=hours[2], count=count)


def at_count(table: Table, count: Integers) -> Table:
    """The rows on so many instances, whatever their number now: a run is shared evenly."""
    if table.hours_upper is None or table.hours_median is None or table.hours_lower is None:
        return replace(table, count=count)
    share = (1 / count) / (1 / table.count)
    return replace(
        table,
        count=count,
        hours_lower=table.hours_lower * share,
        hours_median=table.hours_median * share,
        hours_upper=table.hours_upper * share,
    )


def most_count(request: NetworkQuestion, table: Table) -> Integers:
    """As many instances as may be had: `max_count`, and what the quota allows; one at least."""
    if not request.vcpu_quota:
        return np.full(len(table), request.max_count)
    startable = [most_startable(offer, request.vcpu_quota) for offer in table.offers()]
    most = np.minimum(request.max_count, np.maximum(1.0, np.array(startable)))
    return np.asarray(most.astype(np.intp)[table.option])


def count_that_would_do(request: NetworkQuestion, nearest: Candidate) -> int | None:
    """How many of the nearest would answer if only as many were allowed; None where other limits
    stand in the way, or nobody would rent so many."""
    target, spec = request.target_throughput, nearest.spec
    if request.task is Task.TRAINING or target is None or request.max_usd_per_hour is not None:
        return None
    needed = float(times_needed(target, nearest.prediction.lower / spec.count))
    most = min(MOST_INSTANCES, most_startable(spec.offer, request.vcpu_quota))
    return int(needed) if request.max_count < needed <= most else None


def times_needed(wanted: Floats | float, each: Floats | float) -> Floats:
    """The least whole number of times `each` that makes `wanted`; infinite where none does, and
    where it is beyond what floats count by ones."""
    wanted, each = np.broadcast_arrays(np.asarray(wanted, float), np.asarray(each, float))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = wanted / each
        times = np.ceil(ratio)
        # Division rounds: what it says may be one off either way.
        times = np.where((times > 1) & ((times - 1) * each >= wanted), times - 1, times)
        times = np.where(times * each >= wanted, times, times + 1)
        return np.where((each > 0) & (each < np.inf) & (ratio < 2**53), times, np.inf)


def cost(request: NetworkQuestion, table: Table) -> Floats:
    """What rows rank by: the price by the hour for a target, else a run's or a sample's median."""
    if request.ranks_by_price:
        return table.usd
    if request.run_samples is not None:
        return table.run_usd
    return table.usd / (table.median * 3600) * 1e6


def cost_of(request: NetworkQuestion, candidate: Candidate) -> float:
    """The same of a record."""
    if request.ranks_by_price:
        return candidate.spec.total_usd_per_hour
    run = candidate.usd_per_run
    return run.median if run else candidate.usd_per_million_samples


def limits(request: NetworkQuestion, table: Table) -> Iterator[Limit]:
    """The limits that are set, in the order in which a type is judged."""
    sure = sure_rate(request, table)
    if not request.allow_extrapolation:
        yield Limit("no_interval", table.calibrated, sure)
    if request.max_latency_ms is not None:
        keeps = 1000 * table.p99_seconds <= request.max_latency_ms
        yield Limit("latency", keeps, -table.p99_seconds)
    if request.target_throughput is not None:
        yield Limit(TOO_SLOW, table.lower >= request.target_throughput, table.lower)
    least = least_first_rate(request, table)
    if least is not None:
        yield Limit("slow_first_epoch", table.first_lower >= least, table.first_lower)
    if request.max_hours is not None and table.hours_upper is not None:
        yield Limit("too_long", table.hours_upper <= request.max_hours, sure)
    if request.max_run_usd is not None and table.hours_upper is not None:
        most = table.run_usd_upper
        yield Limit("over_max_cost", most <= request.max_run_usd, -most)
    if request.max_usd_per_hour is not None:
        yield Limit("over_max_price", table.usd <= request.max_usd_per_hour, -table.usd)


def answering(request: NetworkQuestion, table: Table, *, but_for: Sequence[str] = ()) -> Booleans:
    """Which rows may be recommended, whatever they make of the limits `but_for`."""
    keeps = np.ones(len(table), dtype=bool)
    for limit in limits(request, table):
        if limit.reason not in but_for:
            keeps &= limit.keeps
    return keeps


def answers(request: NetworkQuestion, candidate: Candidate) -> bool:
    """The same of a record."""
    limit, latency = request.max_latency_ms, candidate.latency
    run, usd, first = candidate.run, candidate.usd_per_run, candidate.first_epoch
    least, spec = least_first_rate_of(request, candidate), candidate.spec
    samples = min(request.run_samples or math.inf, request.dataset.samples)
    return (
        (candidate.prediction.calibrated or request.allow_extrapolation)
        and (limit is None or (latency is not None and 1000 * latency.p99_seconds <= limit))
        and candidate.prediction.lower >= (request.target_throughput or 0.0)
        and (least is None or first is None or samples / first.upper / 3600 >= least)
        and (request.max_hours is None or (run is not None and run.hours.upper <= request.max_hours))
        and (usd is None or usd.upper <= (request.max_run_usd or math.inf))
        and spec.total_usd_per_hour <= (request.max_usd_per_hour or math.inf)
    )


def least_first_rate(request: NetworkQuestion, table: Table) -> Floats | float | None:
    """The least lower bound of the rate of the first pass over the data; None without a limit.

    RAM caches what the first epoch reads from the disk: a rate of later epochs alone would buy a
    disk with which the first one takes days. A run's cost counts its first epoch anyhow.
    """
    return _least_first_rate(request, table.lower)


def _least_first_rate(request: NetworkQuestion, lower: Floats | float) -> Floats | float | None:
    if request.task is not Task.TRAINING:
        return None
    if request.max_first_epoch_hours is not None:
        samples = min(request.run_samples or math.inf, request.dataset.samples)
        return samples / (3600 * request.max_first_epoch_hours)
    if request.run_samples is not None:
        return None
    if request.target_throughput is not None:
        return request.target_throughput / MOST_FIRST_EPOCHS
    return lower / MOST_FIRST_EPOCHS


def least_first_rate_of(request: NetworkQuestion, candidate: Candidate) -> float | None:
    """The same of a record."""
    lower = candidate.prediction.lower
    rate = _least_first_rate(request, lower)
    return None if rate is None else float(rate)


def sure_rate(request: NetworkQuestion, table: Table) -> Floats:
    """The lower bound: over the whole run, where there is one."""
    if table.hours_upper is None or request.run_samples is None:
        return table.lower
    with np.errstate(divide="ignore"):
        return np.where(
            (table.hours_upper > 0) & (table.hours_upper < np.inf),
            request.run_samples / (table.hours_upper * 3600),
            0.0,
        )


def best_rows(request: NetworkQuestion, table: Table, good: Integers) -> Integers:
    """Of each type the row with which it enters the ranking, of those rows that are `good`."""
    if not len(good):
        return good
    costs, lower = cost(request, table)[good], table.lower[good]
    chosen = good[best_of_each(table.kind[good], costs, -lower)]
    if not request.ranks_by_price:
        return chosen  # at the batch that makes its samples, or its run, cheapest
    return good_batches(table, good, chosen)


def good_batches(table: Table, good: Integers, chosen: Integers) -> Integers:
    """Each chosen row at the smallest batch, of the good ones of its spec, within 5 % of the best
    lower bound."""
    spec = table.spec * (MOST_INSTANCES + 1) + table.count
    same = good[is_among(spec[good], spec[chosen])]
    keys, index = np.unique(spec[same], return_inverse=True)
    most = np.zeros(len(keys))
    lower = table.lower[same]
    np.maximum.at(most, index, lower)
    near = same[lower >= GOOD_ENOUGH * most[index]]
    return near[best_of_each(spec[near], table.batch[near])]


def closest(judged: Sequence[Limit], usd: Floats, rows: Integers) -> tuple[int, str]:
    """Of rows of one type, all of which miss something, the one that shows best what they miss,
    and the reason."""
    for limit in judged:
        within = rows[limit.keeps[rows]]
        if not len(within):
            # Without the last digits, in which equal rates may differ: of those the cheapest.
            nearness = _about(limit.nearness[rows])
            return int(rows[np.lexsort((usd[rows], -nearness))[0]]), limit.reason
        rows = within
    raise ValueError("one of them misses nothing")


def closest_of_each(judged: Sequence[Limit], table: Table, rows: Integers) -> list[tuple[int, str]]:
    """The same of each type among the rows."""
    if not len(rows):
        return []
    order = rows[np.argsort(table.kind[rows], kind="stable")]
    kinds, usd = table.kind[order], table.usd
    return [
        closest(judged, usd, some) for some in np.split(order, np.flatnonzero(kinds[1:] != kinds[:-1]) + 1)
    ]


def fastest_of_each(judged: Sequence[Limit], table: Table) -> dict[int, tuple[int, str]]:
    """By type, for a target that nothing reaches, the row that shows it and the reason: whatever
    the target, since what is judged before it does not depend on it."""
    left = np.ones(len(table), dtype=bool)
    for limit in judged:
        left &= limit.keeps
    rows = np.flatnonzero(left)
    best = rows[best_of_each(table.kind[rows], -_about(table.lower[rows]), table.usd[rows])]
    row_of = {int(table.kind[row]): (int(row), TOO_SLOW) for row in best}
    others = np.flatnonzero(~is_among(table.kind, table.kind[best]))
    for row, reason in closest_of_each(judged, table, others):
        row_of[int(table.kind[row])] = row, reason
    return row_of


def _about(values: Floats) -> Floats:
    """Nine significant digits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (8 - np.floor(np.log10(np.abs(values))))
        return np.where((scale > 0) & (scale < np.inf), np.rint(values * scale) / scale, values)
