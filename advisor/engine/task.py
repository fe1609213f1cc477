"""The interface of a task, through which `advisor.engine.decide` answers questions of any task.

A task knows its workload and its predictor. Ranking, uncertain prices, trials and relaxations are the same
for all tasks. `R` is the request, `O` the options, which no target changes, `T` the table, `C` the candidate
and `A` the answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.domain import Rejected, Relaxation, Spec
from advisor.domain.decision import TRIAL_MINUTES, Judged, expected_cost
from advisor.domain.results import is_measured
from advisor.engine.columns import Booleans, Columns, Floats, Integers, Level
from advisor.engine.constraints import Constraint, Effort
from advisor.engine.limits import (
    GOOD_ENOUGH,
    Aim,
    Limit,
    closest,
    closest_of_each,
    factors_of,
    keeping_all,
    lowest_chances,
)
from advisor.engine.rejected import price_order
from advisor.engine.table import best_of_each
from advisor.messages import Message
from advisor.models.bayes import gaussian_multiplier
from advisor.questions.spec import SpecQuestion

# The least chance of keeping target and limits that a recommended spec may have.
EVEN = 0.5
# Of this many specs, cheapest by median prices, the one with the lowest upper price is searched.
MOST_RIVALS = 10
# Standard deviations that three in four of a normal distribution stay below.
QUARTILE = 0.674
# Costs within this factor count as equal, unless their error is smaller.
EQUAL = 1.1
# Of two ways to use one instance whose expected costs are within this factor, the faster is taken.
ALIKE = 1.02


class Options(Protocol):
    """The options that can run at all, whatever the target; the types that cannot run the work, each with its
    reason, and the number of priced offers looked at."""

    @property
    def rejected(self) -> Sequence[Rejected]: ...  # noqa: D102
    @property
    def considered(self) -> int: ...  # noqa: D102


class HasSpec(Protocol):
    """A candidate: what is rented, and the chance that it keeps the target and the limits on its rate."""

    @property
    def spec(self) -> Spec: ...  # noqa: D102
    @property
    def probability(self) -> float | None: ...  # noqa: D102


R = TypeVar("R", bound=SpecQuestion)
O = TypeVar("O", bound=Options)  # noqa: E741
T = TypeVar("T", bound=Columns)
C = TypeVar("C", bound=HasSpec)
A = TypeVar("A", bound=Judged[Any, Any])


class Contender(NamedTuple, Generic[T]):
    """A row of a table with its cost and its chance of meeting target and limits; `settled` is false where no
    trial can measure its rate."""

    table: T
    row: int
    cost: float
    chance: float
    trial_minutes: float = TRIAL_MINUTES
    settled: bool = True


class Task(ABC, Generic[R, O, T, C, A]):
    """One kind of work: how its options are listed, predicted, limited and priced."""

    # The record of an answer.
    answer: type[A]
    catalog: Catalog

    @abstractmethod
    def options(self, request: R, most_usd_per_hour: float | None = None) -> O:
        """The options of instances up to a price; `UsageError` for unknown names."""

    @abstractmethod
    def predict(self, request: R, options: O) -> T | None:
        """The table of all candidates with their predictions; None where nothing runs."""

    @abstractmethod
    def limits(self, request: R, table: T) -> Sequence[Limit]:
        """The limits of the request, in the order in which they are checked."""

    @abstractmethod
    def cost(self, request: R, table: T, level: Level = Level.MEDIAN) -> Floats:
        """The cost of rows that keep target and limits, at one level of their rates."""

    @abstractmethod
    def aims(self, request: R, table: T) -> Sequence[Aim]:
        """The target and each limit that rates decide, as rates with the value that they must reach."""

    @abstractmethod
    def candidate_cost(self, request: R, candidate: C) -> float:
        """The cost of a candidate: that of its row."""

    @abstractmethod
    def rate(self, request: R, table: T) -> Floats:
        """The rates of rows; among equal costs, the highest rate comes first."""

    @abstractmethod
    def candidates(self, request: R, table: T, rows: Sequence[int]) -> Sequence[C]:
        """Rows as records."""

    @abstractmethod
    def shortfall(self, request: R, table: T, row: int, reason: str) -> Message:
        """The limit that a row misses, with the number that decided."""

    @abstractmethod
    def assumptions(self, request: R, chosen: C | None) -> Sequence[Message]:
        """Everything the answer takes for granted, one short clause each."""

    @abstractmethod
    def warnings(self, chosen: C, today: date) -> Sequence[Message | str]:
        """The weaknesses of the answer that a reader can check."""

    @abstractmethod
    def constraints(self, request: R) -> Iterator[Constraint]:
        """The constraints that may be relaxed: all that are set, and place, market and confidence."""

    @abstractmethod
    def needs(self, name: str, request: R, table: T) -> Floats:
        """For each row the value of the constraint `name` that it just keeps."""

    def cheap_usd_per_hour(self, request: R) -> Sequence[float]:
        """Rising price limits: dearer types are looked at only if cheaper ones do not fill the answer."""
        return ()

    def answering(self, request: R, table: T, *, but_for: Sequence[str] = ()) -> Booleans:
        """Which rows keep all limits except those with the reasons `but_for`."""
        return keeping_all(self.limits(request, table), len(table), but_for)

    def chance(self, request: R, table: T) -> Floats:
        """The probability that rows keep the target and every limit that rates decide."""
        return lowest_chances(self.aims(request, table), request.confidence, len(table))

    def with_chances(self, request: R, table: T, rows: Sequence[int], records: Sequence[C]) -> list[C]:
        """The records of `rows` with their chances, where there is a target or a limit."""
        some = table.take(np.array(rows, dtype=np.intp))
        if not self.aims(request, some):
            return list(records)
        chances = self.chance(request, some).tolist()
        pairs: Any = zip(records, chances, strict=True)
        return [replace(record, probability=chance) for record, chance in pairs]

    def rank(self, request: R, table: T) -> Floats:
        """The expected cost that rows rank by: their cost, and that of a miss times its chance."""
        costs = self.cost(request, table)
        return costs if request.is_sure else expected_cost(costs, self.chance(request, table))

    def candidate_rank(self, request: R, candidate: C) -> float:
        """The expected cost that a candidate ranks by."""
        cost, chance = self.candidate_cost(request, candidate), candidate.probability
        return cost if request.is_sure or chance is None else expected_cost(cost, chance)

    def ranked_rows(self, request: R, options: O, table: T) -> Integers:
        """The best answering row of each type, best first."""
        good = np.flatnonzero(self.answering(request, table))
        if not len(good):
            return good
        kinds, usd = table.kind[good], table.usd[good]
        ranks, rates = self.rank(request, table)[good], self.rate(request, table)[good]
        first = best_of_each(kinds, ranks, -rates)
        # Rows of a type with the price of its best row and nearly its rank: the fastest enters the ranking.
        lead = first[np.searchsorted(kinds[first], kinds)]
        alike = (usd == usd[lead]) & (ranks <= ALIKE * ranks[lead])
        best = best_of_each(kinds, np.where(alike, ranks[lead], ranks), -rates)
        return self.in_order(request, table, good[best])

    def in_order(self, request: R, table: T, rows: Integers) -> Integers:
        """The rows sorted by rank, ties by rate, then name. Among those whose costs are equal within the
        error, one with a measured GPU comes first, of several the one with the least cost times hours (times
        hourly price, for work without an end): no other of them is both cheaper and as quick. What is
        chosen without limits comes before all where it surely keeps them."""
        some = table.take(rows)
        ranks, rates, costs = self.rank(request, some), self.rate(request, some), self.cost(request, some)
        names = some.names[some.kind].tolist()
        order = sorted(range(len(rows)), key=lambda i: (ranks[i], -rates[i], names[i]))
        level = np.flatnonzero(self.level(request, some)).tolist()
        sure = self.chance(request, some) > request.confidence - 1e-9
        preferred = [i for i in order if sure[i] and (names[i], some.offer(i).market) == request.preferred]
        if preferred:
            order.sort(key=lambda i: i not in preferred)
        elif len(level) > 1:
            known = dict(zip(level, self.candidates(request, some, level), strict=True))
            gpus = {i: record.spec.offer.instance.gpu_name for i, record in known.items()}
            # A GPU counts as unmeasured if one of its rows is: rows bound by vCPUs say nothing about it.
            unmeasured = {gpus[i] for i, record in known.items() if not is_measured(record)}
            with np.errstate(divide="ignore", invalid="ignore"):
                decides = np.nan_to_num(ranks * (costs / some.usd if request.ends else some.usd))  # free: 0
            first = min((i for i in order if i in gpus), key=lambda i: (gpus[i] in unmeasured, decides[i]))
            order.sort(key=lambda i: i != first)
        return rows[np.array(order, dtype=np.intp)]

    def level(self, request: R, table: T) -> Booleans:
        """Which rows cost the same as the cheapest within the error: up to `EQUAL` times its cost, and up to
        the upper quartile of its cost. They surely keep the limits, or as surely as the cheapest."""
        if not len(table) or not request.has_equal_costs:
            return np.zeros(len(table), dtype=bool)
        ranks = self.rank(request, table)
        cheapest = int(ranks.argmin())
        least, worst = float(ranks[cheapest]), float(self.cost(request, table, Level.SURE)[cheapest])
        share = QUARTILE / max(QUARTILE, gaussian_multiplier(request.confidence))
        quartile = least * max(1.0, worst / least) ** share if least else least  # one's own machine is free
        chances = self.chance(request, table)
        is_as_sure = chances >= min(request.confidence, chances[cheapest])
        return np.asarray((ranks <= min(quartile, EQUAL * least)) & is_as_sure)

    def nearest_row(self, request: R, table: T) -> int:
        """The row that comes closest to an answer, within the price limit if any is: the cheapest whose worst
        miss is about the least; where a missed limit has no factor, the cheapest about nearest to a limit."""
        usd, most = table.usd, request.max_usd_per_hour
        rows = np.arange(len(table)) if most is None else np.flatnonzero(usd <= most)
        if not len(rows):
            return int(usd.argmin())
        limits = self.limits(request, table)
        missed = [limit for limit in limits if not limit.keeps[rows].all()]
        if all(limit.factor is not None for limit in missed):
            times = np.max([limit.factor for limit in missed if limit.factor is not None], axis=0)
            near = rows[times[rows] <= max(1.0, times[rows].min()) / GOOD_ENOUGH]
            return int(near[self.cost(request, table.take(near)).argmin()])
        row, reason = closest(limits, usd, rows)
        for limit in limits:
            if limit.reason == reason:
                break
            rows = rows[limit.keeps[rows]]
        least = limit.nearness[row] * (GOOD_ENOUGH if limit.nearness[row] > 0 else 1 / GOOD_ENOUGH)
        near = rows[limit.nearness[rows] >= least]
        return int(near[np.lexsort((-limit.nearness[near], usd[near]))[0]])

    def shown(self, request: R, options: O, table: T, rows: Sequence[int]) -> Sequence[C]:
        """Rows as records, with all details that a ranked candidate has."""
        return self.candidates(request, table, rows)

    def nearest(self, request: R, options: O, table: T) -> tuple[C | None, tuple[Message, ...]]:
        """The option that comes closest where nothing answers, and the limits that it misses."""
        row = self.nearest_row(request, table)
        return self.shown(request, options, table, [row])[0], tuple(self.misses(request, table, row))

    def misses(self, request: R, table: T, row: int) -> Iterator[Message]:
        """The limits that a row misses: the first, and of the others those with a known factor."""
        is_first = True
        for limit in self.limits(request, table):
            factor = limit.factor
            if not limit.keeps[row] and (is_first if factor is None else factor[row] > 1):
                yield self.shortfall(request, table, row, limit.reason)
                is_first = False

    def with_nearest(self, answer: A, ways: Sequence[Relaxation]) -> A:
        """The answer, whose nearest spec may come from what the `ways` to relax it give."""
        return answer

    def rejected(self, request: R, options: O, table: T | None) -> Sequence[Rejected]:
        """Types without an answering row, with their nearest row's reason; cheapest first, unpriced last."""
        misses = [*options.rejected, *(self._missed(request, table) if table is not None else ())]
        return sorted(misses, key=price_order)

    def _missed(self, request: R, table: T) -> Iterator[Rejected]:
        limits, usd = self.limits(request, table), table.usd
        answered = np.zeros(len(table.names), dtype=bool)
        answered[table.kind[self.answering(request, table)]] = True
        factors = factors_of(limits)
        for row, reason in closest_of_each(limits, table.kind, usd, np.flatnonzero(~answered[table.kind])):
            detail, instance = self.shortfall(request, table, row, reason), table.offer(row).instance
            known = float(usd[row]), None, int(table.count[row]), factors(row, reason)
            yield Rejected(instance.cloud, instance.name, reason, detail, *known)

    def require_intervals(self, request: R, options: O, table: T) -> None:
        """Raises `NoIntervalError` where only predictions without a calibrated interval would answer."""

    def details(
        self, request: R, options: O, table: T, rows: Integers, chosen: C | None, today: date
    ) -> dict[str, Any]:
        """Further fields of the answer that is given."""
        return {}

    def notes(self, request: R, chosen: C) -> Iterable[Message]:
        """Warnings about a question that only its answer shows."""
        return ()

    def no_trial(self, request: R) -> Message | None:
        """The reason why no trial can run this request; None where one can."""
        return Message("trials cannot run this kind of work")

    def contenders(self, request: R, options: O, table: T, limit: float) -> Iterable[Contender[T]]:
        """Rows that may answer, are not sure to, and cost less than `limit`."""
        return ()

    def looked_at(self, request: R, rows: Sequence[tuple[T, int]]) -> list[Contender[T]]:
        """The given rows of tables as contenders, with their costs and chances."""
        singles = [table.take(np.array([row], dtype=np.intp)) for table, row in rows]
        return [
            Contender(
                table, row, float(self.cost(request, single)[0]), float(self.chance(request, single)[0])
            )
            for (table, row), single in zip(rows, singles, strict=True)
        ]

    def to_relax(self, answer: A, effort: Effort) -> tuple[Task[R, O, T, C, A], R]:
        """The task that answers changed requests where nothing answers, and the request to change."""
        return self, answer.request

    def every_answer(self, request: R) -> tuple[T | None, int]:
        """All answering rows, unordered (None: nothing runs), and the number of rows looked at."""
        table = self.predict(request, self.options(request))
        if table is None:
            return None, 0
        return table.take(self.answering(request, table)), len(table)

    def further_relaxations(
        self, answer: A, answers: Callable[[R], T | None], chosen: Callable[[R], C | None]
    ) -> Iterable[Relaxation]:
        """Relaxations beyond the constraints; `answers` and `chosen` answer changed requests."""
        return ()
