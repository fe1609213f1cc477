"""Checks candidates against the limits of a question, counts instances, times runs, and ranks rows.

The limits are checked in a fixed order, and only candidates that meet one are checked against the next. A
type is rejected for the limit that removes its last candidate: the reason holds for all disks and batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog.support import most_startable
from advisor.domain import Candidate, Spec, Task
from advisor.domain.decision import expected_cost
from advisor.domain.money import term_hours
from advisor.engine.columns import Booleans, Columns, Floats, Integers, Level
from advisor.engine.table import Table, best_of_each
from advisor.errors import UsageError
from advisor.messages import Message
from advisor.models.bayes import gaussian_multiplier
from advisor.questions.network import NetworkQuestion
from advisor.questions.spec import SpecQuestion, start_hours

# What reaches this share of the best counts as good; of runs and of training, whose cost is the batch's rate,
# a batch has to reach the second one.
GOOD_ENOUGH, _GOOD_RUN = 0.95, 0.99
# A change of settings counts as cheaper only below this share of the price.
CLEARLY_LESS = 0.95
# The first epoch reads the disk: it may take up to this many times as long as later ones must.
MOST_FIRST_EPOCHS = 2.0
# The most instances of an answer: larger fleets need another kind of answer.
MOST_INSTANCES = 1000
TOO_SLOW = "too_slow"
# Chances that differ by less count as equal.
_SAME_CHANCE = 0.01


class Limit(Struct, frozen=True):
    """A limit: the reason code, which rows meet it, how near each row comes to it (higher is nearer), and the
    factor by which each row misses it, if that is known."""

    reason: str
    keeps: Booleans
    nearness: Floats
    factor: Floats | None = None

    @classmethod
    def most(cls, reason: str, values: Floats, most: float) -> Limit:
        """The limit on rows whose `values` may not exceed `most`."""
        return cls(reason, values <= most, -values, values / most)

    @classmethod
    def least(cls, reason: str, values: Floats, least: Floats | float) -> Limit:
        """The limit on rows whose `values` may not fall below `least`."""
        with np.errstate(divide="ignore"):
            return cls(reason, values >= least, values, least / values)

    def take(self, rows: Integers) -> Limit:
        """The limit on some of the rows."""
        factor = None if self.factor is None else self.factor[rows]
        return Limit(self.reason, self.keeps[rows], self.nearness[rows], factor)

    def beside(self, other: Limit) -> Limit:
        """The limit on these rows, followed by those of another table."""
        factor = None
        if self.factor is not None and other.factor is not None:
            factor = np.concatenate([self.factor, other.factor])
        keeps = np.concatenate([self.keeps, other.keeps])
        return Limit(self.reason, keeps, np.concatenate([self.nearness, other.nearness]), factor)


def require_countable(request: NetworkQuestion) -> None:
    """Raise `UsageError` for several independent instances that would have to train together."""
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
    """Return whether the answer has the front of price and rate: without a target, or on request."""
    return request.target_throughput is None or request.pareto


def is_plain(request: NetworkQuestion) -> bool:
    """Return whether only the rate and the hourly price decide, so that few types can be near the best."""
    return request.ranks_by_price and not wants_front(request)


def completed(request: NetworkQuestion, table: Table) -> Table:
    """The table with the hours of runs, and with the instances that each row needs, up to `max_count`.
    Independent instances have the bottleneck of a single one, and their errors are fully correlated: the
    lower bound of n is n times that of one (docs/internals/scaling.md). If a miss counts by its cost, rows
    with more instances follow, which miss less often, up to the count whose lower bound is enough."""
    table = with_runs(request, table)
    if request.max_count == 1:
        return table
    most = most_count(request, table)
    sure = np.minimum(_count_needed(request, table, Level.SURE), most)
    if request.is_sure:
        return at_count(table, sure)
    even = np.minimum(_count_needed(request, table, Level.MEDIAN), most)
    whole = at_count(table, even)
    between = (even + sure) // 2
    for count, more in ((between, (between > even) & (between < sure)), (sure, sure > even)):
        if more.any():
            whole = whole.beside(at_count(table, count).take(more))
    return whole


def _count_needed(request: NetworkQuestion, table: Table, level: Level) -> Integers:
    """The number of instances that the target and the longest run take."""
    needed, start = np.ones(len(table)), table.start_hours
    if request.target_throughput is not None:
        needed = np.maximum(needed, times_needed(request.target_throughput, table.each[level]))
    if request.max_hours is not None and table.hours is not None:
        needed = np.maximum(needed, times_needed(table.hours[level] - start, request.max_hours - start))
    return np.minimum(needed, MOST_INSTANCES + 1).astype(np.intp)


def with_runs(request: NetworkQuestion, table: Table) -> Table:
    """The table with the hours of the request's run, if any, on one instance or on all nodes of a training.
    Training reads its data from the disk in the first epoch, and from the page cache, as far as RAM holds it,
    in later ones."""
    samples = request.run_samples
    if samples is None:
        return table
    training = request.task is Task.TRAINING
    count = table.count if training else np.ones(len(table), dtype=np.intp)
    first = min(samples, request.dataset.samples) if training else samples
    start = start_hours(request)
    with np.errstate(divide="ignore"):
        hours = start + first / table.first / 3600
        if samples > first:
            hours += (samples - first) / (count * table.each) / 3600
    return replace(table, hours=hours, count=count, start_hours=start)


def at_count(table: Table, count: Integers) -> Table:
    """The rows with other counts of instances; these share a run evenly, after each has started."""
    if table.hours is None:
        return replace(table, count=count)
    share, start = (1 / count) / (1 / table.count), table.start_hours
    return replace(table, count=count, hours=start + (table.hours - start) * share)


def most_count(request: NetworkQuestion, table: Table) -> Integers:
    """The most instances per row that `max_count` and the quota allow; one at least."""
    if not request.vcpu_quota:
        return np.full(len(table), request.max_count)
    startable = [most_startable(offer, request.vcpu_quota) for offer in table.offers()]
    most = np.minimum(request.max_count, np.maximum(1.0, np.array(startable)))
    return np.asarray(most.astype(np.intp)[table.option])


def count_that_would_do(request: NetworkQuestion, nearest: Candidate) -> int | None:
    """The number of instances of the nearest spec that would answer; None if other limits forbid it."""
    target, spec = request.target_throughput, nearest.spec
    if request.task is Task.TRAINING or target is None or request.max_usd_per_hour is not None:
        return None
    rates = nearest.prediction
    rate = rates.lower if request.is_sure else rates.median
    needed = float(times_needed(target, rate / spec.count))
    most = min(MOST_INSTANCES, most_startable(spec.offer, request.vcpu_quota))
    return int(needed) if request.max_count < needed <= most else None


def times_needed(wanted: Floats | float, each: Floats | float) -> Floats:
    """The least whole number by which `each` reaches `wanted`; inf if none does."""
    wanted, each = np.broadcast_arrays(np.asarray(wanted, float), np.asarray(each, float))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = wanted / each
        times = np.ceil(ratio)
        # Division rounds, so the result may be one too many or too few.
        times = np.where((times > 1) & ((times - 1) * each >= wanted), times - 1, times)
        times = np.where(times * each >= wanted, times, times + 1)
        return np.where((each > 0) & (each < np.inf) & (ratio < 2**53), times, np.inf)


def cost(request: NetworkQuestion, table: Table, level: Level = Level.MEDIAN) -> Floats:
    """The hourly price if there is a target, else the cost of the run or of a million samples."""
    hours = None if table.hours is None else table.hours[level]
    usd = table.usd * terms_of(request, table, request.horizon_hours if hours is None else hours)
    if request.ranks_by_price:
        return usd
    if hours is not None:
        return np.asarray(hours * usd)
    with np.errstate(divide="ignore"):
        return np.asarray(usd / (table.count * table.each[level] * 3600) * 1e6)


def rank(request: NetworkQuestion, table: Table) -> Floats:
    """The cost by which rows are ranked; unless the request is sure, with the expected cost of a miss."""
    costs = cost(request, table)
    return costs if request.is_sure else expected_cost(costs, chances_of(request, table))


def chances_of(request: NetworkQuestion, table: Table) -> Floats:
    """The chance of each row to reach the target and all limits that its rate decides."""
    return lowest_chances(aims(request, table), request.confidence, len(table))


def aims(request: NetworkQuestion, table: Table) -> list[Aim]:
    """The target and each limit that the rate decides, as rates with the value that they must reach."""
    goals = list[Aim]()
    if request.target_throughput is not None:
        goals.append((table.rates, request.target_throughput))
    with np.errstate(divide="ignore", invalid="ignore"):
        if request.max_latency_ms is not None:
            lower, median = 1 / table.p99_seconds
            goals.append(((lower, median, median * (median / lower)), 1000 / request.max_latency_ms))
        if request.max_first_epoch_hours is not None:
            least = _least_first_rate(request, 0.0)
            goals.append((table.first, float(least or 0.0)))
        if table.hours is None:
            return goals
        if request.max_hours is not None:
            goals.append((1 / table.hours, 1 / request.max_hours))
        if request.max_run_usd is not None:
            goals.append((1 / table.hours / table.usd, 1 / request.max_run_usd))
    return goals


def level_of(request: SpecQuestion) -> Level:
    """The level at which a spec must meet target and limits: the median if a miss counts by its cost."""
    return Level.SURE if request.is_sure else Level.MEDIAN


def limits(request: NetworkQuestion, table: Table) -> Iterator[Limit]:
    """The limits of the request, in the order in which they are checked."""
    level, run_rate = level_of(request), run_rates(request, table)
    rate, hours = table.rates[level], None if table.hours is None else table.hours[level]
    if not request.allow_extrapolation:
        yield Limit("no_interval", table.calibrated, run_rate)
    if request.max_latency_ms is not None:
        yield Limit.most("latency", 1000 * table.p99_seconds[level], request.max_latency_ms)
    if request.target_throughput is not None:
        yield Limit.least(TOO_SLOW, rate, request.target_throughput)
    least = _least_first_rate(request, rate)
    if least is not None:
        yield Limit.least("slow_first_epoch", table.first[level], least)
    if hours is not None and request.max_hours is not None:
        yield Limit("too_long", hours <= request.max_hours, run_rate, hours / request.max_hours)
    if hours is not None and request.max_run_usd is not None:
        yield Limit.most("over_max_cost", hours * table.usd, request.max_run_usd)
    if request.max_usd_per_hour is not None:
        yield Limit.most("over_max_price", table.usd, request.max_usd_per_hour)


def answering(request: NetworkQuestion, table: Table, *, but_for: Sequence[str] = ()) -> Booleans:
    """A mask (n,) of the rows that meet all limits except those with the reasons `but_for`."""
    return keeping_all(limits(request, table), len(table), but_for)


def keeping_all(judged: Iterable[Limit], count: int, but_for: Sequence[str] = ()) -> Booleans:
    """A mask (`count`,) of the rows that meet all of these limits except those with the reasons `but_for`."""
    keeps = np.ones(count, dtype=bool)
    for limit in judged:
        if limit.reason not in but_for:
            keeps &= limit.keeps
    return keeps


def _least_first_rate(request: NetworkQuestion, rate: Floats | float) -> Floats | float | None:
    """The least rate that the first pass over the data needs, for rows of this `rate`; None without a limit.
    Later epochs read from RAM what the first one read from the disk. Without this limit, a good rate of later
    epochs would allow a disk with which the first takes days. A run's cost counts its first epoch anyhow."""
    if request.task is not Task.TRAINING:
        return None
    if request.max_first_epoch_hours is not None:
        return request.first_samples / (3600 * request.max_first_epoch_hours)
    if request.run_samples is not None:
        return None
    if request.target_throughput is not None:
        return request.target_throughput / MOST_FIRST_EPOCHS
    return rate / MOST_FIRST_EPOCHS


