"""The task of training, serving or preprocessing for a network."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Any

import numpy as np
from msgspec.structs import replace

from advisor.catalog import is_accelerated
from advisor.domain import MEASURABLE_PRECISIONS, Candidate, Change, Recommendation, Relaxation
from advisor.domain import Task as Work
from advisor.engine import decide
from advisor.engine.assumptions import assumptions, warnings
from advisor.engine.candidates import asks_for_gpu, cpus_may_compete
from advisor.engine.columns import Booleans, Floats, Integers, Level
from advisor.engine.constraints import ENDLESS, Amount, Choice, Constraint, Effort, constraints_of
from advisor.engine.judging import LEAST_SHARE, Judgement, judgement, worth_taking
from advisor.engine.limits import (
    Limit,
    aims,
    answering,
    at_count,
    at_good_batch,
    cost,
    count_that_would_do,
    good_batches,
    is_plain,
    level_of,
    limits,
    most_count,
    require_countable,
    term_factor,
)
from advisor.engine.prepared import Preparations, key_of
from advisor.engine.rejected import Missed, Rejections, shortfall, too_slow
from advisor.engine.table import Table
from advisor.engine.task import Contender, Task
from advisor.errors import NoIntervalError
from advisor.messages import FieldName, Message
from advisor.models.zoo.networks import can_be_run
from advisor.naming import spec_name
from advisor.questions.network import AUTO, NetworkQuestion
from advisor.questions.spec import start_hours

_MOST_NODES = 64
_MANY_ROWS = 42_000
_MOST_SHOWN = 10


def recommend(
    request: NetworkQuestion, preparations: Preparations, *, today: date, strict: bool = False
) -> Recommendation:
    """The answer to one request from shared preparations; raises what `decide.recommend` raises."""
    return decide.recommend(NetworkTask(preparations), request, today=today, strict=strict)


def table_of_disk_steps(request: NetworkQuestion, preparations: Preparations) -> Table | None:
    """The table of the types that are judged for a request, with only the catalogue's disk sizes."""
    options = NetworkTask(preparations).options(request)
    judged, table = options.judged, options.prepared.predicted.table
    if judged is None or table is None:
        return None
    return table.take(np.isin(table.kind, judged.table.kind))


