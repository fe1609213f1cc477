"""Candidates with the disk that they need, no more: where `disk_search` is worth its time."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from advisor.catalog import Catalog
from advisor.domain import Candidate, Disk, Request
from advisor.engine.candidates import Runnable
from advisor.engine.counting import at_count
from advisor.engine.disk_search import Aim, Rank, cheaper_orders
from advisor.engine.least_disk import least_orders
from advisor.engine.predicting import predicted, with_disks
from advisor.engine.rows import Rows
from advisor.records import dataclass, replace

# An instance type in a region.
_Place = tuple[str, str]
_Parts = tuple[int, int, int]
_Key = TypeVar("_Key", bound=Hashable)


def with_fitted_disks(
    request: Request,
    catalog: Catalog,
    rows: Rows,
    options: Sequence[Runnable],
    candidates: Sequence[Candidate],
    *,
    answers: Callable[[Request, Candidate], bool],
    rank: Rank,
    complete: Callable[[Iterable[Candidate]], list[Candidate]],
    last_shown: float = math.inf,
) -> list[Candidate]:
    """More candidates: instances that may be chosen or shown, each with the cheapest disk orders
    with which they answer, at every batch. None where the disk was asked for.

    `complete` gives predicted candidates what `answers` and `rank` look at beside; `last_shown` is
    the rank beyond which nothing is shown, whatever is found here.
    """
    if request.disk is not None:
        return []
    fit = _Fitting(request, catalog, rows, options, answers, rank, complete, last_shown)
    if request.max_run_usd is None:
        return fit.fitted(candidates)
    # A step is too slow and the next one too dear: what lies between may keep the limit.
    anyhow = replace(request, max_run_usd=None, max_results=len(options) + 1)
    free = replace(fit, request=anyhow, rank=_by_sure_cost, last_shown=math.inf, by_sample=True)
    runs = free.fitted(candidates)
    return runs + fit.fitted([*candidates, *runs])


@dataclass(frozen=True, slots=True)
class _Fitting:
    """One search over all instances; `by_sample`: it is not the price by the hour that counts."""

    request: Request
    catalog: Catalog
    rows: Rows
    options: Sequence[Runnable]
    answers: Callable[[Request, Candidate], bool]
    rank: Rank
    complete: Callable[[Iterable[Candidate]], list[Candidate]]
    last_shown: float
    by_sample: bool | None = None

    def fitted(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The options with the orders that were found, at every batch."""
        request, rank = self.request, self.rank
        by_sample = request.target_throughput is None if self.by_sample is None else self.by_sample
        free = replace(request, max_usd_per_hour=None)

        def enough(one: Candidate) -> bool:
            return self.answers(free, one)

        good = _Good(request, rank, list(filter(enough, candidates)), self.last_shown)
        slow = self._predict(_on_slow_disks(good, self.options, by_sample))
        good = good.with_more(list(filter(enough, slow)))
        disks: dict[_Place, list[Disk]] = {}
        for one, disk in self._orders(_worth_fitting(good, by_sample), enough, by_sample):
            disks.setdefault(_place(one), []).append(disk)
        if not by_sample and not _limits_runs(request) and request.max_count == 1:
            disks = _no_dearer(disks, _best_of(good.candidates, _place, rank))
        return self._at_every_batch(disks)

    def _orders(
        self, worth: Sequence[Candidate], enough: Callable[[Candidate], bool], by_sample: bool
    ) -> list[tuple[Candidate, Disk]]:
        """The best order from each start on."""
        request, target = self.request, self.request.target_throughput
        if target is not None and not by_sample and not _limits_runs(request):
            return least_orders(worth, self.catalog, self.rows, target)
        within = _within_price(request, self.rank)
        aim = Aim(predict=self._predict, answers=enough, rank=within, by_sample=by_sample)
        return [(one, one.spec.disk) for one in cheaper_orders(worth, self.catalog, aim)]

    def _predict(self, asked: Sequence[tuple[Candidate, Disk]]) -> list[Candidate]:
        found = self.complete(with_disks(self.rows, asked))
        # An order competes with those for as many instances, so that more of it is never slower.
        return [at_count(new, old.spec.count) for (old, _), new in zip(asked, found, strict=True)]

    def _at_every_batch(self, disks: Mapping[_Place, Sequence[Disk]]) -> list[Candidate]:
        options = [
            replace(option, disks=new)
            for option in self.options
            if (new := _unseen(option, disks.get(_place_of(option), ())))
        ]
        limited = self.request.max_latency_ms is not None
        return self.complete(predicted(self.rows, options, with_latency=limited))


def _limits_runs(request: Request) -> bool:
    """Whether more than the rate has to be enough."""
    return request.max_hours is not None or request.max_run_usd is not None


def _no_dearer(
    disks: Mapping[_Place, Sequence[Disk]], known: Mapping[_Place, Candidate]
) -> dict[_Place, list[Disk]]:
    """Of each instance the cheapest order, unless it costs more than what is known to answer."""
    found = {}
    for place, some in disks.items():
        least = min(known[place].spec.disk.usd_per_hour, *(one.usd_per_hour for one in some))
        found[place] = [one for one in some if one.usd_per_hour <= least]
    return found


def _unseen(option: Runnable, disks: Iterable[Disk]) -> tuple[Disk, ...]:
    """Those that the option was not predicted with from the start."""
    seen = {id(disk) for disk in option.disks}
    return tuple(disk for disk in disks if id(disk) not in seen)


def _by_sure_cost(one: Candidate) -> tuple[float, float, str]:
    """What a run surely costs no more than, the least first."""
    usd = one.usd_per_run
    instance = one.spec.offer.instance
    return (usd.upper if usd else math.inf), -one.prediction.lower, instance.name


