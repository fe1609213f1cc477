"""Finds how many instances serve a target, the load of each replica, and the limits that it keeps.

A target in tokens per second may be reached at any load of the grid. Users and requests per second are shared
by all replicas, so that the number of replicas decides their load."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from advisor.catalog.support import most_startable
from advisor.engine.columns import Booleans, Floats, Integers, Level, option_columns
from advisor.engine.limits import GOOD_ENOUGH, Limit, times_needed
from advisor.engine.tasks.serving.options import ServingOption
from advisor.engine.tasks.serving.table import Rates, Replicas, ServingTable, users_of
from advisor.questions.language import ServingQuestion


def solved_table(
    request: ServingQuestion, options: Sequence[ServingOption], replicas: Replicas, level: Level
) -> ServingTable:
    """The table of options (at least one) with counts and loads that keep target and limits at `level`."""
    return _Solver(request, options, replicas, level).table()


def weighed_table(
    request: ServingQuestion, options: Sequence[ServingOption], replicas: Replicas
) -> ServingTable:
    """The table of options (at least one) solved by medians, followed by those that need more instances or
    another load by the lower bound: these cost more, and miss less often."""
    by_median = solved_table(request, options, replicas, Level.MEDIAN)
    sure = solved_table(request, options, replicas, Level.SURE)
    other = (sure.count != by_median.count) | (sure.rates.concurrency != by_median.rates.concurrency)
    for limit in sure.limits:
        other &= limit.keeps
    return by_median.beside(sure.take(other)) if other.any() else by_median


class _Solver:
    """Finds the counts and loads of options from the kept predictions of their replicas."""

    def __init__(
        self, request: ServingQuestion, options: Sequence[ServingOption], replicas: Replicas, level: Level
    ) -> None:
        self._request, self._options, self._replicas, self._level = request, options, replicas, level
        self._option = replicas.numbers(options)
        # Instances that hold a model together count as one here, with the replicas of all.
        self._nodes = np.array([option.placement.nodes for option in options], dtype=np.intp)
        self._each = self._nodes * [float(option.placement.batches) for option in options]
        startable = np.array([most_startable(option.offer, request.vcpu_quota) for option in options])
        self._most = np.maximum(1, np.minimum(request.max_count, startable) // self._nodes)
        self._grid = replicas.grid.take((self._option,))

    def table(self) -> ServingTable:
        """The options with their counts, rates and limits."""
        request = self._request
        if request.users is not None:
            count, rates, most, limits = self._with_shared_load(float(request.users), "users")
        elif request.target_requests_per_second is not None:
            count, rates, most, limits = self._with_shared_load(request.target_requests_per_second, "load")
        else:
            count, rates, most, limits = self._on_grid()
        columns = option_columns(self._options)
        return ServingTable(
            count=count * self._nodes, rates=rates, most=most, limits=tuple(limits), **columns
        )

    def _on_grid(self) -> _Solution:
        """The least load of the grid that reaches the target, or without one 95 % of the most tokens."""
        limits, alive = self._limits_and_kept(self._grid)
        rate = np.nan_to_num(self._each[:, None] * self._grid.output[self._level])
        good, rows = np.where(alive, rate, 0.0), np.arange(len(rate))
        best = rate[rows, good.argmax(axis=1)]
        target = self._request.target_output_tokens_per_second
        count = np.ones(len(rate), dtype=np.intp)
        wanted = GOOD_ENOUGH * best
        if target is not None:
            count = np.minimum(times_needed(target, best), self._most).astype(np.intp)
            wanted = np.minimum(target / count, best)
        # Where no load is good, the row shows the first: one sequence in flight.
        rates = self._grid.take((rows, np.asarray((alive & (rate >= wanted[:, None])).argmax(axis=1))))
        limits = [self._as_shown(limit, rates) for limit in limits]
        if target is not None:
            limits.append(Limit.least("too_slow", count * best, target))
        return count, rates, self._largest(alive), limits

    def _with_shared_load(self, load: float, reason: str) -> _Solution:
        """The fewest instances with which the shared load of each replica keeps the limits."""
        bearable = self._replicas.capacity[self._level, self._option]
        if self._request.users is not None:
            bearable = self._most_users()

        def enough(count: Integers, options: Integers) -> Booleans:
            return self._limits_and_kept(self._rates_at_share(load, count, options, self._level))[1]

        with np.errstate(divide="ignore"):
            least = np.ceil(load / (self._each * bearable) * (1 - _ROUNDING))
        count = _least_enough(enough, np.clip(least, 1, self._most).astype(np.intp), self._most)
        rates = self._rates_at_share(load, count, np.arange(len(count)), self._level)
        carried = ~np.isnan(rates.tpot[self._level])
        limits, _ = self._limits_and_kept(rates)
        alive = ~np.isnan(self._grid.tpot[self._level])
        if self._request.users is not None:
            # The grid's times are of a closed loop, and limit the load of users only.
            _, alive = self._limits_and_kept(self._grid)
            bearable = users_of(self._request, self._largest(alive), self._level)
        most = self._largest(alive)
        with np.errstate(divide="ignore"):
            factor = load / (count * self._each * bearable)
        limits = [Limit(reason, carried, self._most * self._each * bearable, factor), *limits]
        # The load itself may lie between those of the grid.
        more = limits[-1].keeps & (np.nan_to_num(rates.output) > most.output)[self._level]
        most = Rates(*(np.where(more, own, grid) for own, grid in zip(rates, most, strict=True)))
        # Where the bound cannot carry the load, the row shows the median, else its largest load.
        others = [most]
        if self._request.is_sure:
            others.insert(0, self._rates_at_share(load, count, np.arange(len(count)), Level.MEDIAN))
        for other in others:
            carried = ~np.isnan(rates.tpot[self._level])
            rates = Rates(*(np.where(carried, *pair) for pair in zip(rates, other, strict=True)))
        return count, rates, most, [self._as_shown(limit, rates) for limit in limits]

    def _as_shown(self, limit: Limit, rates: Rates) -> Limit:
        """A limit with the factor by which the rates that a row shows miss it, also where the row misses an
        earlier limit; a limit on the load has its factor already."""
        request = self._request
        if limit.reason == "no_interval":
            return replace(limit, factor=np.where(self._doubted(rates), np.inf, 1.0))
        for time in request.time_limits:
            if time.reason == limit.reason:
                values = rates.limited(time, request.output_tokens)[self._level]
                return replace(limit, factor=np.nan_to_num(values, nan=np.inf) / time.most)
        return limit

    def _doubted(self, rates: Rates) -> Booleans:
        """Loads whose interval is not calibrated, where the request does not allow that."""
        return np.asarray(~rates.calibrated & (not self._request.allow_extrapolation))

    def _rates_at_share(self, load: float, count: Integers, options: Integers, level: Level) -> Rates:
        """Rates of some options on `count` instances each, whose replicas share the load."""
        share, replicas = load / (count * self._each[options]), self._option[options]
        if self._request.users is not None:
            return self._of_users(share, replicas, options)
        return self._replicas.with_arrivals(replicas, share, level)

    def _of_users(self, users: Floats, replicas: Integers, options: Integers) -> Rates:
        """Rates of replicas (n,) with so many users each, rounded up."""
        whole = np.ceil(users * (1 - _ROUNDING))
        return self._replicas.with_users(replicas, whole, whole <= self._most_users()[options])

    def _most_users(self) -> Floats:
        """Users of a replica whose memory is full, by the median."""
        users = users_of(self._request, self._grid, Level.MEDIAN)
        return np.asarray(np.fmax.reduce(users, axis=1) * (1 + _ROUNDING))

    def _limits_and_kept(self, rates: Rates) -> tuple[list[Limit], Booleans]:
        """The latency limits in order, and the loads that keep all of them. An option with several loads
        keeps a limit if one of its loads keeps this and all earlier limits."""
        request, level, judged = self._request, self._level, list[Limit]()
        alive = np.asarray(~np.isnan(rates.tpot[level]))
        times = [("no_interval", self._doubted(rates).astype(float), 0.5)]
        for limit in request.time_limits:
            times.append((limit.reason, rates.limited(limit, request.output_tokens)[level], limit.most))
        for reason, values, most in times:
            least = np.where(alive, values, np.inf)
            alive = np.asarray(alive & (least <= most))
            keeps, nearness = (np.atleast_2d(values.T).T for values in (alive, -least))
            judged.append(Limit(reason, np.asarray(keeps.any(axis=1)), nearness.max(axis=1)))
        return judged, alive

    def _largest(self, alive: Booleans) -> Rates:
        """Each option's load with the most tokens, among the loads that keep the limits, else among all."""
        counted = alive | ~np.asarray(alive.any(axis=1))[:, None]
        rate = np.where(counted, np.nan_to_num(self._grid.output[self._level], nan=-1.0), -1.0)
        return self._grid.take((np.arange(len(rate)), np.asarray(rate.argmax(axis=1))))


# Counts of instances, rates of a replica at its load and at its largest load, and the limits in order.
_Solution = tuple[Integers, Rates, Rates, list[Limit]]
# The relative rounding error of a ratio that should be whole.
_ROUNDING = 1e-12


def _least_enough(
    enough: Callable[[Integers, Integers], Booleans], least: Integers, most: Integers
) -> Integers:
    """For each row the smallest count from `least` to `most` that is enough; `most` where none is. `enough`
    takes counts and the rows that they are for; a larger count must never be worse."""
    count = least.copy()
    left = np.flatnonzero(~enough(count, np.arange(len(count))) & (least < most))
    count[left] = most[left]
    left = left[enough(count[left], left)]
    low, high = least[left] + 1, most[left]
    while (low < high).any():
        middle = (low + high) // 2
        good = enough(middle, left)
        low, high = np.where(good, low, middle + 1), np.where(good, middle, high)
        low = np.minimum(low, high)
    count[left] = high
    return count