class NetworkTask(Task[NetworkQuestion, Judgement, Table, Candidate, Recommendation]):
    """Training, inference and preprocessing of a network."""

    answer = Recommendation
    cost = staticmethod(cost)
    aims = staticmethod(aims)
    assumptions = staticmethod(assumptions)
    shortfall = staticmethod(shortfall)
    warnings = staticmethod(warnings)

    def __init__(self, preparations: Preparations) -> None:
        self.preparations, self.catalog = preparations, preparations.catalog
        self._seen: set[tuple[NetworkQuestion, str]] = set()

    def options(self, request: NetworkQuestion, most_usd_per_hour: float | None = None) -> Judgement:
        """The types that may be among the best, and the reasons against the others."""
        require_countable(request)
        return self._options(request, request.max_results)

    def _options(self, request: NetworkQuestion, shown: int, fitted: int | None = None) -> Judgement:
        prepared, listing = self.preparations.of(request), self.preparations.listing(request)
        return judgement(request, prepared, listing, shown, fitted)

    def predict(self, request: NetworkQuestion, options: Judgement) -> Table | None:
        judged = options.judged
        return None if judged is None else judged.table

    def limits(self, request: NetworkQuestion, table: Table) -> Sequence[Limit]:
        return list(limits(request, table))

    def candidate_cost(self, request: NetworkQuestion, candidate: Candidate) -> float:
        cost, hours, run = candidate.spec.total_usd_per_hour, request.horizon_hours, candidate.usd_per_run
        if not request.ranks_by_price:
            cost = run.median if run else candidate.usd_per_million_samples
            hours = candidate.run.hours.median if candidate.run else hours
        return cost * term_factor(request, candidate.spec, hours)

    def rate(self, request: NetworkQuestion, table: Table) -> Floats:
        """Samples per second at the lower bound."""
        return table.lower

    def ranked_rows(self, request: NetworkQuestion, options: Judgement, table: Table) -> Integers:
        """The rows that may be shown, best first; without a target, none that is far slower than the best."""
        judged = options.judged
        assert judged is not None
        best = judged.best
        if request.target_throughput is None and len(best):
            cheapest = best[int(cost(request, table)[best].argmin())]
            best = best[table.lower[best] >= LEAST_SHARE * table.lower[cheapest]]
        return self.in_order(request, table, best)

    def candidates(self, request: NetworkQuestion, table: Table, rows: Sequence[int]) -> list[Candidate]:
        return self.with_chances(request, table, rows, table.candidates(rows, request))

    def shown(
        self, request: NetworkQuestion, options: Judgement, table: Table, rows: Sequence[int]
    ) -> list[Candidate]:
        """Rows as records, each with its latency and its disk's burst."""
        latencies = table.source.predictions.latencies(table.row[rows].tolist())
        return [
            replace(
                candidate,
                spec=replace(candidate.spec, disk=options.prepared.with_burst(candidate)),
                latency=latency,
            )
            for candidate, latency in zip(self.candidates(request, table, rows), latencies, strict=True)
        ]

    def nearest(
        self, request: NetworkQuestion, options: Judgement, table: Table
    ) -> tuple[Candidate | None, tuple[Message, ...]]:
        """The option that comes closest, on as many instances as the price allows, and what it misses."""
        if not (request.allow_extrapolation or table.calibrated.any()):
            return None, ()
        limit = request.max_usd_per_hour
        if limit is not None and request.max_count > 1:
            fewer = np.maximum(1, np.floor(limit / table.usd_each)).astype(np.intp)
            table = at_count(table, np.where((table.count > 1) & (table.usd > limit), fewer, table.count))
        return super().nearest(request, options, table)

    def nearest_row(self, request: NetworkQuestion, table: Table) -> int:
        """The row that comes closest, at the batch size that answers show for its spec."""
        return at_good_batch(request, table, super().nearest_row(request, table))

    def with_nearest(self, answer: Recommendation, ways: Sequence[Relaxation]) -> Recommendation:
        """With the spec that keeps all but the target, where it is faster: a type without a GPU is not looked
        at that could not reach it."""
        request, before, today = answer.request, answer.nearest, answer.today
        slower = (
            way.gives for way in ways if [each.constraint for each in way.changes] == ["target_throughput"]
        )
        faster = [each for each in slower if before and each.prediction.median > before.prediction.median]
        if before is None or not faster:
            return answer
        nearest = replace(faster[-1], probability=None)
        notes = answer.warnings[: len(answer.warnings) - len(warnings(before, today))]
        return replace(
            answer,
            nearest=nearest,
            nearest_misses=(too_slow(request, nearest),),
            assumptions=assumptions(request, nearest),
            warnings=(*notes, *warnings(nearest, today)),
        )

    def rejected(self, request: NetworkQuestion, options: Judgement, table: Table | None) -> Rejections:
        # From an answer by surer prices only the first spec is used.
        at_any_price = request.listed_on is None and request.price_spread is None
        unpriced = options.listing.unpriced if at_any_price else ()
        judged = options.judged
        return Rejections(
            [*options.rejected, *unpriced],
            None if judged is None else Missed(request, judged.table, judged.missed),
            options.slow,
        )

    def require_intervals(self, request: NetworkQuestion, options: Judgement, table: Table) -> None:
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
                    precision=request.precision or AUTO,
                    percent=100 * request.confidence,
                ),
                hint=Message("ask for less with --confidence, or accept a guess with --allow-extrapolation"),
                field="confidence",
            )

    def details(
        self,
        request: NetworkQuestion,
        options: Judgement,
        table: Table,
        rows: Integers,
        chosen: Candidate | None,
        today: date,
    ) -> dict[str, Any]:
        """The front of price and rate, without the specs that nobody would take."""
        judged = options.judged
        front = None if judged is None else judged.front
        every = () if front is None else tuple(front.candidates(range(len(front)), request))
        return {"pareto": worth_taking(every, chosen)}

    def notes(self, request: NetworkQuestion, chosen: Candidate) -> Iterator[Message]:
        """A note that a GPU above the price limit does the run for less, where only CPUs are below it."""
        limit, cpu = request.max_usd_per_hour, chosen.usd_per_run
        is_cpu = cpus_may_compete(request) and not is_accelerated(chosen.spec.offer.instance)
        if limit is None or cpu is None or not is_cpu:
            return
        unlimited = replace(request, max_usd_per_hour=ENDLESS, accelerated_only=True)
        table, _ = self.every_answer(unlimited)
        if table is None or not len(table):
            return
        row = at_good_batch(unlimited, table, int(table.usd.argmin()))
        (gpu,) = self.candidates(unlimited, table, [row])
        if gpu.run and gpu.usd_per_run and gpu.usd_per_run.median < cpu.median:
            yield Message(
                "no GPU costs {limit:usd}/h or less; the cheapest by the hour, {name} at {usd:usd}/h, is "
                "done in {hours:hours} for {cost:usd} ({option})",
                limit=limit,
                name=spec_name(gpu.spec, request),
                usd=gpu.spec.total_usd_per_hour,
                hours=gpu.run.hours.median,
                cost=gpu.usd_per_run.median,
                option=FieldName("max_price"),
            )

    def no_trial(self, request: NetworkQuestion) -> Message | None:
        if not can_be_run(request.network):
            return Message(
                "`advisor verify` cannot run {network}; time your own script with `advisor measure FILE`",
                network=request.network,
            )
        return None if request.can_be_measured else Message("trials cannot run these settings")

    def contenders(
        self, request: NetworkQuestion, options: Judgement, table: Table, limit: float
    ) -> Iterator[Contender[Table]]:
        """Specs whose upper bound reaches the target and whose lower bound does not."""
        if request.target_throughput is None:
            return
        slower = [table.take(_borderline(request, table, limit))]
        if request.max_count > 1:
            # The same specs with one instance less.
            counted = table.take(table.count > 1)
            fewer = at_count(counted, counted.count - 1)
            slower.append(fewer.take(_borderline(request, fewer, limit)))
        for some in slower:
            costs, chances = cost(request, some).tolist(), self.chance(request, some).tolist()
            for row in good_batches(request, some).tolist():
                yield Contender(some, row, costs[row], chances[row])

    def looked_at(
        self, request: NetworkQuestion, rows: Sequence[tuple[Table, int]]
    ) -> list[Contender[Table]]:
        """The rows as contenders; those that no trial can run are not `settled`."""
        contenders = super().looked_at(request, rows)
        return [each._replace(settled=bool(_has_trial(each.table, [each.row])[0])) for each in contenders]

    def constraints(self, request: NetworkQuestion) -> Iterator[Constraint]:
        costs = request.max_usd_per_hour is not None or request.max_run_usd is not None
        amounts = (
            Amount("target_throughput", "--target-throughput", most=False, exact=not costs),
            Amount("max_usd_per_hour", "--max-price"),
            Amount("max_latency_ms", "--max-latency-ms", exact=True),
            Amount("max_first_epoch_hours", "--max-first-epoch-hours"),
            Amount("max_hours", "--max-hours"),
            Amount("max_run_usd", "--max-cost"),
        )
        return constraints_of(request, amounts, Choice("batch_size", "--batch-size", None))

    def needs(self, name: str, request: NetworkQuestion, table: Table) -> Floats:
        level, costs = (
            level_of(request),
            request.max_usd_per_hour is not None or request.max_run_usd is not None,
        )
        rate, hours = table.rates[level], np.full(len(table), np.inf)
        if not (costs or request.task is Work.TRAINING):
            # Without a target one instance answers: the most instances that are allowed reach more.
            rate = most_count(request, table) * rate / table.count
        if table.hours is not None:
            hours = table.hours[level]
        with np.errstate(divide="ignore", invalid="ignore"):
            values = {
                "batch_size": table.batch,
                "target_throughput": rate,
                "max_usd_per_hour": table.usd,
                "max_latency_ms": 1000 * table.p99_seconds[level],
                "max_first_epoch_hours": request.first_samples / table.first[level] / 3600,
                "max_hours": hours,
                "max_run_usd": hours * table.usd,
            }
        return np.asarray(values[name], dtype=float)

    def to_relax(self, answer: Recommendation, effort: Effort) -> tuple[NetworkTask, NetworkQuestion]:
        """This task with other types to look at, and the request for them."""
        request = answer.request
        judged = self._options(request, request.max_results).judged
        many = judged is not None and self._rows_first_seen(request, judged.table) > _MANY_ROWS
        if asks_for_gpu(request) or (many and request.task is not Work.PREPROCESSING):
            # A request for a GPU needs no types without one, of which all clouds have tens of thousands.
            effort.was_stopped = many
            request = replace(request, accelerated_only=True)
        # The number of shown specs changes no relaxation, but a lower one spares many CPU types.
        return NetworkTask(self.preparations), replace(
            request, max_results=min(request.max_results, _MOST_SHOWN)
        )

    def every_answer(self, request: NetworkQuestion) -> tuple[Table | None, int]:
        """The table of all specs and batch sizes that answer, unordered, and the number of rows looked at. Of
        the thousands of types without a GPU only those that may be among the `max_results` best are in it."""
        everything = replace(request, max_results=sys.maxsize)
        # Without a price limit, a finer disk makes no further type answer: only the cheapest gets one.
        fitted = 1 if request.max_usd_per_hour in (None, ENDLESS) else None
        judged = self._options(everything, request.max_results, fitted).judged
        if judged is None:
            return None, 0
        table = judged.table.take(answering(everything, judged.table))
        return table, len(table) + self._rows_first_seen(request, judged.table)

    def _rows_first_seen(self, request: NetworkQuestion, table: Table) -> int:
        """The number of rows whose types this task has not looked at before; where only the cheapest types of
        all clouds are judged, it counts only those without an accelerator."""
        kinds, key = np.unique(table.kind), key_of(request)
        if request.cloud == "any" and is_plain(request):
            options = table.source.options
            beside = request.task is not Work.PREPROCESSING
            has_none = [beside and not is_accelerated(option.offer.instance) for option in options]
            kinds = np.unique(table.kind[np.array(has_none)[table.option]])
        fresh = [kind for kind in kinds.tolist() if (key, table.names[kind]) not in self._seen]
        self._seen.update((key, table.names[kind]) for kind in fresh)
        return int(np.count_nonzero(np.isin(table.kind, np.array(fresh, dtype=np.intp))))

    def further_relaxations(
        self,
        answer: Recommendation,
        answers: Callable[[NetworkQuestion], Table | None],
        chosen: Callable[[NetworkQuestion], Candidate | None],
    ) -> Iterator[Relaxation]:
        """The rate of as many of the nearest instance as it takes, training on the fewest nodes, and as many
        epochs as the limits of a run allow."""
        request, nearest = answer.request, answer.nearest
        epochs = _epochs_within(request, nearest) if nearest else 0
        if epochs and (fewer := chosen(replace(request, epochs=epochs))):
            yield _count_relaxation("epochs", "--epochs", f"{request.epochs:g}", epochs, fewer)
        count = count_that_would_do(request, nearest) if nearest else None
        if count is not None and (gives := chosen(replace(request, max_count=count))):
            yield _count_relaxation("max_count", "--max-count", request.max_count, count, gives)
        if request.task is not Work.TRAINING or nearest is None:
            return
        if request.max_nodes >= _MOST_NODES:
            return
        table = answers(replace(request, max_nodes=_MOST_NODES))
        if table is not None and (
            gives := chosen(replace(request, max_nodes=1 << (int(table.count.min()) - 1).bit_length()))
        ):
            yield _count_relaxation("max_nodes", "--max-nodes", request.max_nodes, gives.spec.count, gives)


