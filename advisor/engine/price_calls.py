"""No spec wins by the error of its price.

A price that its seller lists today is what will be paid; an estimated, an observed or an old one
lies in an interval. What is cheapest by such a price is held against the cheapest listed one, the
cheapest one of a recent list, the cheapest that nobody estimated, and the cheapest whose price is
as sure as that of the surest spec behind it: the one that costs least at the upper end of its
interval is chosen, and what is cheapest by its median may be cheaper.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import ESTIMATED, LIST, OBSERVED, PRICE_KINDS, PriceCall
from advisor.domain.decision import AnyCandidate
from advisor.domain.price_age import PriceSpread, aged_spec, all_listed
from advisor.errors import NoIntervalError, NoOfferError

# A recommendation of any task.
Answer = TypeVar("Answer", bound=Any)
AnyRequest = Any
# Specs of an answer of which the first counts, with what may be held against it.
_FEW = 2
# The cheapest specs by the median among which the surest is looked for, however many are shown.
_BEHIND = 10


class Draft(Struct, Generic[Answer], frozen=True):
    """An answer that is ranked, and the fields that are found only where it is the one given."""

    answer: Answer
    details: Callable[[], dict[str, Any]] = dict

    def complete(self, **fields: Any) -> Answer:
        """The answer with all its fields."""
        whole: Answer = replace(self.answer, **self.details(), **fields)
        return whole


def decided_by_price(
    request: AnyRequest,
    drafted: Callable[[AnyRequest], Draft[Answer]],
    cost: Callable[[AnyCandidate], float],
    today: date,
) -> Answer:
    """The answer to a request, in which prices are as sure as they are `today`.

    `drafted` decides by the median of every price; `cost` is what candidates rank by.
    """
    draft = _aged(drafted(request), today)
    answer = draft.answer
    first = answer.chosen
    if first is None or all_listed(first.spec, today):
        return draft.complete()
    if (listed := _listed_behind(request, answer, cost, today)) is not None:
        return draft.complete(price_call=PriceCall(listed=listed))
    published: Draft[Answer] | None = draft
    if first.spec.offer.price.kind != LIST:
        published = _of_kinds(request, drafted, today, {LIST})
    recent = published
    if published is None or not all_listed(published.answer.chosen.spec, today):
        recent = _among(request, drafted, today, listed_on=today)
    surer = _as_sure_as_behind(request, drafted, answer, cost, today)
    options: list[Draft[Answer] | None] = [draft, published, recent, surer]
    if first.spec.offer.price.kind == ESTIMATED:
        options.append(_of_kinds(request, drafted, today, {LIST, OBSERVED}))
    found = [one for one in options if one is not None]
    surest = min(found, key=lambda one: _at_most(one.answer.chosen, cost))
    chosen = surest.answer.chosen
    # Beside an old list price stands one of a recent list.
    beside = (recent,) if chosen.spec.offer.price.kind == LIST else (published, recent)
    others = [one for one in beside if one is not None and one is not surest]
    is_listed = surest is published or surest is recent
    listed = others[0].answer.chosen if others else chosen if is_listed else None
    if surest is draft:
        return draft.complete(price_call=PriceCall(listed=None if listed is first else listed))
    return _led_by(surest.complete(), answer, PriceCall(listed=listed, cheaper=first))


def _listed_behind(
    request: AnyRequest, answer: Answer, cost: Callable[[AnyCandidate], float], today: date
) -> AnyCandidate | None:
    """The cheapest listed candidate behind the first, of a recent list where the first is of an old
    one; None where the first may not be the surest, or others than those shown may tell.

    One spec of each type is ranked: where its price is estimated, or markets are mixed, the same
    type may be listed elsewhere.
    """
    first, *behind = answer.ranked
    surest = _at_most(first, cost)
    last = answer.ranked[-1]
    all_shown = len(answer.ranked) < request.max_results or cost(last) >= surest
    if request.market is None or not all_shown:
        return None
    if any(_at_most(one, cost) < surest for one in behind):
        return None
    is_published = first.spec.offer.price.kind == LIST
    for one in answer.ranked:
        if one.spec.offer.price.kind == ESTIMATED:
            return None
        is_listed = one.spec.offer.price.kind == LIST
        if one is not first and is_listed and (not is_published or all_listed(one.spec, today)):
            return one
    return None


def _as_sure_as_behind(
    request: AnyRequest,
    drafted: Callable[[AnyRequest], Draft[Answer]],
    answer: Answer,
    cost: Callable[[AnyCandidate], float],
    today: date,
) -> Draft[Answer] | None:
    """The answer at prices as sure as that of the spec which costs least at its upper end, among
    the cheapest by the median; None where that is the first of them, or a listed one."""
    if request.max_results < _BEHIND:
        more = _among(request, drafted, today, most=_BEHIND)
        answer = more.answer if more else answer
    behind = answer.ranked[:_BEHIND]
    surest = min(behind, key=lambda one: _at_most(one, cost))
    if surest is behind[0] or all_listed(surest.spec, today):
        return None
    most = surest.spec.offer.price.high
    return _among(request, drafted, today, price_spread=PriceSpread(most, today))


def _of_kinds(
    request: AnyRequest, drafted: Callable[[AnyRequest], Draft[Answer]], today: date, kinds: set[str]
) -> Draft[Answer] | None:
    """The answer that prices of some kinds give, of those that the request allows."""
    some = tuple(kind for kind in request.price_kinds or PRICE_KINDS if kind in kinds)
    return _among(request, drafted, today, price_kinds=some) if some else None


def _among(
    request: AnyRequest,
    drafted: Callable[[AnyRequest], Draft[Answer]],
    today: date,
    most: int = _FEW,
    **prices: Any,
) -> Draft[Answer] | None:
    """The answer that some prices give, of `most` specs: the first is what counts. None where they
    give none."""
    try:
        draft = _aged(drafted(replace(request, max_results=most, **prices)), today)
    except (NoOfferError, NoIntervalError):
        return None
    return draft if draft.answer.chosen is not None else None


def _at_most(candidate: AnyCandidate, cost: Callable[[AnyCandidate], float]) -> float:
    """What a candidate ranks by where its prices are at the upper end of their intervals."""
    spec = candidate.spec
    share: float = spec.high_usd_per_hour / spec.total_usd_per_hour
    return cost(candidate) * share


def _led_by(chosen: Answer, answer: Answer, call: PriceCall) -> Answer:
    """The answer at all prices with another chosen spec, about which `chosen` tells the rest."""
    first = chosen.chosen
    behind = {_type(one): one for one in (*chosen.ranked, *answer.ranked)}
    return replace(
        chosen,
        request=answer.request,
        ranked=(first, *list(behind.values())[1:])[: answer.request.max_results],
        rejected=answer.rejected,
        rejected_counts=answer.rejected_counts,
        offers_considered=answer.offers_considered,
        price_call=call,
    )


def _type(candidate: AnyCandidate) -> tuple[str, str]:
    instance = candidate.spec.offer.instance
    return instance.cloud, instance.name


def _aged(draft: Draft[Answer], today: date) -> Draft[Answer]:
    """With prices as sure as they are today."""

    def one(candidate: AnyCandidate) -> AnyCandidate:
        spec = candidate and aged_spec(candidate.spec, today)
        return replace(candidate, spec=spec) if candidate and spec is not candidate.spec else candidate

    answer = draft.answer
    aged: Answer = replace(
        answer,
        ranked=tuple(map(one, answer.ranked)),
        nearest=one(answer.nearest),
        beyond_price=one(answer.beyond_price),
    )
    return replace(draft, answer=aged)
