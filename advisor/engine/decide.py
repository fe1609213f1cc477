"""Answers the request of a task: options -> predictions -> limits -> ranking -> explanation.

Pure: no clock, no files. The chosen spec has the least expected cost: its price, plus the cost of missing the
target or a limit times the chance of that, which is never above one half. With a required confidence it is
the cheapest spec whose bounds keep target and limits. Without a target it does its work for the least money;
among specs that cost the same within the error, one whose GPU was measured. Every type that is not
recommended has a reason."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any, Generic

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog.overlay import is_live, refresh_command
from advisor.domain import ESTIMATED, LIST, OBSERVED, PRICE_KINDS, Offer, PriceCall
from advisor.domain.decision import price_chance
from advisor.domain.money import PriceSpread, aged_spec, all_listed, is_old
from advisor.engine.borderline import close_calls
from advisor.engine.columns import Integers
from advisor.engine.limits import CLEARLY_LESS, MOST_INSTANCES
from advisor.engine.task import EVEN, MOST_RIVALS, A, C, HasSpec, O, R, T, Task
from advisor.errors import NoIntervalError, NoOfferError, StalePriceError
from advisor.messages import Message

# Up to how many times the allowed count of instances a cheaper safe spec is looked for.
_MORE_INSTANCES = 4
# Limits that leave a choice among equal costs as it is, where it surely keeps them.
_LIMITS = ("max_hours", "max_run_usd", "max_usd_per_hour", "vcpu_quota")
# Specs to rank where only the first matters: one more shows what else might be chosen.
_FEWEST_SHOWN = 2


class RankedAnswer(Struct, Generic[A], frozen=True):
    """An answer with its ranking, and a function that finds its other fields if it is the final one."""

    answer: A
    details: Callable[[], dict[str, Any]] = dict

    def complete(self, **fields: Any) -> A:
        """The answer with all its fields."""
        return replace(self.answer, **self.details(), **fields)


class PriceDoubt(Generic[R, C, A]):
    """Answers a request whose cheapest spec may have an uncertain price; its interval is that of `today`.
    `drafted` answers by median prices; `cost` is the cost that candidates rank by."""

    def __init__(
        self, request: R, drafted: Callable[[R], RankedAnswer[A]], cost: Callable[[C], float], today: date
    ) -> None:
        self._request, self._drafted, self._cost, self._today = request, drafted, cost, today

    def answer(self) -> A:
        """The answer whose first spec costs least at the upper bound of its price."""
        draft = self._drafted(self._request)
        answer, today = draft.answer, self._today
        if not answer.ranked or all_listed(answer.ranked[0].spec, today):
            return draft.complete()
        first = answer.ranked[0]
        published: RankedAnswer[A] | None = draft
        if first.spec.offer.price.kind != LIST:
            published = self._of_kinds({LIST})
        recent = published
        if published is None or not all_listed(published.answer.ranked[0].spec, today):
            recent = self._first_of(listed_on=today)
        rivals = [draft, published, recent, self._as_sure_as_behind(answer)]
        if first.spec.offer.price.kind == ESTIMATED:
            rivals.append(self._of_kinds({LIST, OBSERVED}))
        firsts = [(rival, rival.answer.ranked[0]) for rival in rivals if rival is not None]
        surest, _ = min(firsts, key=lambda rival: self._sort_key(rival[1]))
        chosen = surest.answer.ranked[0]
        # An old list price is compared with one of a recent list.
        beside = (recent,) if chosen.spec.offer.price.kind == LIST else (published, recent)
        others = [rival for rival in beside if rival is not None and rival is not surest]
        is_listed = surest is published or surest is recent
        listed = others[0].answer.chosen if others else chosen if is_listed else None
        if surest is draft:
            return draft.complete(price_call=PriceCall(listed=None if listed is first else listed))
        return _with_chosen(surest.complete(), answer, PriceCall(listed=listed, cheaper=first))

    def _as_sure_as_behind(self, answer: A) -> RankedAnswer[A] | None:
        """The answer with only prices as sure as that of the spec with the lowest upper price, among the
        cheapest by median prices; None where that is the first of them, or has a list price."""
        if self._request.max_results < MOST_RIVALS:
            more = self._first_of(most=MOST_RIVALS)
            answer = more.answer if more else answer
        behind = answer.ranked[:MOST_RIVALS]
        surest = min(behind, key=self._upper_rank)
        if surest is behind[0] or all_listed(surest.spec, self._today):
            return None
        return self._first_of(price_spread=PriceSpread(surest.spec.offer.price.high, self._today))

    def _of_kinds(self, kinds: set[str]) -> RankedAnswer[A] | None:
        """The answer from prices of these kinds that the request allows; None if they give none."""
        some = tuple(kind for kind in self._request.price_kinds or PRICE_KINDS if kind in kinds)
        return self._first_of(price_kinds=some) if some else None

    def _first_of(self, most: int = _FEWEST_SHOWN, **prices: Any) -> RankedAnswer[A] | None:
        """The answer with `most` specs from a part of the prices; None if they give none."""
        try:
            draft = self._drafted(replace(self._request, max_results=most, **prices))
        except (NoOfferError, NoIntervalError):
            return None
        return draft if draft.answer.chosen is not None else None

    def _is_likely_enough(self, candidate: C) -> bool:
        """True if a candidate's chance, with the doubt of its price, is as high as the request needs."""
        least = self._request.confidence if self._request.is_sure else EVEN
        return candidate.probability is None or candidate.probability >= least

    def _sort_key(self, candidate: C) -> tuple[bool, float, float]:
        """By the cost at the highest price, then at the median (spot is at most as dear as on demand); where
        a chance is required that none has, the surest first."""
        if self._is_likely_enough(candidate) or not self._request.is_sure:
            upper = float(f"{self._upper_rank(candidate):.9g}")
            return not self._is_likely_enough(candidate), upper, self._cost(candidate)
        return True, -(candidate.probability or 0.0), 0.0

    def _upper_rank(self, candidate: C) -> float:
        """The cost that a candidate ranks by, at the upper bounds of its prices."""
        return self._cost(candidate) * (candidate.spec.high_usd_per_hour / candidate.spec.total_usd_per_hour)