def run_rates(request: NetworkQuestion, table: Table) -> Floats:
    """The rate that decides: the mean over the whole run if there is one."""
    level = level_of(request)
    if table.hours is None or request.run_samples is None:
        return np.asarray(table.rates[level])
    hours = table.hours[level]
    with np.errstate(divide="ignore"):
        whole = request.run_samples / (hours * 3600)
    return np.where((hours > 0) & (hours < np.inf), whole, 0.0)


def best_rows(request: NetworkQuestion, table: Table, good: Integers) -> Integers:
    """The best of the `good` rows of each type, with which the type enters the ranking."""
    if not len(good):
        return good
    some = table.take(good)
    best = best_of_each(some.kind, rank(request, some), -some.lower)
    return good[_good_batches(request, some, best)]


def good_batches(request: NetworkQuestion, table: Table) -> Integers:
    """The row of each spec with the batch size that answers show for it."""
    return _good_batches(request, table, np.arange(len(table)))


def good_share(request: NetworkQuestion) -> float:
    """The share of the best batch's lower bound that the chosen, smaller batch has: who waits for a service
    gets an answer sooner for up to 5 % of its rate."""
    return _GOOD_RUN if request.ends or request.task is Task.TRAINING else GOOD_ENOUGH


def at_good_batch(request: NetworkQuestion, table: Table, row: int) -> int:
    """The row of the same spec with the batch size that answers show; a limit on latency chooses it."""
    if request.max_latency_ms is not None:
        return row
    same = np.flatnonzero((table.spec == table.spec[row]) & (table.count == table.count[row]))
    return int(same[good_batches(request, table.take(same))[0]])


