"""Finds borderline candidates: those about which the prediction is close, and one trial would decide.

There are three kinds: a cheaper spec that may meet target and limits, the chosen spec where it may miss them,
and the nearest spec where nothing answers. A trial is worth the chance that the decision is wrong times the
cost of that: per hour over the horizon, or per run where the request has one. Only trials that are worth more
than they cost are reported, the best first. The recommendation does not depend on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from advisor.catalog import Catalog, OfferQuery
from advisor.domain import CloseCall, CloseCallKind, Market
from advisor.domain.decision import expected_cost, trial_cost_usd
from advisor.engine.task import A, C, Contender, O, R, T, Task
from advisor.messages import Message, short_usd

# A candidate with a smaller chance of answering is not borderline, whatever it would save.
LEAST_CHANCE = 0.05
MOST_CALLS = 3
_OF_PRICE = Message("no trial settles a price")
_UNTRIED = Message("none: a trial uses one GPU, in fp32, amp or bf16")
_DEAR = Message("a trial ({usd}) costs more than it is expected to save")


def close_calls(
    task: Task[R, O, T, C, A],
    request: R,
    options: O,
    table: T,
    first: int | None,
    shown: Mapping[int, C],
    safe: C | None,
) -> tuple[tuple[CloseCall, ...], Message | None]:
    """Up to three borderline candidates whose trials are worth most, best first, with the chosen one among
    them where it may miss; and why there is no trial of the chosen one, or None. `first` is the chosen row,
    `shown` has the records of rows that exist already, `safe` is the safe spec."""
    no_trial = task.no_trial(request)
    if no_trial or not task.aims(request, table):
        return (), no_trial or _OF_PRICE
    chosen, close = _close_contenders(task, request, options, table, first)
    # With a required confidence the chosen spec is sure enough already.
    if chosen is not None and not request.is_sure:
        is_sure = chosen.chance >= request.confidence
        no_trial = _OF_PRICE if is_sure else None if chosen.settled else _UNTRIED
        close += [chosen] if no_trial is None else []

    def candidate(row_of: Contender[T]) -> C:
        if row_of.table is table and row_of.row in shown:
            return shown[row_of.row]
        return task.candidates(request, row_of.table, [row_of.row])[0]

    calls = list[CloseCall]()
    for contender in close:
        trial_usd = _trial_usd(task.catalog, contender)
        if _worth_usd(request, chosen, contender) > trial_usd:
            instead = safe if contender is chosen else candidate(chosen) if chosen else None
            calls.append(_close_call(task, request, chosen, contender, candidate(contender), instead))
        elif contender is chosen:
            no_trial = Message(_DEAR.text, usd=short_usd(trial_usd))
    calls.sort(key=lambda call: (call.kind is not CloseCallKind.CHOSEN_MAY_MISS, _urgency(call)))
    return tuple(sorted(calls[:MOST_CALLS], key=_urgency)), no_trial


def _close_contenders(
    task: Task[R, O, T, C, A], request: R, options: O, table: T, first: int | None
) -> tuple[Contender[T] | None, list[Contender[T]]]:
    """The chosen row as a contender (None: there is none), and others that may do for less."""
    limit = math.inf if first is None else float(task.cost(request, table)[first])
    best = _best_of_each_type(task.contenders(request, options, table, limit), limit)
    if first is None and not best:
        return None, []
    rows = [(each.table, each.row) for each in best]
    *others, last = task.looked_at(request, [*rows, (table, first or 0)])
    close = [contender for contender in others if contender.chance >= LEAST_CHANCE]
    return None if first is None else last, close


def _urgency(call: CloseCall) -> tuple[float, str]:
    """A key that sorts by the expected saving of a trial minus its cost, the most urgent first; where nothing
    answers, by its chance per dollar."""
    urgency = call.worth_usd - call.trial_usd
    if call.kind is CloseCallKind.NEAREST_MAY_REACH:
        urgency = call.probability / call.trial_usd
    return _most_first(urgency, call.candidate.spec.offer.instance.name)


def worth_of_trial(cost: float, chance: float, chosen_rank: float | None = None) -> float:
    """The expected saving by a trial of a spec: for the chosen one its cost, if it misses; for another one,
    if it reaches the target, the difference to the expected cost `chosen_rank` of the chosen one."""
    return (1 - chance) * cost if chosen_rank is None else chance * (chosen_rank - cost)


def _trial_usd(catalog: Catalog, contender: Contender[T]) -> float:
    """The cost of a trial on demand, on one instance, whatever the market of the spec."""
    offer, usd_each = contender.table.offer(contender.row), float(contender.table.usd_each[contender.row])
    if offer.market is not Market.ON_DEMAND:
        name, market = offer.instance.name, Market.ON_DEMAND
        query = OfferQuery(cloud=offer.instance.cloud, market=market, instances=(name,))
        there, _ = catalog.cheapest(replace(query, region=offer.region), 1)
        known = there or catalog.cheapest(query, 1)[0]
        usd_each += known[0].price.usd_per_hour - offer.price.usd_per_hour if known else 0.0
    return trial_cost_usd(usd_each, contender.trial_minutes)


def _best_of_each_type(contenders: Iterable[Contender[T]], limit: float) -> list[Contender[T]]:
    """The contender of each type with the greatest expected saving; only a few, which are then evaluated."""
    best: dict[tuple[str, str], Contender[T]] = {}
    for contender in contenders:
        instance = contender.table.offer(contender.row).instance
        kind = instance.cloud, instance.name
        if kind not in best or _saving(contender, limit) > _saving(best[kind], limit):
            best[kind] = contender
    most_first = sorted(best.values(), key=lambda each: _most_first(_saving(each, limit), _name(each)))
    return most_first[: 2 * MOST_CALLS]


def _name(contender: Contender[T]) -> str:
    return contender.table.offer(contender.row).instance.name


def _most_first(value: float, name: str) -> tuple[float, str]:
    """A sort key by falling value, then by name; rounded, since last bits depend on the table."""
    return -float(f"{value:.12g}"), name


def _saving(contender: Contender[T], limit: float) -> float:
    """The chance that a spec answers times what it saves; without a chosen spec, the chance per dollar."""
    return (
        contender.chance / contender.cost
        if limit == math.inf
        else contender.chance * (limit - contender.cost)
    )


def _worth_usd(request: R, chosen: Contender[T] | None, contender: Contender[T]) -> float:
    """The expected saving of a contender's trial, over the horizon or per run. The chosen spec's price is
    lost where it misses; another one may be cheaper, or may answer where nothing else does."""
    saving = contender.chance * contender.cost
    if contender is chosen:
        saving = worth_of_trial(contender.cost, contender.chance)
    elif chosen is not None:
        rank = chosen.cost if request.is_sure else expected_cost(chosen.cost, chosen.chance)
        saving = worth_of_trial(contender.cost, contender.chance, rank)
    if not request.ends:  # what a sample costs is paid for all of the horizon, too
        usd = float(contender.table.usd[contender.row])
        saving *= request.horizon_hours * (1.0 if request.ranks_by_price else usd / contender.cost)
    return saving


def _close_call(
    task: Task[R, O, T, C, A],
    request: R,
    chosen: Contender[T] | None,
    contender: Contender[T],
    candidate: C,
    instead: C | None,
) -> CloseCall:
    kind = CloseCallKind.NEAREST_MAY_REACH
    if chosen is not None:
        kind = CloseCallKind.CHOSEN_MAY_MISS if contender is chosen else CloseCallKind.CHEAPER_MAY_REACH
    usd = run_usd = None
    if instead is not None:
        usd = instead.spec.total_usd_per_hour - candidate.spec.total_usd_per_hour
        if request.ends and not request.owes_term:
            run_usd = task.candidate_cost(request, instead) - contender.cost
    return CloseCall(
        kind=kind,
        candidate=candidate,
        instead=instead,
        probability=contender.chance,
        saves_usd_per_hour=usd,
        saves_usd_per_run=run_usd,
        trial_minutes=float(max(1, math.ceil(contender.trial_minutes))),
        trial_usd=_trial_usd(task.catalog, contender),
        worth_usd=_worth_usd(request, chosen, contender),
    )