def _with_chosen(chosen: A, answer: A, call: PriceCall) -> A:
    """The answer from all prices, led by the chosen spec of the answer `chosen`, with that one's details."""
    first = chosen.chosen
    assert first is not None
    behind: dict[tuple[str, str], Any] = {}
    for candidate in (*answer.ranked, *chosen.ranked):
        behind.setdefault(_type_key(candidate), candidate)
    behind.pop(_type_key(first), None)
    return replace(
        chosen,
        request=answer.request,
        ranked=(first, *behind.values())[: answer.request.max_results],
        rejected=answer.rejected,
        offers_considered=answer.offers_considered,
        price_call=call,
    )


def _type_key(candidate: HasSpec) -> tuple[str, str]:
    instance = candidate.spec.offer.instance
    return instance.cloud, instance.name


def with_ages(answer: A, today: date) -> A:
    """The answer with price intervals as wide as they are today, and chances that include this doubt."""
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
    if not request.is_sure or limits == (None, None) or not len(rows):
        return rows
    known = task.candidates(request, table, rows.tolist())
    chances = np.array([_with_doubt(each, request, today).probability or 0.0 for each in known])
    enough = chances >= request.confidence
    return rows[np.argsort(~enough if enough.any() else -chances, kind="stable")]


def fresh_answer(request: R, answered: Callable[[R], A], today: date) -> A:
    """The answer among instances whose price is not old `today`, whatever the age of disk prices. Raises
    `StalePriceError` where only older prices answer, and what `answered` raises."""
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
    hint = Message("`advisor catalog import` takes newer prices, or ask without --strict")
    if is_live(instance.cloud, offer.market):
        command = refresh_command(instance.cloud, offer.region)
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
    """The answer to one request; with `strict` among instances whose price is not old, and without `whole`
    only the ranking, without further details. Raises `UsageError` for names that the catalogue or the
    predictor does not know, `NoIntervalError` where only predictions without a calibrated interval would
    answer, and with `strict` `StalePriceError`."""

    drafted = partial(_by_median_price, task, today=today, whole=whole)
    rank = partial(task.candidate_rank, request)
    limited = _as_without_limits(task, request, today, strict)
    if strict:
        answer = fresh_answer(limited, lambda fresh: PriceDoubt(fresh, drafted, rank, today).answer(), today)
    else:
        answer = PriceDoubt(limited, drafted, rank, today).answer()
    answer = replace(answer, request=request)
    if not (whole and request.vcpu_quota and answer.chosen):
        return answer
    free = recommend(task, replace(request, vcpu_quota=()), today=today, strict=strict, whole=False).chosen
    is_cheaper = free and task.candidate_cost(request, free) < task.candidate_cost(request, answer.chosen)
    return replace(answer, beyond_quota=free if is_cheaper else None)


def _as_without_limits(task: Task[R, O, T, C, A], request: R, today: date, strict: bool) -> R:
    """The request with the choice among equal costs that is made without its limits; these leave it."""
    free = request.without(set(_LIMITS) & set(request.__struct_fields__))
    if free == request or not free.has_equal_costs:
        return request
    first = recommend(task, free, today=today, strict=strict, whole=False).chosen
    return replace(request, preferred=first and (first.spec.offer.instance.name, first.spec.offer.market))


def _by_median_price(task: Task[R, O, T, C, A], request: R, *, today: date, whole: bool) -> RankedAnswer[A]:
    """The answer by median prices. All clouds together have thousands of types: where cheap ones fill the
    answer, dearer ones are not predicted. Within one cloud all are, since its users want to know why each
    type is rejected."""
    for most_usd in task.cheap_usd_per_hour(request):
        draft = _answer_up_to(task, request, today, most_usd, whole=whole)
        ranked = draft.answer.ranked
        is_sure = not request.is_sure or (ranked and (ranked[0].probability or 1.0) >= request.confidence)
        is_full = len(ranked) >= request.max_results
        if is_sure and is_full and task.candidate_rank(request, ranked[-1]) <= most_usd:
            return draft
    return _answer_up_to(task, request, today, whole=whole)


