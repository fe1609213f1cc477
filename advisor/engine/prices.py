"""No spec wins by the error of its price.

A price that its seller lists today is what will be paid; an estimated, an observed or an old one
lies in an interval. What is cheapest by such a price is held against the cheapest listed one, the
cheapest one of a recent list, the cheapest that nobody estimated, and the cheapest whose price is
as sure as that of the surest spec behind it: the one that costs least at the upper end of its
interval is chosen, and what is cheapest by its median may be cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from typing import Any, Generic

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog.live import is_live, refresh_command
from advisor.domain import ESTIMATED, LIST, OBSERVED, PRICE_KINDS, Offer, PriceCall
from advisor.domain.money import PriceSpread, aged_spec, all_listed, is_old
from advisor.engine.task import A, C, HasSpec, R
from advisor.errors import NoIntervalError, NoOfferError, StalePriceError
from advisor.messages import Message

# Specs of an answer of which the first counts, with what may be held against it.
_FEW = 2
# The cheapest specs by the median among which the surest is looked for, however many are shown.
_BEHIND = 10


class RankedAnswer(Struct, Generic[A], frozen=True):
    """An answer that is ranked, the fields that are found only where it is the one given, and the price
    by the hour that a spec given in its place may have, found only where its own is not sure."""

    answer: A
    details: Callable[[], dict[str, Any]] = dict
    most_usd_per_hour: Callable[[], float] = lambda: math.inf

    def complete(self, **fields: Any) -> A:
        """The answer with all its fields."""
        return replace(self.answer, **self.details(), **fields)


class PriceDoubt(Generic[R, C, A]):
    """A request whose cheapest spec may have a price in doubt, answered as sure as prices are `today`.

    `drafted` decides by the median of every price; `cost` is what candidates rank by.
    """

    def __init__(
        self, request: R, drafted: Callable[[R], RankedAnswer[A]], cost: Callable[[C], float], today: date
    ) -> None:
        self._request, self._drafted, self._cost, self._today = request, drafted, cost, today

    def answer(self) -> A:
        """The one whose first spec costs least at the upper end of its price."""
        draft = self._draft(self._request)
        answer, today = draft.answer, self._today
        if not answer.ranked or all_listed(answer.ranked[0].spec, today):
            return draft.complete()
        first = answer.ranked[0]
        if (listed := self._listed_behind(answer)) is not None:
            return draft.complete(price_call=PriceCall(listed=listed))
        published: RankedAnswer[A] | None = draft
        if first.spec.offer.price.kind != LIST:
            published = self._of_kinds({LIST})
        recent = published
        if published is None or not all_listed(published.answer.ranked[0].spec, today):
            recent = self._among(listed_on=today)
        most = max(draft.most_usd_per_hour(), first.spec.total_usd_per_hour)
        rivals = [draft, published, recent, self._as_sure_as_behind(answer)]
        if first.spec.offer.price.kind == ESTIMATED:
            rivals.append(self._of_kinds({LIST, OBSERVED}))
        surest = min(
            (rival for rival in rivals if rival and rival.answer.ranked[0].spec.total_usd_per_hour <= most),
            key=lambda rival: self._at_most(rival.answer.ranked[0]),
        )
        chosen = surest.answer.ranked[0]
        # Beside an old list price stands one of a recent list.
        beside = (recent,) if chosen.spec.offer.price.kind == LIST else (published, recent)
        others = [rival for rival in beside if rival is not None and rival is not surest]
        is_listed = surest is published or surest is recent
        listed = others[0].answer.chosen if others else chosen if is_listed else None
        if surest is draft:
            return draft.complete(price_call=PriceCall(listed=None if listed is first else listed))
        return _led_by(surest.complete(), answer, PriceCall(listed=listed, cheaper=first))

    def _listed_behind(self, answer: A) -> C | None:
        """The cheapest listed candidate behind the first, of a recent list where the first is of an old
        one; None where the first may not be the surest, or others than those shown may tell.

        One spec of each type is ranked: where its price is estimated, or markets are mixed, the same
        type may be listed elsewhere.
        """
        request = self._request
        ranked: tuple[C, ...] = answer.ranked
        first, *behind = ranked
        surest = self._at_most(first)
        all_shown = len(answer.ranked) < request.max_results or self._cost(answer.ranked[-1]) >= surest
        if request.market is None or not all_shown:
            return None
        if any(self._at_most(candidate) < surest for candidate in behind):
            return None
        is_published = first.spec.offer.price.kind == LIST
        for candidate in ranked:
            if candidate.spec.offer.price.kind == ESTIMATED:
                return None
            is_listed = candidate.spec.offer.price.kind == LIST
            recent = not is_published or all_listed(candidate.spec, self._today)
            if candidate is not first and is_listed and recent:
                return candidate
        return None

    def _as_sure_as_behind(self, answer: A) -> RankedAnswer[A] | None:
        """The answer at prices as sure as that of the spec which costs least at its upper end, among
        the cheapest by the median; None where that is the first of them, or a listed one."""
        if self._request.max_results < _BEHIND:
            more = self._among(most=_BEHIND)
            answer = more.answer if more else answer
        behind = answer.ranked[:_BEHIND]
        surest = min(behind, key=self._at_most)
        if surest is behind[0] or all_listed(surest.spec, self._today):
            return None
        return self._among(price_spread=PriceSpread(surest.spec.offer.price.high, self._today))

    def _of_kinds(self, kinds: set[str]) -> RankedAnswer[A] | None:
        """The answer that prices of some kinds give, of those that the request allows."""
        some = tuple(kind for kind in self._request.price_kinds or PRICE_KINDS if kind in kinds)
        return self._among(price_kinds=some) if some else None

    def _among(self, most: int = _FEW, **prices: Any) -> RankedAnswer[A] | None:
        """The answer that some prices give, of `most` specs: the first is what counts. None where they
        give none."""
        try:
            draft = self._draft(replace(self._request, max_results=most, **prices))
        except (NoOfferError, NoIntervalError):
            return None
        return draft if draft.answer.chosen is not None else None

    def _draft(self, request: R) -> RankedAnswer[A]:
        """With prices as sure as they are today."""

        def with_age(candidate: C) -> C:
            spec = candidate.spec
            aged = aged_spec(spec, self._today)
            return candidate if aged is spec else replace(candidate, spec=aged)  # type: ignore[type-var]

        draft = self._drafted(request)
        answer = draft.answer
        aged = replace(
            answer,
            ranked=tuple(map(with_age, answer.ranked)),
            nearest=answer.nearest and with_age(answer.nearest),
            beyond_price=answer.beyond_price and with_age(answer.beyond_price),
        )
        return replace(draft, answer=aged)

    def _at_most(self, candidate: C) -> float:
        """What a candidate ranks by where its prices are at the upper end of their intervals."""
        return self._cost(candidate) * (candidate.spec.high_usd_per_hour / candidate.spec.total_usd_per_hour)


def _led_by(chosen: A, answer: A, call: PriceCall) -> A:
    """The answer at all prices with another chosen spec, about which `chosen` tells the rest."""
    first = chosen.chosen
    assert first is not None
    behind: dict[tuple[str, str], Any] = {}
    for candidate in (*answer.ranked, *chosen.ranked):
        behind.setdefault(_type(candidate), candidate)
    behind.pop(_type(first), None)
    return replace(
        chosen,
        request=answer.request,
        ranked=(first, *behind.values())[: answer.request.max_results],
        rejected=answer.rejected,
        rejected_counts=answer.rejected_counts,
        offers_considered=answer.offers_considered,
        price_call=call,
    )


def _type(candidate: HasSpec) -> tuple[str, str]:
    instance = candidate.spec.offer.instance
    return instance.cloud, instance.name


def fresh_answer(request: R, answered: Callable[[R], A], today: date) -> A:
    """The answer among instances whose price is not old `today`; disk prices are dated apart.

    Raises `StalePriceError` where older prices alone answer, and what `answered` raises.
    """
    try:
        fresh = answered(replace(request, fresh_on=today))
    except (NoOfferError, NoIntervalError):
        fresh = None
    if fresh is not None and fresh.chosen is not None:
        return fresh
    whole = answered(request)
    if whole.chosen is not None:
        _require_fresh_price(whole.chosen.spec.offer, today)
    return whole if fresh is None else fresh


def _require_fresh_price(offer: Offer, today: date) -> None:
    price, instance = offer.price, offer.instance
    if not is_old(price, today):
        return
    live = is_live(instance.cloud, offer.market)
    command = refresh_command(instance.cloud, offer.region) if live else None
    hint = Message("`advisor catalog import` takes newer prices, or ask without --strict")
    if command is not None:
        hint = Message("refresh it (`{command}`), or ask without --strict", command=command)
    raise StalePriceError(
        "no price that --strict takes answers: that of {name} of {cloud} is {age} days old "
        "({as_of}) and its source keeps for {most}",
        name=instance.name,
        cloud=instance.cloud,
        age=(today - price.as_of).days,
        as_of=price.as_of.isoformat(),
        most=price.max_age_days,
        field="strict",
        hint=hint,
    )