def _epochs_within(request: NetworkQuestion, nearest: Candidate) -> int:
    """As many epochs of the nearest spec as surely keep the limits on hours and dollars; 0 where not even one
    does, or where all do."""
    run, usd = nearest.run, request.max_run_usd
    if request.task is not Work.TRAINING or request.epochs is None or run is None:
        return 0
    affordable = math.inf if usd is None else usd / nearest.spec.total_usd_per_hour
    hours = min(request.max_hours or math.inf, affordable) - start_hours(request)
    first = run.first_epoch.upper if run.first_epoch else 0.0
    later = (run.hours.upper - start_hours(request) - first) / max(1.0, request.epochs - 1)
    epochs = math.floor(1 + (hours - first) / later) if first <= hours < math.inf and later > 0 else 0
    return epochs if epochs < request.epochs else 0


def _count_relaxation(name: str, option: str, before: object, after: int, gives: Candidate) -> Relaxation:
    change = Change(constraint=name, option=option, before=str(before), after=str(after))
    return Relaxation(changes=(change,), gives=gives)


def _borderline(request: NetworkQuestion, table: Table, limit: float) -> Booleans:
    """Which rows with a trial miss only the target, reach it at their upper bound, and cost below `limit`."""
    target = request.target_throughput or 0.0
    near = (table.lower < target) & (target <= table.rates[Level.HOPED]) & (cost(request, table) < limit)
    near[near] = _has_trial(table, np.flatnonzero(near))
    return np.asarray(near & answering(request, table, but_for=("too_slow",)) if near.any() else near)


def _has_trial(table: Table, rows: Sequence[int] | Integers) -> Booleans:
    """Which of the rows a trial can run: it is one process on one GPU, in a precision that trials know."""
    pairs = table.source.predictions.pairs
    known = [pairs[pair][0].precision in MEASURABLE_PRECISIONS for pair in table.row[rows].tolist()]
    return np.asarray(np.array(known, dtype=bool) & (table.source.gpus[table.option[rows]] == 1))
