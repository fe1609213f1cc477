"""Request + task -> answer: options -> predictions -> limits -> ranking -> explanation.

Pure: no clock, no files. The answer is the spec of the least expected cost: its price, and what it would cost
to mend a miss of the target or a limit, times the chance of one; never one that keeps them with less than an
even chance. With a required confidence it is the cheapest whose bounds keep them. Without a target it is the
one that does its work for the least money, and of those that cost the same within the error one whose GPU was
measured. Every type that is passed over keeps its reason."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any, Generic

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog.live import is_live, refresh_command
from advisor.domain import ESTIMATED, LIST, OBSERVED, PRICE_KINDS, LazyRejected, Offer, PriceCall
from advisor.domain.decision import price_chance
from advisor.domain.money import PriceSpread, aged_spec, all_listed, is_old
from advisor.engine.borderline import close_calls
from advisor.engine.columns import Integers
from advisor.engine.task import A, C, HasSpec, O, R, T, Task
from advisor.errors import NoIntervalError, NoOfferError, StalePriceError
from advisor.messages import Message

# Specs of an answer of which the first counts, with what may be held against it.
_FEW = 2
# The least chance that a spec may have.
_EVEN = 0.5
# The cheapest specs by the median among which the surest is looked for, however many are shown.
_BEHIND = 10


class RankedAnswer(Struct, Generic[A], frozen=True):
    """An answer that is ranked, and the fields that are found only where it is the one given."""

    answer: A
    details: Callable[[], dict[str, Any]] = dict

    def complete(self, **fields: Any) -> A:
        """The answer with all its fields."""
        return replace(self.answer, **self.details(), **fields)


class PriceDoubt(Generic[R, C, A]):
    """A request whose cheapest spec may have a price in doubt, answered as sure as prices are `today`.

    `drafted` decides by the median of every price; `cost` is what candidates rank by."""

    def __init__(
        self, request: R, drafted: Callable[[R], RankedAnswer[A]], cost: Callable[[C], float], today: date
    ) -> None:
        self._request, self._drafted, self._cost, self._today = request, drafted, cost, today

    def answer(self) -> A:
        """The one whose first spec costs least at the upper end of its price."""
        draft = self._drafted(self._request)
        answer, today = draft.answer, self._today
        if not answer.ranked or all_listed(answer.ranked[0].spec, today):
            return draft.complete()
        first = answer.ranked[0]
        if self._is_enough(first) and (listed := self._listed_behind(answer)) is not None:
            return draft.complete(price_call=PriceCall(listed=listed))
        published: RankedAnswer[A] | None = draft
        if first.spec.offer.price.kind != LIST:
            published = self._of_kinds({LIST})
        recent = published
        if published is None or not all_listed(published.answer.ranked[0].spec, today):
            recent = self._among(listed_on=today)
        rivals = [draft, published, recent, self._as_sure_as_behind(answer)]
        if first.spec.offer.price.kind == ESTIMATED:
            rivals.append(self._of_kinds({LIST, OBSERVED}))
        firsts = [(rival, rival.answer.ranked[0]) for rival in rivals if rival is not None]
        surest, _ = min(firsts, key=lambda rival: self._order(rival[1]))
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
        """The cheapest listed candidate behind the first, of a recent list where the first is of an old one;
        None where the first may not be the surest, or others than those shown may tell.

        One spec of each type is ranked: where its price is estimated, or markets are mixed, the same type may
        be listed elsewhere."""
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
        """The answer under some prices, of `most` specs, best first; None if they give none."""
        try:
            draft = self._drafted(replace(self._request, max_results=most, **prices))
        except (NoOfferError, NoIntervalError):
            return None
        return draft if draft.answer.chosen is not None else None

    def _is_enough(self, candidate: C) -> bool:
        """Whether a candidate is as sure as it has to be, the doubt of its price counted."""
        least = self._request.confidence if self._request.is_sure else _EVEN
        return candidate.probability is None or candidate.probability >= least

    def _order(self, candidate: C) -> tuple[bool, float]:
        """By the cost at the highest price; where a chance is required that none has, the surest first."""
        if self._is_enough(candidate) or not self._request.is_sure:
            return not self._is_enough(candidate), self._at_most(candidate)
        return True, -(candidate.probability or 0.0)

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


def with_ages(answer: A, today: date) -> A:
    """The answer with prices as sure as they are today, and chances that count their doubt."""
    return replace(
        answer,
        ranked=tuple(_with_doubt(candidate, answer.request, today) for candidate in answer.ranked),
        nearest=_with_age(answer.nearest, today),
        beyond_price=_with_age(answer.beyond_price, today),
    )


def _with_age(candidate: Any, today: date) -> Any:
    aged = candidate and aged_spec(candidate.spec, today)
    return candidate if candidate is None or aged is candidate.spec else replace(candidate, spec=aged)


def _with_doubt(candidate: Any, request: Any, today: date) -> Any:
    candidate = _with_age(candidate, today)
    doubt = price_chance(candidate, request)
    chance = 1.0 if candidate.probability is None else candidate.probability
    return candidate if doubt == 1.0 else replace(candidate, probability=doubt * chance)


def _surely_priced_first(
    task: Task[R, O, T, C, A], request: R, table: T, rows: Integers, today: date
) -> Integers:
    """Rows, those first whose rate and price together keep the limits as surely as is required; where none
    does, the surest first."""
    limits = request.max_usd_per_hour, getattr(request, "max_run_usd", None)
    if not request.is_sure or limits == (None, None):
        return rows
    known = task.candidates(request, table, rows.tolist())
    chances = np.array([_with_doubt(each, request, today).probability or 0.0 for each in known])
    enough = chances >= request.confidence
    return rows[np.argsort(~enough if enough.any() else -chances, kind="stable")]


def fresh_answer(request: R, answered: Callable[[R], A], today: date) -> A:
    """The answer among instances whose price is not old `today`; disk prices are dated apart.

    Raises `StalePriceError` where older prices alone answer, and what `answered` raises."""
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
        "only old prices answer this, and --strict takes none: that of {name} of {cloud} is {age} days old "
        "({as_of}), and prices of its source count as old after {most}",
        name=instance.name,
        cloud=instance.cloud,
        age=(today - price.as_of).days,
        as_of=price.as_of.isoformat(),
        most=price.max_age_days,
        field="strict",
        hint=hint,
    )


def recommend(
    task: Task[R, O, T, C, A], request: R, *, today: date, strict: bool = False, whole: bool = True
) -> A:
    """Answer one request, `strict` among instances whose price is not old; without `whole` the ranking alone,
    and nothing that is told beside it.

    Raises `UsageError` for what the catalogue or the predictor does not know, `NoIntervalError` where only
    predictions without a calibrated interval would answer, and if `strict` `StalePriceError`."""

    drafted = partial(_by_median_price, task, today=today, whole=whole)
    rank = partial(task.candidate_rank, request)
    if strict:
        return fresh_answer(request, lambda fresh: PriceDoubt(fresh, drafted, rank, today).answer(), today)
    return PriceDoubt(request, drafted, rank, today).answer()


def _by_median_price(task: Task[R, O, T, C, A], request: R, *, today: date, whole: bool) -> RankedAnswer[A]:
    """The answer where every price were what it is at the median.

    Over all clouds there are thousands of types, and who names a cloud wants to know why each is turned down:
    where cheap ones fill the answer, dearer ones are not predicted."""
    for most_usd in task.cheap_usd_per_hour(request):
        draft = _among(task, request, today, most_usd, whole=whole)
        ranked = draft.answer.ranked
        is_sure = not request.is_sure or (ranked and (ranked[0].probability or 1.0) >= request.confidence)
        is_full = len(ranked) >= request.max_results
        if is_sure and is_full and task.candidate_rank(request, ranked[-1]) <= most_usd:
            return draft
    return _among(task, request, today, whole=whole)


def _among(
    task: Task[R, O, T, C, A], request: R, today: date, most_usd_per_hour: float | None = None, *, whole: bool
) -> RankedAnswer[A]:
    """The answer among instances that cost no more."""
    options = task.options(request, most_usd_per_hour)
    table = task.predict(request, options)
    rows = np.empty(0, dtype=np.intp) if table is None else task.ranked_rows(request, options, table)
    if table is not None:
        rows = _surely_priced_first(task, request, table, rows, today)
    shown: tuple[C, ...] = ()
    misses: tuple[Message, ...] = ()
    nearest = beyond_price = None
    if table is not None and len(rows):
        shown = tuple(task.shown(request, options, table, rows[: request.max_results].tolist()))
    elif table is not None:
        if most_usd_per_hour is None:
            task.require_intervals(request, options, table)
        nearest, misses = task.nearest(request, options, table)
        beyond_price = _beyond_price(task, request, table)
    chosen = shown[0] if shown else None
    about = chosen or nearest
    rejected = task.rejected(request, options, table)
    answer: A = task.answer(
        request=request,
        ranked=shown,
        nearest=nearest,
        nearest_misses=misses,
        beyond_price=beyond_price,
        rejected=rejected,
        rejected_counts=rejected.counts if isinstance(rejected, LazyRejected) else None,
        offers_considered=options.considered,
        assumptions=tuple(task.assumptions(request, options, about)),
        warnings=tuple(task.warnings(about, today)) if about else (),
        today=today,
    )
    answer = with_ages(answer, today)

    def details() -> dict[str, Any]:
        if table is None:
            return {}
        known = dict(zip(rows.tolist(), shown, strict=False))
        needs_no_other = chosen is None or request.is_sure or answer.is_safe
        safe = None if needs_no_other else _safe(task, request, today)
        first = int(rows[0]) if len(rows) else None
        calls, no_trial = close_calls(task, request, options, table, first, known, safe)
        return {
            "close_calls": calls,
            "no_trial": None if needs_no_other else no_trial,
            "safe": safe,
            "level": int(task.level(request, table.take(rows)).sum()),
            **task.details(request, options, table, rows, answer.chosen),
        }

    return RankedAnswer(answer, details if whole else dict)


def _safe(task: Task[R, O, T, C, A], request: R, today: date) -> C | None:
    """The cheapest spec whose bounds keep target and limits, and whose price is as sure; None if none."""
    sure = replace(request, required_confidence=request.confidence, max_results=1)
    try:
        chosen = recommend(task, sure, today=today, whole=False).chosen
    except NoIntervalError:
        return None
    return chosen if chosen and (chosen.probability or 1.0) >= request.confidence else None


def _beyond_price(task: Task[R, O, T, C, A], request: R, table: T) -> C | None:
    """The cheapest that would answer if only its price were allowed."""
    if request.max_usd_per_hour is None:
        return None
    rows = np.flatnonzero(task.answering(request, table, but_for=("over_max_price",)))
    if not len(rows):
        return None
    return task.candidates(request, table, [int(rows[table.usd[rows].argmin()])])[0]