def _good_batches(request: NetworkQuestion, table: Table, chosen: Integers) -> Integers:
    """The rows of the chosen rows' specs at good batches: among those as likely to meet target and limits as
    the best row, the smallest whose lower bound is a good share of their best one. The best row ranks first;
    for a sure request all that keep the limits surely are as likely."""
    spec, lower = table.spec * (MOST_INSTANCES + 1) + table.count, table.lower
    known = np.array(sorted(set(spec[chosen].tolist())))  # np.unique and np.isin load numpy.ma, 10 ms
    index = np.searchsorted(known, spec).clip(max=len(known) - 1)
    same = np.flatnonzero(known[index] == spec)
    spec, index, lower, some = spec[same], index[same], lower[same], table.take(same)
    chances = chances_of(request, some)
    first = -chances if request.is_sure else expected_cost(cost(request, some), chances)
    likely = chances[best_of_each(spec, first, -chances)]
    # A smaller batch must not raise the chance of a miss, nor make a safe spec unsafe.
    as_likely = likely - _SAME_CHANCE
    safe = request.confidence if request.is_sure else np.maximum(as_likely, request.confidence)
    sure = chances >= np.where(likely >= request.confidence, safe, as_likely)[index]
    most = np.zeros(len(known))
    np.maximum.at(most, index[sure], lower[sure])
    near = np.flatnonzero(sure & (lower >= good_share(request) * most[index]))
    return np.asarray(same[near[best_of_each(spec[near], table.batch[same[near]])]])


