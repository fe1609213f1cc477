"""How many instances each option takes for a target, the load of each replica then, and which
limits that keeps.

A target in tokens a second may be reached at any load that the grid has; users and requests a
second are shared by all replicas, so that their number decides the load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from advisor.catalog.support import most_startable
from advisor.engine.limits import GOOD_ENOUGH, Limit, times_needed
from advisor.engine.tasks.serving.options import ServingOption
from advisor.engine.tasks.serving.rates import Level, Rates, Replicas
from advisor.questions.language import ServingQuestion

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers


class ServingLoad(Struct, frozen=True):
    """Ways with as many instances as each needs (as many as may be had, where those are too few):
    columns (n,). `rates` are of one replica at the load that it then has, `most` at the largest
    load that keeps the limits; `limits` are in the order in which they are judged."""

    count: Integers
    rates: Rates
    most: Rates
    limits: tuple[Limit, ...]


class LoadSolver:
    """Solves a request for options, whose replicas are predicted once."""

    def __init__(
        self, request: ServingQuestion, options: Sequence[ServingOption], replicas: Replicas
    ) -> None:
        self._request, self._replicas = request, replicas
        self._option = replicas.numbers(options)
        self._each = np.array([option.placement.replicas for option in options], dtype=float)
        quota = request.vcpu_quota
        startable = np.array([most_startable(option.offer, quota) for option in options])
        self._most = np.maximum(1, np.minimum(request.max_count, startable)).astype(np.intp)

    def solved(self, level: Level) -> ServingLoad:
        """By the bound that counts."""
        request = self._request
        if request.users is not None:
            return self._shared(level, float(request.users), "users")
        if request.target_requests_per_second is not None:
            return self._shared(level, request.target_requests_per_second, "load")
        return self._on_grid(level)

    def _on_grid(self, level: Level) -> ServingLoad:
        """At the least load of the grid that is enough; without a target, at the least one within
        5 % of the most tokens a second."""
        grid = self._replicas.grid.take((self._option,))
        limits, alive = self._judged(grid, level)
        rate = np.where(alive, self._each[:, None] * grid.output[level], 0.0)
        best = rate.max(axis=1)
        target = self._request.target_output_tokens_per_second
        count = np.ones(len(rate), dtype=np.intp)
        wanted = GOOD_ENOUGH * best
        if target is not None:
            count = np.minimum(times_needed(target, best), self._most).astype(np.intp)
            wanted = np.minimum(target / count, best)
            limits.append(Limit("too_slow", count * best >= target, count * best))
        rows = np.arange(len(rate))
        chosen = _first(alive & (rate >= wanted[:, None]))
        # Where no load is good the first one shows it: one sequence in flight.
        rates = grid.take((rows, chosen))
        return ServingLoad(count, rates, self._largest(grid, alive), tuple(limits))

    def _shared(self, level: Level, load: float, reason: str) -> ServingLoad:
        """With as many instances as leave each replica a load that keeps the limits."""
        bearable = self._bearable(level)

        def limits_of(rates: Rates) -> list[Limit]:
            carried = ~np.isnan(rates.tpot[level])
            first = Limit(reason, carried, self._most * self._each * bearable)
            return self._judged(rates, level, [first])[0]

        def enough(count: Integers, options: Integers) -> Booleans:
            rates = self._at_share(load, count, level, options)
            return self._judged(rates, level)[1]

        with np.errstate(divide="ignore"):
            least = np.ceil(load / (self._each * bearable) * (1 - _ROUNDING))
        count = _least_enough(enough, np.clip(least, 1, self._most).astype(np.intp), self._most)
        rates = self._at_share(load, count, level, np.arange(len(count)))
        limits = limits_of(rates)
        grid = self._replicas.grid.take((self._option,))
        alive = ~np.isnan(grid.tpot[level])
        if self._request.target_requests_per_second is None:
            # The times of a closed loop are not those of requests that arrive by themselves.
            _, alive = self._judged(grid, level)
        most = self._largest(grid, alive)
        # Where a target is out of reach, the row shows the most that it does.
        carried = ~np.isnan(rates.tpot[level])
        rates = Rates(*(np.where(carried, own, at_most) for own, at_most in zip(rates, most, strict=True)))
        return ServingLoad(count, rates, most, tuple(limits))

    def _at_share(self, load: float, count: Integers, level: Level, options: Integers) -> Rates:
        """Some options on `count` instances each, whose replicas share the load."""
        share = load / (count * self._each[options])
        if self._request.users is not None:
            return self._replicas.with_in_flight(self._option[options], np.ceil(share * (1 - _ROUNDING)))
        return self._replicas.with_arrivals(self._option[options], share, level)

    def _bearable(self, level: Level) -> Floats:
        """The largest share that memory holds, or that is answered as fast as it comes."""
        if self._request.users is not None:
            return self._replicas.held[self._option]
        return np.asarray(self._replicas.capacity[level, self._option])

    def _judged(
        self, rates: Rates, level: Level, limits: Sequence[Limit] = ()
    ) -> tuple[list[Limit], Booleans]:
        """The limits of times, in order, and the loads that keep all of them. Of a option that is
        looked at under several loads a limit is kept where one of those keeps it that kept all
        before."""
        request, judged = self._request, list(limits)
        alive = ~np.isnan(rates.tpot[level])
        times = (
            ("no_interval", _no_doubt(request, rates), 0.5),
            ("ttft", 1000 * rates.ttft[level], request.max_ttft_ms),
            ("tpot", 1000 * rates.tpot[level], request.tpot_limit_ms),
            ("e2e", rates.e2e(request.output_tokens)[level], request.max_e2e_seconds),
        )
        for reason, values, most in times:
            if most is None:
                continue
            least = np.where(alive, values, np.inf)
            alive = np.asarray(alive & (least <= most))
            one_load = alive.ndim == 1
            judged.append(
                Limit(
                    reason,
                    alive if one_load else np.asarray(alive.any(axis=1)),
                    -least if one_load else -least.min(axis=1),
                )
            )
        return judged, alive

    def _largest(self, grid: Rates, alive: Booleans) -> Rates:
        """The largest load of each option that keeps the limits of times; of all loads, where none
        does."""
        counted = alive | ~np.asarray(alive.any(axis=1))[:, None]
        rate = np.where(counted, np.nan_to_num(grid.output[Level.SURE], nan=-1.0), -1.0)
        return grid.take((np.arange(len(rate)), np.asarray(rate.argmax(axis=1))))


# Of a ratio of floats that should be whole.
_ROUNDING = 1e-12


def _no_doubt(request: ServingQuestion, rates: Rates) -> Floats:
    """1 where nothing held out backs the bounds, and that counts."""
    doubted = ~rates.calibrated & (not request.allow_extrapolation)
    return np.asarray(doubted, dtype=float)


def _first(good: Booleans) -> Integers:
    """The first good place of each row."""
    return np.asarray(good.argmax(axis=1))


def _least_enough(
    enough: Callable[[Integers, Integers], Booleans], least: Integers, most: Integers
) -> Integers:
    """The smallest count from `least` to `most` with which each row has enough; `most` where none
    has. More is never worse; `enough` judges some rows, each with a count."""
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