def _answer_up_to(
    task: Task[R, O, T, C, A], request: R, today: date, most_usd_per_hour: float | None = None, *, whole: bool
) -> RankedAnswer[A]:
    """The answer among instances up to a price (None: all)."""
    options = task.options(request, most_usd_per_hour)
    table = task.predict(request, options)
    rows: Integers = np.empty(0, dtype=np.intp)
    shown: tuple[C, ...] = ()
    if table is not None:
        ranked = task.ranked_rows(request, options, table)
        rows = _surely_priced_first(task, request, table, ranked, today)
        if len(rows):
            shown = tuple(task.shown(request, options, table, rows[: request.max_results].tolist()))
        elif most_usd_per_hour is None:
            task.require_intervals(request, options, table)
    ranking = _Ranking(task, request, today, options, table, rows, shown)
    answer = ranking.answer()
    return RankedAnswer(answer, partial(ranking.details, answer) if whole else dict)


class _Ranking(Struct, Generic[R, O, T, C, A], frozen=True):
    """The ranked `rows` of a table of options (None: nothing runs), and those of them that are `shown`."""

    task: Task[R, O, T, C, A]
    request: R
    today: date
    options: O
    table: T | None
    rows: Integers
    shown: tuple[C, ...]

    def answer(self) -> A:
        """The answer without its details; where nothing answers, with the nearest specs."""
        task, request, options, table = self.task, self.request, self.options, self.table
        nearest: C | None = None
        misses: tuple[Message, ...] = ()
        beyond_price: C | None = None
        if table is not None and not self.shown:
            nearest, misses = task.nearest(request, options, table)
            beyond_price = _beyond_price(task, request, table)
        about = self.shown[0] if self.shown else nearest
        answer: A = task.answer(
            request=request,
            ranked=self.shown,
            nearest=nearest,
            nearest_misses=misses,
            beyond_price=beyond_price,
            rejected=task.rejected(request, options, table),
            offers_considered=options.considered,
            assumptions=tuple(task.assumptions(request, about)),
            warnings=tuple(task.warnings(about, self.today)) if about else (),
            today=self.today,
        )
        return with_ages(answer, self.today)

    def details(self, answer: A) -> dict[str, Any]:
        """The further fields of `answer`, which is that of this ranking."""
        task, request, options, table, rows = self.task, self.request, self.options, self.table, self.rows
        if table is None:
            return {}
        needs_no_other = not self.shown or request.is_sure or answer.is_safe
        safe = None if needs_no_other else _safe(task, request, self.today)
        first = int(rows[0]) if len(rows) else None
        known = dict(zip(rows.tolist(), self.shown, strict=False))
        calls, no_trial = close_calls(task, request, options, table, first, known, safe)
        return {
            "close_calls": calls,
            "no_trial": None if needs_no_other else no_trial,
            "safe": safe,
            "beyond_count": _beyond_count(task, answer, table, safe, self.today),
            "level": int(task.level(request, table.take(rows)).sum()),
            **task.details(request, options, table, rows, answer.chosen, self.today),
        }


def _safe(task: Task[R, O, T, C, A], request: R, today: date) -> C | None:
    """The safe spec: the cheapest whose bounds keep target and limits, with a price as sure; None if none."""
    sure = replace(request, required_confidence=request.confidence, max_results=1)
    try:
        chosen = recommend(task, sure, today=today, whole=False).chosen
    except NoIntervalError:
        return None
    return chosen if chosen and (chosen.probability or 1.0) >= request.confidence else None


def _beyond_count(task: Task[R, O, T, C, A], answer: A, table: T, safe: C | None, today: date) -> C | None:
    """The safe spec on more instances than `max_count` allows, where it costs clearly less than the `safe`
    one (the chosen one, if that is safe), or where there is none."""
    request, chosen = answer.request, answer.chosen
    most = getattr(request, "max_count", 1)
    if chosen is None or chosen.probability is None or most == 1:
        return None
    within = chosen if answer.is_safe else safe
    if within and within.spec.total_usd_per_hour <= (most + 1) * float(table.usd_each.min()):
        return None  # one more than allowed costs as much, even of the cheapest type
    more: Any = {"max_count": min(_MORE_INSTANCES * most, MOST_INSTANCES)}
    other = _safe(task, replace(request, **more), today)
    if other is None or other.spec.count <= most:
        return None
    costs = [task.candidate_cost(request, each) for each in (other, within) if each]
    return other if len(costs) == 1 or costs[0] < CLEARLY_LESS * costs[1] else None


def _beyond_price(task: Task[R, O, T, C, A], request: R, table: T) -> C | None:
    """The cheapest spec that misses nothing but the price limit; None if there is none."""
    if request.max_usd_per_hour is None:
        return None
    rows = np.flatnonzero(task.answering(request, table, but_for=("over_max_price",)))
    if not len(rows):
        return None
    return task.candidates(request, table, [int(rows[table.usd[rows].argmin()])])[0]
