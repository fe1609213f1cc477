"""Rates and times of replicas as columns, ordered by what they are held against: the bound that
counts when nothing may go wrong, the median, and the bound that may be hoped for.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain.language import GenerationRequest
from advisor.domain.runs import Span
from advisor.engine.language.ways import MOST_SEQUENCES, Way
from models.language.deployments import Deployment, Traffic
from models.language.serving import BINDS

if TYPE_CHECKING:
    from advisor.engine.language.model import Served, ServingModel
    from advisor.engine.model import Booleans, Floats, Integers

# Sequences in flight in one replica that are looked at, beside the most that its KV cache holds.
GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, MOST_SEQUENCES)


class Level(IntEnum):
    """Which bound of a rate or of a time counts."""

    SURE = 0
    MEDIAN = 1
    HOPED = 2


class Rates(NamedTuple):
    """One replica under loads of shape (...); the first axis of rates and times is `Level`.

    `output` is output tokens per second, times are seconds; nan where there is no such load, or
    where it is beyond what the replica can do. `binds` holds values of `ServingBind`.
    """

    concurrency: Floats
    output: Floats
    ttft: Floats
    tpot: Floats
    binds: NDArray[np.str_]
    calibrated: Booleans

    def e2e(self, output_tokens: float) -> Floats:
        """Seconds of a whole request: the first token, and all that follow. What slows one slows
        the other."""
        return self.ttft + (output_tokens - 1) * self.tpot

    def take(self, index: tuple[Integers, ...]) -> Rates:
        """Some of the loads."""
        places: Any = (slice(None), *index)
        return Rates(
            self.concurrency[index], self.output[places], self.ttft[places], self.tpot[places],
            self.binds[index], self.calibrated[index],
        )  # fmt: skip


def rate_span(values: Floats) -> Span:
    """(3,) by `Level` of what is better when larger; 0 where it is beyond what can be done."""
    lower, median, upper = np.nan_to_num(values, nan=0.0).tolist()
    return Span(lower=lower, median=median, upper=upper)


def time_span(values: Floats) -> Span:
    """(3,) by `Level` of what is better when smaller; infinite where nobody knows an end."""
    upper, median, lower = np.nan_to_num(values, nan=np.inf).tolist()
    return Span(lower=lower, median=median, upper=upper)


class Replicas:
    """The distinct deployments of some ways, under loads of a request's traffic.

    `of_way` numbers each way's deployment; `held` is how many mean requests each deployment holds
    at once.
    """

    def __init__(
        self, request: GenerationRequest, ways: Sequence[Way], predictor: ServingModel
    ) -> None:
        numbers: dict[int, int] = {}  # by identity: `ways_of` makes each once
        of_way = [numbers.setdefault(id(way.deployment), len(numbers)) for way in ways]
        self.deployments: list[Deployment] = list(
            {id(w.deployment): w.deployment for w in ways}.values()
        )
        self.of_way = np.array(of_way, dtype=np.intp)
        held = np.zeros(len(numbers))
        held[self.of_way] = [min(way.memory.largest_concurrency, MOST_SEQUENCES) for way in ways]
        self.held = held
        self._predictor, self._confidence = predictor, request.confidence
        self._traffic = Traffic(request.input_tokens, request.output_tokens, request.prefix_share)
        self._output_tokens = request.output_tokens
        self.grid = self._on_grid()
        # Requests a second (3, n) that each deployment answers at most.
        with np.errstate(invalid="ignore"):
            most = np.nanmax(self.grid.output, axis=2, initial=0.0)
        self.capacity = most / request.output_tokens

    def with_in_flight(self, replicas: Integers, concurrency: Floats) -> Rates:
        """Deployments, each with so many sequences in flight at all times; nan beyond what memory
        holds."""
        return self._asked(replicas, concurrency, concurrency <= self.held[replicas], loaded=False)

    def with_arrivals(self, replicas: Integers, requests_per_second: Floats, level: Level) -> Rates:
        """Deployments to which requests arrive by themselves; nan beyond their capacity."""
        within = requests_per_second <= self.capacity[level, replicas]
        return self._asked(replicas, requests_per_second, within, loaded=True)

    def _on_grid(self) -> Rates:
        """Every deployment at rising loads, (n, k): those of `GRID` that its memory holds, then
        the most that it holds."""
        steps = np.array(GRID, dtype=float)
        points = np.minimum(steps[None, :], self.held[:, None])
        new = np.ones(points.shape, dtype=bool)
        new[:, 1:] = points[:, 1:] > points[:, :-1]
        rows = np.repeat(np.arange(len(points)), len(steps))
        found = self._asked(rows, points.ravel(), new.ravel(), loaded=False)
        shape = points.shape
        output, ttft, tpot = (
            column.reshape(3, *shape) for column in (found.output, found.ttft, found.tpot)
        )
        binds, calibrated = found.binds.reshape(shape), found.calibrated.reshape(shape)
        return Rates(points, output, ttft, tpot, binds, calibrated)

    def _asked(self, rows: Integers, loads: Floats, within: Booleans, *, loaded: bool) -> Rates:
        """The predictor's answer to each load that is `within` what can be done; the same one is
        asked once."""
        some = np.flatnonzero(within)
        pairs = np.column_stack([rows[some].astype(float), loads[some]])
        distinct, back = np.unique(pairs, axis=0, return_inverse=True)
        columns = np.full((3, 3, len(rows)), np.nan)
        binds = np.full(len(rows), "", dtype="<U16")
        calibrated = np.zeros(len(rows), dtype=bool)
        concurrency = np.array(loads, dtype=float)
        if len(some):
            served = self._served(distinct, loaded=loaded)
            back = back.reshape(-1)
            columns[:, :, some] = _by_level(served)[:, :, back]
            binds[some] = np.array(BINDS)[np.asarray(served.binds)[back]]
            calibrated[some] = np.asarray(served.calibrated)[back]
            concurrency[some] = np.asarray(served.in_flight)[back] if loaded else loads[some]
        output, ttft, tpot = columns
        if loaded:  # what arrives is answered, no more
            output = np.where(np.isnan(tpot), np.nan, loads * self._output_tokens)
        return Rates(concurrency, output, ttft, tpot, binds, calibrated)

    def _served(self, pairs: Floats, *, loaded: bool) -> Served:
        deployments = [self.deployments[row] for row in pairs[:, 0].astype(int).tolist()]
        ask = self._predictor.under_load if loaded else self._predictor.closed_loop
        return ask(deployments, self._traffic, pairs[:, 1], self._confidence)


def _by_level(served: Served) -> Floats:
    """Output rate, TTFT and TPOT, (3, 3, n): each by `Level`."""
    rate, ttft, tpot = served.output_tokens_per_second, served.ttft_seconds, served.tpot_seconds
    return np.array([
        [rate.lower, rate.median, rate.upper],
        [ttft.upper, ttft.median, ttft.lower],
        [tpot.upper, tpot.median, tpot.lower],
    ])  # fmt: skip