def closest_of_each(
    judged: Sequence[Limit], kinds: Integers, usd: Floats, rows: Integers
) -> list[tuple[int, str]]:
    """For each type the row that comes nearest to the limit that the type misses, and the limit's reason,
    sorted by type. `kinds` numbers the types of all rows; each of the `rows` misses some limit."""
    closest: dict[int, tuple[int, str]] = {}
    for limit in judged:
        keeps = rows[limit.keeps[rows]]
        lost = rows[~np.isin(kinds[rows], kinds[keeps])]
        # Equal rates may differ in their last digits: rounded, the cheapest of them is taken.
        best = lost[best_of_each(kinds[lost], -_to_nine_digits(limit.nearness[lost]), usd[lost])]
        closest |= {int(kinds[row]): (row, limit.reason) for row in best.tolist()}
        rows = keeps
    if len(rows):
        raise ValueError("one of them misses nothing")
    return [closest[kind] for kind in sorted(closest)]


def factors_of(judged: Iterable[Limit]) -> Callable[[int, str], float]:
    """A function of (row, reason) that returns by which factor the row misses that limit; inf if unknown."""
    known = {limit.reason: limit.factor for limit in judged if limit.factor is not None}
    return lambda row, reason: float(known[reason][row]) if reason in known else math.inf


