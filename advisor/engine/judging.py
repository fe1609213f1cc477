"""What a request makes of candidates: whether one answers, how it ranks, the best of a type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from advisor.domain import Candidate, Request
from advisor.engine import reasons

# The smallest batch within 5 % of the best lower bound: latency and memory are dear.
GOOD_ENOUGH = 0.95

Rank = tuple[float, float, str]


class Judge:
    """Judges each candidate once: thousands are asked for time and again.

    What was said is kept by identity; the candidates are kept with it, so that none of them
    gets the identity of another.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self._ranks: dict[int, tuple[Rank, Candidate]] = {}
        self._answers: dict[int, tuple[bool, Candidate]] = {}

    def answers(self, one: Candidate) -> bool:
        """Whether it may be recommended."""
        known = self._answers.get(id(one))
        if known is None:
            known = self._answers[id(one)] = reasons.answers(self.request, one), one
        return known[0]

    def rank(self, one: Candidate) -> Rank:
        """Total price for a target, else cost per run or per sample; ties by rate, name."""
        known = self._ranks.get(id(one))
        if known is None:
            rank = (self._cost(one), -one.prediction.lower, one.spec.offer.instance.name)
            known = self._ranks[id(one)] = rank, one
        return known[0]

    def best_of_each(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """The spec and batch size with which each instance type enters the ranking; of a type
        that does not answer the candidate that shows best what it misses."""
        groups: dict[tuple[str, str], list[Candidate]] = defaultdict(list)
        for one in candidates:
            instance = one.spec.offer.instance
            groups[instance.cloud, instance.name].append(one)
        return [self._best(group) for group in groups.values()]

    def _best(self, group: Sequence[Candidate]) -> Candidate:
        good = list(filter(self.answers, group))
        if not good:
            return reasons.closest(self.request, group)
        chosen = min(good, key=self.rank)
        if self.request.target_throughput is None:
            return chosen  # ranked by what its samples cost, at the batch that makes them cheapest
        return with_good_batch([one for one in good if _is_same(one, chosen)])

    def _cost(self, one: Candidate) -> float:
        if self.request.target_throughput is not None:
            return one.spec.total_usd_per_hour
        return one.usd_per_run.median if one.usd_per_run else one.usd_per_million_samples


def _is_same(one: Candidate, other: Candidate) -> bool:
    """Whether both have the same spec. Comparing records field by field takes a while, and the
    parts of one spec are the same at every batch."""
    mine, its = one.spec, other.spec
    return mine.disk is its.disk and mine.offer is its.offer and mine.count == its.count


def with_good_batch(same_spec: Sequence[Candidate]) -> Candidate:
    """Of one spec at several batch sizes: the smallest within 5 % of the best lower bound."""
    limit = GOOD_ENOUGH * max(one.prediction.lower for one in same_spec)
    near = [one for one in same_spec if one.prediction.lower >= limit]
    return min(near, key=lambda one: one.workload.batch_size)
