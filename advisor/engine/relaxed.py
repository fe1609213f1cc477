"""A request with as little given up as makes something answer, whatever decides.

Every change is found by asking the decision again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from advisor.domain import Change, Relaxation
from advisor.engine.constraints import Asking, Constraint, cheapest


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
    further: Sequence[Relaxation] = (),
) -> tuple[Relaxation, ...]:
    """What would make something answer, with what is `chosen` then, and the `further`
    ones, the cheapest first."""
    found = [
        Relaxation(changes=one.changes(request), gives=gives)
        for one in least_relaxed(request, constraints, asking)
        if (gives := chosen(one.request)) is not None
    ]
    return tuple(
        sorted(
            [*found, *further],
            key=lambda r: (r.gives.spec.total_usd_per_hour, r.changes[0].constraint),
        )
    )


def least_relaxed(request: Any, constraints: Sequence[Constraint], asking: Asking) -> list[Relaxed]:
    """The request with as little given up as makes something answer: each single constraint that
    is enough; else the two that were asked for and are enough for the least money; else as many
    as it takes."""
    relaxed = [one for each in constraints if (one := _relaxed(request, [each], asking))]
    if relaxed:
        return relaxed
    asked = [one for one in constraints if one.asked]
    return _pairs(request, asked, asking) or _together(request, asked, asking)


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