def closest(judged: Sequence[Limit], usd: Floats, rows: Integers) -> tuple[int, str]:
    """The nearest of rows of one type, and the reason of the limit that the type misses."""
    return closest_of_each(judged, np.zeros(len(usd), dtype=np.intp), usd, rows)[0]


def _to_nine_digits(values: Floats) -> Floats:
    """The values rounded to nine significant digits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (8 - np.floor(np.log10(np.abs(values))))
        return np.where((scale > 0) & (scale < np.inf), np.rint(values * scale) / scale, values)


def terms_of(request: SpecQuestion, table: Columns, hours: Floats | float) -> Floats | float:
    """The factor (n,) by which rows cost more than the hours of use, since a commitment's whole term is paid.
    1 for work without an end on the market that the request names: then all offers have the same term."""
    if request.market is not None and not request.owes_term:
        return 1.0
    terms = np.array([term_hours(offer.market) for offer in table.offers()])[table.option]
    return _times_paid(request, terms, hours)


def term_factor(request: SpecQuestion, spec: Spec, hours: float) -> float:
    """The factor of `terms_of` for one spec."""
    if request.market is not None and not request.owes_term:
        return 1.0
    return float(_times_paid(request, term_hours(spec.offer.market), hours))


def _times_paid(request: SpecQuestion, terms: Floats | float, hours: Floats | float) -> Floats:
    """Hours that are owed over those of use. A run longer than the horizon takes several machines."""
    machines = np.ceil(np.minimum(hours / request.horizon_hours, 1e9))  # a rate of 0 takes forever
    return np.asarray(np.maximum(1.0, terms / hours * machines))


# Beyond this many standard deviations a chance counts as 0 or 1.
_CERTAIN = 6.0


def chances_of_reaching(
    lower: Floats, median: Floats, upper: Floats, confidence: float, target: Floats | float
) -> Floats:
    """Probabilities (n,) that rates are `target` or more; they never rise with the target. They are 0 or 1
    for rates without an interval, such as those at confidence 0.5."""
    z = gaussian_multiplier(confidence)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        distance = np.log(median / target)
        width = np.where(distance >= 0, np.log(median / lower), np.log(upper / median))
        exactly = np.where(distance >= 0, np.inf, -np.inf)
        points = np.where((width > 0) & (z > 0), z * distance / width, exactly)
    return _normal_cdf(np.where(median > 0, points, -np.inf))


# Lower bounds, medians and upper bounds (3, n) of rates, and the rate that they have to reach.
Aim = tuple[Sequence[Floats] | Floats, float]


def lowest_chances(aims: Sequence[Aim], confidence: float, count: int) -> Floats:
    """The chance of each of `count` rows to reach all of its aims. These depend on the same rate and are
    missed together, so that the aim with the lowest chance decides."""
    lowest = np.ones(count)
    for (lower, median, upper), target in aims:
        lowest = np.minimum(lowest, chances_of_reaching(lower, median, upper, confidence, target))
    return lowest


def _normal_cdf(points: Floats) -> Floats:
    """The standard normal distribution function (n,)."""
    chances = (points > 0).astype(float)
    near = np.flatnonzero(np.abs(points) < _CERTAIN)
    roots = (points[near] / -math.sqrt(2)).tolist()
    chances[near] = 0.5 * np.fromiter(map(math.erfc, roots), float, len(roots))
    return chances
