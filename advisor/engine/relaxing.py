"""What to relax where nothing answers: one constraint at a time, and two where one is too few.

Every change is found by asking the decision again, and what it gives is its answer to the changed
request. That takes seconds, so it is done only where nothing fits and a person waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from advisor.catalog import Catalog
from advisor.domain import Candidate, Change, Recommendation, Relaxation, Request
from advisor.engine.candidates import PerformanceModel
from advisor.engine.constraints import knobs_of
from advisor.engine.decision import decide, specs_that_answer
from advisor.engine.knobs import Ask, Knob, cheapest
from advisor.engine.prepared import Preparations
from advisor.engine.querying import asks_for_gpu
from advisor.records import replace


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

    known = Preparations(catalog, model)

    def ask(changed: Request) -> Sequence[Candidate]:
        return specs_that_answer(changed, known.of(changed))

    knobs = knobs_of(request, catalog.capability_of)
    asked = [knob for knob in knobs if knob.asked]
    turned = [one for knob in knobs if (one := _turned(request, [knob], ask))]
    turned = turned or _pairs(request, asked, ask) or _together(request, asked, ask)
    found = []
    for relaxed, changed in turned:
        gives = decide(relaxed, known.of(relaxed), today=answer.today).chosen
        if gives is not None:
            changes = tuple(_change(knob, request, relaxed) for knob in changed)
            found.append(Relaxation(changes=changes, gives=gives))
    return tuple(sorted(found, key=_price))


# A request that is answered, and the knobs that were turned for it.
_Turned = tuple[Request, tuple[Knob, ...]]


def _turned(request: Request, knobs: Sequence[Knob], ask: Ask) -> _Turned | None:
    """The request with each knob turned as little as it takes, the first one first, while the
    later ones are loose; None where that is not enough."""
    relaxed = request
    for place, knob in enumerate(knobs):
        value = knob.least(_loosened(relaxed, knobs[place + 1 :]), ask)
        if value is None:
            return None
        relaxed = knob.put(relaxed, value)
    return relaxed, tuple(knobs)


def _pairs(request: Request, knobs: Sequence[Knob], ask: Ask) -> list[_Turned]:
    """The two constraints that together are enough for the least money when both are given up,
    turned as little as it takes, in either order: the first of them is kept as far as can be."""
    enough: list[tuple[float, int, tuple[Knob, Knob]]] = []
    for pair in combinations(knobs, 2):
        found = ask(_loosened(request, pair))
        if found:
            enough.append((cheapest(found).spec.total_usd_per_hour, len(enough), pair))
    if not enough:
        return []
    *_, (first, second) = min(enough, key=lambda one: one[:2])
    orders = [_turned(request, pair, ask) for pair in ((first, second), (second, first))]
    turned = [one for one in orders if one is not None]
    return turned[:1] if turned[0][0] == turned[-1][0] else turned


def _together(request: Request, knobs: Sequence[Knob], ask: Ask) -> list[_Turned]:
    """As many constraints as it takes: each is kept where what is asked before it, and nothing
    after it, still allows an answer."""
    relaxed, changed = request, []
    for place, knob in enumerate(knobs):
        loose = _loosened(relaxed, knobs[place + 1 :])
        if ask(loose):
            continue
        value = knob.least(loose, ask)
        if value is None:
            return []
        relaxed = knob.put(relaxed, value)
        changed.append(knob)
    return [(relaxed, tuple(changed))]


def _loosened(request: Request, knobs: Iterable[Knob]) -> Request:
    for knob in knobs:
        request = knob.loosened(request)
    return request


def _change(knob: Knob, request: Request, relaxed: Request) -> Change:
    return Change(
        constraint=knob.constraint,
        option=knob.option,
        before=knob.typed(request) or "",
        after=knob.typed(relaxed),
    )


def _price(one: Relaxation) -> tuple[float, str]:
    return one.gives.spec.total_usd_per_hour, one.changes[0].constraint
