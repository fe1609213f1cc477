"""A request with as little given up as makes something answer, whatever decides.

Every change is found by asking the decision again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from advisor.domain import Change, Relaxation
from advisor.domain.decision import RELAXING_STOPPED
from advisor.engine.constraints import Asking, Constraint, cheapest
from advisor.messages import Message
from advisor.patience import STILL_WANTED, SpentError

# Most questions take a few thousand; one over all clouds and markets several hundred thousand.
_MOST_CANDIDATES = 100_000
_STOPPED = Message(
    "what to relax was not searched to its end: other or smaller changes may do too; a narrower "
    "cloud, market or region is searched whole",
    code=RELAXING_STOPPED,
)


class Effort:
    """How much is looked at to find what to relax: so many candidates, which is the same on every
    machine, and no more once nobody waits."""

    def __init__(self, candidates: int = _MOST_CANDIDATES) -> None:
        self._left = candidates
        self.was_stopped = False

    def require(self) -> None:
        """`SpentError` where no more may be looked at."""
        if self._left <= 0 or not STILL_WANTED.get()():
            self.was_stopped = True
            raise SpentError

    def spend(self, candidates: int) -> None:
        """So many were looked at."""
        self._left -= candidates

    @property
    def notes(self) -> tuple[Message, ...]:
        """What an answer says of it."""
        is_whole = not self.was_stopped and STILL_WANTED.get()()
        return () if is_whole else (_STOPPED,)


class Relaxed(NamedTuple):
    """A request that is answered, and the constraints that were relaxed for it."""

    request: Any
    changed: tuple[Constraint, ...]

    def changes(self, request: Any) -> tuple[Change, ...]:
        """What differs from the request as it was."""
        return tuple(_change(each, request, self.request) for each in self.changed)


def cheapest_relaxations(
    request: Any,
    constraints: Sequence[Constraint],
    asking: Asking,
    chosen: Callable[[Any], Any | None],
    further: Iterable[Relaxation] = (),
) -> tuple[Relaxation, ...]:
    """What would make something answer, with what is `chosen` then, and the `further`
    ones, the cheapest first."""
    found: list[Relaxation] = []
    try:
        for one in least_relaxed(request, constraints, asking):
            gives = chosen(one.request)
            if gives is not None:
                found.append(Relaxation(changes=one.changes(request), gives=gives))
        found += further
    except SpentError:  # what was found until then answers, too
        pass
    return tuple(sorted(found, key=lambda r: (r.gives.spec.total_usd_per_hour, r.changes[0].constraint)))


def least_relaxed(request: Any, constraints: Sequence[Constraint], asking: Asking) -> Iterator[Relaxed]:
    """The request with as little given up as makes something answer: each single constraint that
    is enough; else the two that were asked for and are enough for the least money; else as many
    as it takes."""
    is_enough = False
    for each in constraints:
        one = _relaxed(request, [each], asking)
        if one is not None:
            is_enough = True
            yield one
    if not is_enough:
        asked = [one for one in constraints if one.asked]
        yield from _pairs(request, asked, asking) or _together(request, asked, asking)


def _relaxed(request: Any, constraints: Sequence[Constraint], asking: Asking) -> Relaxed | None:
    """The request with each constraint relaxed as little as it takes, the first one first, while
    the later ones are loose; None where that is not enough."""
    changed = request
    for place, constraint in enumerate(constraints):
        value = constraint.least(_loosened(changed, constraints[place + 1 :]), asking)
        if value is None:
            return None
        changed = constraint.put(changed, value)
    return Relaxed(changed, tuple(constraints))


def _pairs(request: Any, constraints: Sequence[Constraint], asking: Asking) -> list[Relaxed]:
    """The two constraints that together are enough for the least money when both are given up,
    relaxed as little as it takes, in either order: the first of them is kept as far as can be."""
    best: tuple[float, tuple[Constraint, Constraint]] | None = None
    for pair in combinations(constraints, 2):
        found = asking.answers(_loosened(request, pair))
        if found is not None:
            usd = float(found.usd[cheapest(found)])
            if best is None or usd < best[0]:
                best = usd, pair
    if best is None:
        return []
    first, second = best[1]
    orders = [_relaxed(request, pair, asking) for pair in ((first, second), (second, first))]
    relaxed = [one for one in orders if one is not None]
    same = bool(relaxed) and relaxed[0].request == relaxed[-1].request
    return relaxed[:1] if same else relaxed


def _together(request: Any, constraints: Sequence[Constraint], asking: Asking) -> list[Relaxed]:
    """As many constraints as it takes: each is kept where what is asked before it, and nothing
    after it, still allows an answer."""
    relaxed, changed = request, []
    for place, constraint in enumerate(constraints):
        loose = _loosened(relaxed, constraints[place + 1 :])
        if asking.answers(loose) is not None:
            continue
        value = constraint.least(loose, asking)
        if value is None:
            return []
        relaxed = constraint.put(relaxed, value)
        changed.append(constraint)
    return [Relaxed(relaxed, tuple(changed))]


def _loosened(request: Any, constraints: Iterable[Constraint]) -> Any:
    for constraint in constraints:
        request = constraint.loosened(request)
    return request


def _change(constraint: Constraint, request: Any, relaxed: Any) -> Change:
    return Change(
        constraint=constraint.name,
        option=constraint.option,
        before=constraint.text(request) or "",
        after=constraint.text(relaxed),
    )
