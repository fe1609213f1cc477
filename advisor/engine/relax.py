"""Finds which limits to relax when no spec meets a question: one alone, or two together.

Every change is found by asking the decision again, and what it gives is its answer to the changed request.
That takes seconds, so it is done only where nothing fits and a person waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from itertools import combinations
from typing import Generic

from msgspec.structs import replace

from advisor.domain import Change, Market, Relaxation
from advisor.domain.decision import AnyCandidate
from advisor.domain.results import Span
from advisor.engine.columns import Floats, cheapest
from advisor.engine.constraints import Amount, Constraint, Effort
from advisor.engine.decide import recommend
from advisor.engine.task import A, C, O, R, T, Task
from advisor.patience import SpentError


def relaxations(
    task: Task[R, O, T, C, A], answer: A, *, effort: Effort | None = None
) -> tuple[Relaxation, ...]:
    """What would make something answer, cheapest first, old spot prices last; empty where something does.

    Each names one constraint and the least change of it that is enough at the confidence of the bounds, or
    where it is not, at the median. Where no single one is, each names two of the constraints that were asked
    for, and where no two are, there is one that names as many as it takes. None at all where the workload
    itself runs nowhere. `effort` notes whether it ended before all was found."""
    if answer.chosen is not None:
        return ()
    effort = effort or Effort()
    relaxed_task, request = task.to_relax(answer, effort)
    return Relaxer(relaxed_task, answer, effort).relaxations(request)


def relaxed(task: Task[R, O, T, C, A], answer: A) -> A:
    """The answer with its relaxations, and a warning where the search for them ended early."""
    effort = Effort()
    ways = relaxations(task, answer, effort=effort)
    answer = task.with_nearest(answer, ways)
    kept = tuple(way for way in ways if not _gives_up(way))
    near = ways if all(map(_is_far, kept)) else kept
    return replace(answer, relaxations=near, warnings=(*answer.warnings, *effort.notes))


# What a run may cost, and how long it may take; a longer one is named that costs less than this share.
_RUN, _CHEAPER = ("max_run_usd", "max_hours"), 0.9
# Who asks for so many times less of what was aimed at asks something else; a limit of so many times more
# comes last.
_TARGET_LEFT, _SOME_TIMES, _MOST_TIMES = 1 / 3, 2.0, 10.0
_TARGETS = ("target", "users")
_EVEN = 0.5
_ANY = "any"
# A spot price that is older promises nothing, and nobody knows the present one: others come first.
_OLD_SPOT_DAYS = 180


class Relaxer(Generic[R, O, T, C, A]):
    """Asks the decision about changed requests."""

    def __init__(self, task: Task[R, O, T, C, A], answer: A, effort: Effort) -> None:
        self._task, self._answer, self._effort = task, answer, effort
        self._sure = True

    def _with_bounds(self, request: R) -> R:
        """The request with bounds to keep, where an amount is to be as sure as asked."""
        return replace(request, required_confidence=request.confidence) if self._sure else request

    def answers(self, request: R) -> T | None:
        """Every row that answers a request; None where none does."""
        self._effort.require()
        table, looked_at = self._task.every_answer(self._with_bounds(request))
        self._effort.spend(looked_at)
        return table if table is not None and len(table) else None

    def needs(self, name: str, request: R, table: T) -> Floats:
        """The value of a constraint with which each row just answers."""
        return self._task.needs(name, self._with_bounds(request), table)

    def capability_of(self, gpu_name: str | None) -> float | None:
        """CUDA compute capability of a GPU."""
        return self._task.catalog.capability_of(gpu_name)

    def chosen(self, request: R) -> C | None:
        """What is recommended then."""
        return recommend(self._task, request, today=self._answer.today, whole=False).chosen

    def relaxations(self, request: R) -> tuple[Relaxation, ...]:
        """What would make something answer, cheapest first."""
        ways, enough = list[Relaxation](), set[str]()
        # Few answers, which the search beyond does not take the time of.
        with suppress(SpentError):
            ways += self._task.further_relaxations(self._answer, self.answers, self.chosen)
        try:
            for self._sure in (True,) if request.is_sure else (True, False):
                for changed, constraints in self._least_relaxed(request, frozenset(enough)):
                    if (way := self._way(request, changed, constraints)) is not None:
                        ways.append(way)
                        enough.update(change.constraint for change in way.changes)
            ways += self._elsewhere(request)
        except SpentError:  # what was found until then answers, too
            pass
        return tuple(sorted((way for way in ways if not self._is_needless(way, ways)), key=self._rank))

    def _elsewhere(self, request: R) -> list[Relaxation]:
        """All clouds in all regions, where these answer; whatever they make likely."""
        self._effort.require()
        if request.cloud == _ANY or (gives := self.chosen(replace(request, cloud=_ANY, region=None))) is None:
            return []
        change = Change(constraint="cloud", option="--cloud", before=request.cloud, after=_ANY)
        return [Relaxation(changes=(change,), gives=gives)]

    def _way(self, request: R, changed: R, constraints: Sequence[Constraint]) -> Relaxation | None:
        """The changes with what they give, its limits those which that just keeps: another spec, which is
        not recommended, may have needed more."""
        if (gives := self.chosen(changed)) is None:
            return None
        closer = self._tightened(request, changed, constraints, gives)
        if closer != changed and (other := self.chosen(closer)) is not None:
            changed, gives = closer, other
        changes = (_change(constraint, request, changed) for constraint in constraints)
        return Relaxation(changes=tuple(each for each in changes if each.before != each.after), gives=gives)

    def _tightened(self, request: R, changed: R, constraints: Iterable[Constraint], gives: AnyCandidate) -> R:
        """The changed request with limits on price and run that a spec just keeps."""
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
        """The dollars of what a way gives: of the run, where there is one, else by the hour."""
        run = getattr(way.gives, "usd_per_run", None) if self._answer.request.ends else None
        return float(run.median if run else way.gives.spec.total_usd_per_hour)

    def _is_needless(self, way: Relaxation, ways: Iterable[Relaxation]) -> bool:
        """Whether some of its changes alone give what costs no more."""
        names = {change.constraint for change in way.changes}
        return any(
            {change.constraint for change in other.changes} < names and self._cost(other) <= self._cost(way)
            for other in ways
        )

    def _rank(self, way: Relaxation) -> tuple[int, float, float, str]:
        """By cost; behind what hangs on an old spot price, which nobody may get any more, or is not likely;
        then a limit of some times what was asked for; then, of many times, the least change."""
        spec = way.gives.spec
        age = self._answer.today - spec.offer.price.as_of
        is_doubtful = spec.offer.market is Market.SPOT and age.days > _OLD_SPOT_DAYS
        is_doubtful |= (way.gives.probability or 1.0) < _EVEN
        group = 2 if _is_far(way, _SOME_TIMES) else int(is_doubtful)
        if _is_far(way) or _gives_up(way):
            most = max(max(_times(each), 1 / (_times(each) or 1.0)) for each in way.changes)
            return 3, most, self._cost(way), way.changes[0].constraint
        return group, 0.0, self._cost(way), way.changes[0].constraint

    def _least_relaxed(self, request: R, known: Set[str]) -> Iterator[tuple[R, Sequence[Constraint]]]:
        """The request with as little given up as makes something answer: each single constraint
        that is enough, and a cheaper run that takes longer; else the two that were asked for and are enough
        for the least money; else as many as it takes. Where some are `known` to be enough, another place or
        market alone is of interest."""
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
            if longer is not None and run[0].get(longer) < _CHEAPER * run[0].get(dear):
                yield longer, run
        if not known and not enough:
            limiting = [constraint for constraint in constraints if constraint.limiting]
            yield from self._pairs(request, limiting) or self._together(request, limiting)

    def _relaxed(self, request: R, constraints: Sequence[Constraint]) -> R | None:
        """The request with each constraint relaxed as little as it takes, the first one first, while
        the later ones are loose; None where that is not enough."""
        for index, constraint in enumerate(constraints):
            value = constraint.least(_loosened(request, constraints[index + 1 :]), self)
            if value is None:
                return None
            request = constraint.put(request, value)
        return request

    def _pairs(self, request: R, constraints: Sequence[Constraint]) -> list[tuple[R, Sequence[Constraint]]]:
        """The two constraints that together are enough for the least money when both are given up,
        relaxed as little as it takes, in either order: the first of them is kept as far as can be."""
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

    def _together(
        self, request: R, constraints: Sequence[Constraint]
    ) -> list[tuple[R, Sequence[Constraint]]]:
        """As many constraints as it takes: each is kept if those before it still allow an answer."""
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


def _times(change: Change) -> float:
    """A number after a change over the one before; 1 of what is no number."""
    try:  # 'p95:1500' is a limit of 1500
        before, after = (float(str(text).rpartition(":")[2]) for text in (change.before, change.after))
    except ValueError:
        return 1.0
    return after / before if before else 1.0


def _is_far(way: Relaxation, most: float = _MOST_TIMES) -> bool:
    """Whether a limit becomes many times what it was."""
    return any(each.constraint.startswith("max_") and _times(each) > most for each in way.changes)


def _gives_up(way: Relaxation) -> bool:
    """Whether a target is cut to a fraction that somebody else asks for."""
    return any(each.constraint.startswith(_TARGETS) and _times(each) < _TARGET_LEFT for each in way.changes)


def _change(constraint: Constraint, request: R, relaxed: R) -> Change:
    return Change(
        constraint=constraint.name,
        option=constraint.option,
        before=constraint.text(request) or "",
        after=constraint.text(relaxed),
    )
