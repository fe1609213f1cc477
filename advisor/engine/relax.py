"""Finds which limits to relax where no spec meets a question: one alone, or two together.

Every change is found by answering changed requests, and comes with the spec that it gives. This takes
seconds, so it is done only if nothing answers and a person waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from itertools import combinations
from typing import Generic

from msgspec.structs import replace

from advisor.domain import Change, Relaxation
from advisor.domain.decision import AnyCandidate
from advisor.domain.results import Span
from advisor.engine.columns import Floats, cheapest
from advisor.engine.constraints import Amount, Constraint, Effort
from advisor.engine.decide import recommend
from advisor.engine.task import EVEN, A, C, O, R, T, Task
from advisor.errors import SpentError


def relaxations(
    task: Task[R, O, T, C, A], answer: A, *, effort: Effort | None = None
) -> tuple[Relaxation, ...]:
    """The relaxations with which some spec meets the question, by what people give up and by cost. Each is
    the least change of one constraint that is enough by the bounds, or else by the medians. If none is enough
    alone, each changes two limiting constraints; if no two are, there is one relaxation, which changes as
    many as it takes. Empty if `answer` has a chosen spec, or the workload runs nowhere. `effort` records
    whether the search ended early."""
    if answer.chosen is not None:
        return ()
    effort = effort or Effort()
    relaxed_task, request = task.to_relax(answer, effort)
    return Relaxer(relaxed_task, answer, effort).relaxations(request)


def relaxed(task: Task[R, O, T, C, A], answer: A) -> A:
    """The answer with its relaxations, and a warning if the search for them ended early."""
    effort = Effort()
    ways = relaxations(task, answer, effort=effort)
    answer = task.with_nearest(answer, ways)
    kept = tuple(way for way in ways if not _cuts_target(way))
    near = ways if all(map(_is_many_times, kept)) else kept
    return replace(answer, relaxations=near, warnings=(*answer.warnings, *effort.notes))


# Limits on a run's cost and time. A longer run is also named if it costs less than this share.
_RUN, _LESS_USD = ("max_run_usd", "max_hours"), 0.9
# What people give up first: the market, then limits and settings (1), another place, and work. Then `_LAST`.
_GIVEN_UP, _LAST = {"--market": 0, "--cloud": 2, "--region": 2}, 4
_GIVEN_UP |= dict.fromkeys(("--epochs", "--samples", "--tokens", "--target-throughput", "--users"), 3)
# A target cut below this share is another question, and comes last, as does a limit that grows by more than
# this factor.
_TARGET_LEFT, _MOST_TIMES = 1 / 3, 10.0
_TARGETS = ("target", "users")
_ANY = "any"


class Relaxer(Generic[R, O, T, C, A]):
    """Searches for relaxations by answering changed requests."""

    def __init__(self, task: Task[R, O, T, C, A], answer: A, effort: Effort) -> None:
        self._task, self._answer, self._effort = task, answer, effort
        self._sure = True

    def _with_bounds(self, request: R) -> R:
        """The request, which requires its confidence while amounts are searched by the bounds."""
        return replace(request, required_confidence=request.confidence) if self._sure else request

    def answers(self, request: R) -> T | None:
        """The table of rows that answer a request; None if none does."""
        self._effort.require()
        table, looked_at = self._task.every_answer(self._with_bounds(request))
        self._effort.spend(looked_at)
        return table if table is not None and len(table) else None

    def needs(self, name: str, request: R, table: T) -> Floats:
        """The strictest value of the constraint `name` that each row meets, (rows,)."""
        return self._task.needs(name, self._with_bounds(request), table)

    def capability_of(self, gpu_name: str | None) -> float | None:
        """CUDA compute capability of a GPU."""
        return self._task.catalog.capability_of(gpu_name)

    def chosen(self, request: R) -> C | None:
        """The candidate that is recommended for a request; None if nothing answers."""
        return recommend(self._task, request, today=self._answer.today, whole=False).chosen

    def relaxations(self, request: R) -> tuple[Relaxation, ...]:
        """The relaxations of a request, sorted."""
        ways, enough = list[Relaxation](), set[str]()
        # These need few answers: they come first, before the search below spends the budget.
        with suppress(SpentError):
            ways += self._task.further_relaxations(self._answer, self.answers, self.chosen)
        try:
            for self._sure in (True,) if request.is_sure else (True, False):
                for changed, constraints in self._least_relaxed(request, frozenset(enough)):
                    if (way := self._relaxation(request, changed, constraints)) is not None:
                        ways.append(way)
                        enough.update(change.constraint for change in way.changes)
            ways += self._in_any_cloud(request)
        except SpentError:  # what was found until then answers, too
            pass
        return tuple(sorted((way for way in ways if not self._is_needless(way, ways)), key=self._rank))

    def _in_any_cloud(self, request: R) -> list[Relaxation]:
        """The change to all clouds in all regions, where some spec answers there."""
        self._effort.require()
        if request.cloud == _ANY or (gives := self.chosen(replace(request, cloud=_ANY, region=None))) is None:
            return []
        change = Change(constraint="cloud", option="--cloud", before=request.cloud, after=_ANY)
        return [Relaxation(changes=(change,), gives=gives)]

    def _relaxation(self, request: R, changed: R, constraints: Sequence[Constraint]) -> Relaxation | None:
        """The relaxation to a changed request, with the spec that it gives; None if none answers. Limits
        are tightened to what that spec needs, since they were found for some other spec that answers."""
        if (gives := self.chosen(changed)) is None:
            return None
        closer = self._tightened(request, changed, constraints, gives)
        if closer != changed and (other := self.chosen(closer)) is not None:
            changed, gives = closer, other
        changes = (_change(constraint, request, changed) for constraint in constraints)
        return Relaxation(changes=tuple(each for each in changes if each.before != each.after), gives=gives)

    def _tightened(self, request: R, changed: R, constraints: Iterable[Constraint], gives: AnyCandidate) -> R:
        """The changed request with limits on price and run as tight as the spec `gives` allows."""
        spans: dict[str, Span | None] = {
            "max_run_usd": getattr(gives, "usd_per_run", None),
            "max_hours": getattr(getattr(gives, "run", gives), "hours", None),
        }
        needed = {name: span.upper if self._sure else span.median for name, span in spans.items() if span}
        needed["max_usd_per_hour"] = gives.spec.total_usd_per_hour
        for constraint in constraints:
            if isinstance(constraint, Amount) and constraint.name in needed:
                least = max(constraint.rounded(needed[constraint.name]), constraint.get(request))
                changed = constraint.put(changed, min(least, constraint.get(changed)))
        return changed

    def _cost(self, way: Relaxation) -> float:
        """The dollars per run of the spec that a relaxation gives, or per hour if there is no run."""
        run = getattr(way.gives, "usd_per_run", None) if self._answer.request.ends else None
        return float(run.median if run else way.gives.spec.total_usd_per_hour)

    def _is_needless(self, way: Relaxation, ways: Iterable[Relaxation]) -> bool:
        """Return whether a part of its changes already gives a spec that costs no more."""
        names = {change.constraint for change in way.changes}
        return any(
            {change.constraint for change in other.changes} < names and self._cost(other) <= self._cost(way)
            for other in ways
        )

    def _rank(self, way: Relaxation) -> tuple[int, float, float, str]:
        """The sort key: by what people give up, an even chance, and cost; those that change a limit by many
        times come last, least change first."""
        name, cost = way.changes[0].constraint, self._cost(way)
        if _is_many_times(way) or _cuts_target(way):
            most = max(max(_ratio(each), 1 / (_ratio(each) or 1.0)) for each in way.changes)
            return _LAST, most, cost, name
        given_up = max(_GIVEN_UP.get(change.option, 1) for change in way.changes)
        return given_up, float((way.gives.probability or 1.0) < EVEN), cost, name

    def _least_relaxed(self, request: R, known: Set[str]) -> Iterator[tuple[R, Sequence[Constraint]]]:
        """Changed requests that some spec answers, with the changed constraints: each single one that is
        enough, and a cheaper run that takes longer; else the two limiting ones that are enough for the least
        money; else as many as it takes. Where some are `known` to be enough, only changes of place, market
        or confidence are tried."""
        constraints, enough = list(self._task.constraints(request)), dict[str, R]()
        for constraint in constraints:
            if constraint.name in known or (known and constraint.limiting):
                continue
            changed = self._relaxed(request, [constraint])
            if changed is not None:
                enough[constraint.name] = changed
                yield changed, [constraint]
        run = [each for name in _RUN for each in constraints if each.name == name]
        if len(run) > 1 and (dear := enough.get(_RUN[0])):
            longer = self._relaxed(request, run)
            if longer is not None and run[0].get(longer) < _LESS_USD * run[0].get(dear):
                yield longer, run
        if not known and not enough:
            limiting = [constraint for constraint in constraints if constraint.limiting]
            yield from self._pair(request, limiting) or self._jointly_relaxed(request, limiting)

    def _relaxed(self, request: R, constraints: Sequence[Constraint]) -> R | None:
        """The request with each constraint relaxed as little as possible, in their order and with the later
        ones loose; None if that is not enough."""
        for index, constraint in enumerate(constraints):
            value = constraint.least(_loosened(request, constraints[index + 1 :]), self)
            if value is None:
                return None
            request = constraint.put(request, value)
        return request

    def _pair(self, request: R, constraints: Sequence[Constraint]) -> list[tuple[R, Sequence[Constraint]]]:
        """The two constraints that give the cheapest spec when both are loose, relaxed as little as possible
        in either order (the first one changes least)."""
        best: tuple[float, tuple[Constraint, Constraint]] | None = None
        for pair in combinations(constraints, 2):
            table = self.answers(_loosened(request, pair))
            if table is not None:
                usd = float(table.usd[cheapest(table)])
                if best is None or usd < best[0]:
                    best = usd, pair
        if best is None:
            return []
        first, second = best[1]
        orders = [(self._relaxed(request, pair), pair) for pair in ((first, second), (second, first))]
        relaxed = [(changed, pair) for changed, pair in orders if changed is not None]
        same = bool(relaxed) and relaxed[0][0] == relaxed[-1][0]
        return [*relaxed[:1]] if same else [*relaxed]

    def _jointly_relaxed(
        self, request: R, constraints: Sequence[Constraint]
    ) -> list[tuple[R, Sequence[Constraint]]]:
        """One change of as many constraints as it takes; a constraint stays if an answer remains with it."""
        relaxed, changed = request, list[Constraint]()
        for index, constraint in enumerate(constraints):
            loose = _loosened(relaxed, constraints[index + 1 :])
            if self.answers(loose) is not None:
                continue
            value = constraint.least(loose, self)
            if value is None:
                return []
            relaxed = constraint.put(relaxed, value)
            changed.append(constraint)
        return [(relaxed, changed)]


def _loosened(request: R, constraints: Iterable[Constraint]) -> R:
    for constraint in constraints:
        request = constraint.loosened(request)
    return request


def _ratio(change: Change) -> float:
    """The ratio of a number after a change to that before; 1 if they are no numbers."""
    try:  # 'p95:1500' is a limit of 1500
        before, after = (float(str(text).rpartition(":")[2]) for text in (change.before, change.after))
    except ValueError:
        return 1.0
    return after / before if before else 1.0


def _is_many_times(way: Relaxation) -> bool:
    """Return whether an upper limit grows by more than `_MOST_TIMES`."""
    return any(each.constraint.startswith("max_") and _ratio(each) > _MOST_TIMES for each in way.changes)


def _cuts_target(way: Relaxation) -> bool:
    """Return whether a target is cut so far that it would be another question."""
    return any(each.constraint.startswith(_TARGETS) and _ratio(each) < _TARGET_LEFT for each in way.changes)


def _change(constraint: Constraint, request: R, relaxed: R) -> Change:
    return Change(
        constraint=constraint.name,
        option=constraint.option,
        before=constraint.text(request) or "",
        after=constraint.text(relaxed),
    )
