"""Which specs a chart of price against rate draws: everything on the front, and what was told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from advisor.domain import Candidate, Recommendation, Request
from advisor.engine import answers
from advisor.engine.pareto import pareto_front, specs_of
from advisor.engine.prepared import Prepared
from advisor.records import replace
from advisor.render.blocks import candidate_block
from advisor.render.sizing.drawing import Drawn, drawn_rows

_Key = tuple[str, str, str, str, str, int]


def price_throughput(answer: Recommendation, prepared: Prepared) -> list[dict[str, Any]]:
    """A row a spec, cheapest first: those of the answer, the front of price and lower bound
    whatever the target and the price limit, and of each GPU the spec with the cheapest samples.

    The catalogue's coarse disk orders stand beside those that were fitted to the target.
    """
    request, free = answer.request, _without_limits(answer.request)
    told = _told(answer)
    known = {_key(one) for one in told}
    specs = (one for table in prepared.tables for one in specs_of(free, table))
    others = [one for one in specs if _key(one) not in known]
    drawn = {_key(one): one for one in (*told, *pareto_front((*told, *others)))}
    for one in _best_of_each_gpu(others):
        drawn.setdefault(_key(one), one)
    chosen = answer.chosen
    rows = [
        Drawn(candidate_block(one), answers=answers(request, one), chosen=one is chosen)
        for one in drawn.values()
    ]
    return drawn_rows(rows)


def _without_limits(request: Request) -> Request:
    """What the reader may weigh is left to the chart: the target, the price, the run's limits."""
    return replace(
        request,
        target_throughput=None, max_usd_per_hour=None, max_hours=None, max_run_usd=None,
    )  # fmt: skip


def _told(answer: Recommendation) -> list[Candidate]:
    """What the recommendation names; `ranked` first, so that its batch sizes are the ones shown."""
    near = [answer.nearest, answer.beyond_price]
    calls = [two for one in answer.close_calls for two in (one.candidate, one.instead)]
    gives = [one.gives for one in answer.relaxations]
    found: dict[_Key, Candidate] = {}
    for one in (*answer.ranked, *near, *calls, *answer.pareto, *gives):
        if one is not None:
            found.setdefault(_key(one), one)
    return list(found.values())


def _best_of_each_gpu(specs: Iterable[Candidate]) -> Sequence[Candidate]:
    found: dict[str | None, Candidate] = {}
    for one in specs:
        gpu = one.spec.offer.instance.gpu_name
        if gpu not in found or _sample_usd(one) < _sample_usd(found[gpu]):
            found[gpu] = one
    return list(found.values())


def _sample_usd(one: Candidate) -> float:
    return one.spec.total_usd_per_hour / one.prediction.lower


def _key(one: Candidate) -> _Key:
    offer = one.spec.offer
    order = str(one.spec.disk.choice)
    return (
        offer.instance.cloud, offer.instance.name, offer.region, str(offer.market), order,
        one.spec.count,
    )  # fmt: skip