class _Good:
    """Candidates that answer, with what is asked of all of them: the best of each place, and the
    rank that something has to come before to be worth fitting there."""

    def __init__(
        self, request: Request, rank: Rank, candidates: Sequence[Candidate], last_shown: float
    ) -> None:
        self.request, self.rank, self.candidates = request, rank, candidates
        self.within = _within_price(request, rank)
        self.of_place = _best_of(candidates, _place, self.within)
        ranks = {
            place: _rank_within_price(request, one, rank) for place, one in self.of_place.items()
        }
        last = sorted(ranks.values())[: request.max_results]
        self.last_shown = min(last_shown, last[-1] if last else math.inf)
        self.limits = {place: min(self.last_shown, one) for place, one in ranks.items()}

    @cached_property
    def at_best_batch(self) -> dict[_Parts, Candidate]:
        """Of each spec the batch that bears the least disk."""
        return _best_batches(self.candidates)

    def with_more(self, some: Sequence[Candidate]) -> _Good:
        """These and some others."""
        if not some:
            return self
        return _Good(self.request, self.rank, [*self.candidates, *some], self.last_shown)


def _on_slow_disks(
    good: _Good, options: Sequence[Runnable], by_sample: bool
) -> list[tuple[Candidate, Disk]]:
    """Hard disks that could come out ahead, on the instances that answer with something faster."""
    slow = {_place_of(option): option.slow_disks for option in options if option.slow_disks}
    asked, request = [], good.request
    for place, one in good.of_place.items():
        limit = good.limits[place]
        if not _may_win(_least(request, one, by_sample, free_disk=True), limit):
            continue
        best = good.at_best_batch[_parts(one)]
        for disk in slow.get(place, ()):
            slower = replace(best, spec=replace(best.spec, disk=disk))
            if _may_win(_least(request, slower, by_sample), limit):
                asked.append((best, disk))
    return asked


def _worth_fitting(good: _Good, by_sample: bool) -> list[Candidate]:
    """The best start of each instance and disk type that could still come out ahead: of the same
    instance with another disk, and of the last that would be shown."""
    return [
        good.at_best_batch[_parts(one)]
        for one in _best_of(good.candidates, _place_and_disk, good.within).values()
        if one.spec.disk.price
        and _may_win(_least(good.request, one, by_sample), good.limits[_place(one)])
    ]


def _within_price(request: Request, rank: Rank) -> Rank:
    """What is too dear after all that is not, the least dear first: where samples count, an order
    beyond the price would else hide those within it."""
    most = request.max_usd_per_hour
    if most is None:
        return rank

    def key(one: Candidate) -> tuple[Any, ...]:
        return max(0.0, one.spec.total_usd_per_hour - most), *rank(one)

    return key


def _rank_within_price(request: Request, one: Candidate, rank: Rank) -> float:
    """What others have to rank before; infinite for what is too dear itself."""
    most = request.max_usd_per_hour
    return rank(one)[0] if most is None or one.spec.total_usd_per_hour <= most else math.inf


def _may_win(least: float, limit: float) -> bool:
    return least <= limit and least < math.inf


def _least(request: Request, one: Candidate, by_sample: bool, *, free_disk: bool = False) -> float:
    """What a candidate's rank could come down to: with the smallest disk of its type, at its
    upper bound. Infinite where that is beyond the price that is asked for.
    """
    disk, dataset_gib = one.spec.disk, one.workload.dataset.total_mib / 1024
    known = disk.choice.iops is None and not free_disk
    share = dataset_gib / disk.size_gib if known else 0.0
    each = one.spec.offer.price.usd_per_hour + min(1.0, share) * disk.usd_per_hour
    usd = one.spec.count * each
    if usd > (request.max_usd_per_hour or math.inf):
        return math.inf
    if not by_sample:
        return usd
    return usd / (one.prediction.upper * 3600) * (request.run_samples or 1e6)


def _best_of(
    candidates: Iterable[Candidate], key_of: Callable[[Candidate], _Key], rank: Rank
) -> dict[_Key, Candidate]:
    best: dict[_Key, tuple[tuple[Any, ...], Candidate]] = {}
    for one in candidates:
        key, ranks = key_of(one), rank(one)
        if key not in best or ranks < best[key][0]:
            best[key] = ranks, one
    return {key: one for key, (_, one) in best.items()}


def _best_batches(candidates: Iterable[Candidate]) -> dict[_Parts, Candidate]:
    """Of each spec the batch that is surely the fastest: it bears the least disk, and the larger
    one of those that the disk holds back alike gains most by a faster disk.
    """
    best: dict[_Parts, Candidate] = {}
    for one in candidates:
        known = best.setdefault(_parts(one), one)
        if _bears(one) > _bears(known):
            best[_parts(one)] = one
    return best


def _bears(one: Candidate) -> tuple[float, int]:
    return one.prediction.lower, one.workload.batch_size


def _parts(one: Candidate) -> _Parts:
    """What makes a spec, by identity: its parts are the same at every batch."""
    return id(one.spec.disk), id(one.spec.offer), one.spec.count


def _place(one: Candidate) -> _Place:
    return one.spec.offer.instance.name, one.spec.offer.region


def _place_and_disk(one: Candidate) -> tuple[str, str, int, str]:
    spec = one.spec
    return spec.offer.instance.name, spec.offer.region, spec.count, spec.disk.rate.type


def _place_of(option: Runnable) -> _Place:
    return option.offer.instance.name, option.offer.region
