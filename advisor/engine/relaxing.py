"""What to relax where nothing answers: one constraint at a time, and two where one is too few.

Every change is found by asking the decision again, and what it gives is its answer to the changed
request. That takes seconds, so it is done only where nothing fits and a person waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from advisor.catalog import Catalog
from advisor.domain import Change, Recommendation, Relaxation, Request
from advisor.engine.candidates import asks_for_gpu
from advisor.engine.constraints import Constraint, cheapest, constraints_of
from advisor.engine.decision import recommend, specs_that_answer
from advisor.engine.limits import count_that_would_do
from advisor.engine.prepared import Preparations
from advisor.engine.table import Table
from advisor.records import replace

if TYPE_CHECKING:
    from advisor.engine.model import PerformanceModel


def relaxations(
    answer: Recommendation, catalog: Catalog, model: PerformanceModel
) -> tuple[Relaxation, ...]:
    """What would make something answer, cheapest first; empty where something does already.

    Each names one constraint and the least change of it that is enough. Where no single one is,
    each names two of the constraints that were asked for, and where no two are, there is one that
    names as many as it takes. None at all where the workload itself runs nowhere.
    """
    request = answer.request
    if answer.chosen is not None:
        return ()
    if asks_for_gpu(request):
        # Who asks for more than 24 GiB on a GPU is not helped by an instance without one.
        request = replace(request, accelerated_only=True)
    asking = _Asking(catalog, Preparations(catalog, model))
    every = list(constraints_of(request))
    relaxed = [one for each in every if (one := _relaxed(request, [each], asking))]
    if not relaxed:
        asked = [one for one in every if one.asked]
        relaxed = _pairs(request, asked, asking) or _together(request, asked, asking)
    found = []
    for one in relaxed:
        gives = recommend(one.request, asking.known, today=answer.today).chosen
        if gives is not None:
            changes = tuple(_change(each, request, one.request) for each in one.changed)
            found.append(Relaxation(changes=changes, gives=gives))
    found += _on_several(answer, asking)
    return tuple(
        sorted(found, key=lambda r: (r.gives.spec.total_usd_per_hour, r.changes[0].constraint))
    )


def _on_several(answer: Recommendation, asking: _Asking) -> list[Relaxation]:
    """What as many instances give as it takes of the nearest one, where that is a way out."""
    request, nearest = answer.request, answer.nearest
    count = count_that_would_do(request, nearest) if nearest else None
    if count is None:
        return []
    relaxed = replace(request, max_count=count)
    gives = recommend(relaxed, asking.known, today=answer.today).chosen
    change = Change(
        constraint="max_count", option="--max-count", before=str(request.max_count),
        after=str(count),
    )  # fmt: skip
    return [Relaxation(changes=(change,), gives=gives)] if gives else []


class _Asking(NamedTuple):
    """The decision, asked about changed requests."""

    catalog: Catalog
    known: Preparations

    def answers(self, request: Request) -> Table | None:
        """Every spec and batch that answers a request; None where none does."""
        found = specs_that_answer(request, self.known.of(request))
        return found if found is not None and len(found) else None

    def capability_of(self, gpu_name: str | None) -> float | None:
        """CUDA compute capability of a GPU."""
        return self.catalog.capability_of(gpu_name)


class _Relaxed(NamedTuple):
    """A request that is answered, and the constraints that were relaxed for it."""

    request: Request
    changed: tuple[Constraint, ...]


def _relaxed(
    request: Request, constraints: Sequence[Constraint], asking: _Asking
) -> _Relaxed | None:
    """The request with each constraint relaxed as little as it takes, the first one first, while
    the later ones are loose; None where that is not enough."""
    changed = request
    for place, constraint in enumerate(constraints):
        value = constraint.least(_loosened(changed, constraints[place + 1 :]), asking)
        if value is None:
            return None
        changed = constraint.put(changed, value)
    return _Relaxed(changed, tuple(constraints))


def _pairs(request: Request, constraints: Sequence[Constraint], asking: _Asking) -> list[_Relaxed]:
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


def _together(
    request: Request, constraints: Sequence[Constraint], asking: _Asking
) -> list[_Relaxed]:
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
    return [_Relaxed(relaxed, tuple(changed))]


def _loosened(request: Request, constraints: Iterable[Constraint]) -> Request:
    for constraint in constraints:
        request = constraint.loosened(request)
    return request


def _change(constraint: Constraint, request: Request, relaxed: Request) -> Change:
    return Change(
        constraint=constraint.name,
        option=constraint.option,
        before=constraint.text(request) or "",
        after=constraint.text(relaxed),
    )
