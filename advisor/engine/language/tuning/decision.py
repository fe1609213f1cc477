"""Language model + tokens + offers + predictor -> the instance that tunes it for the least money.

Pure: no clock, no files. Ranked by the run's cost at the median, or by the price by the hour where
a target is to be reached. Every type that is passed over keeps its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from advisor.catalog import Catalog
from advisor.catalog.support import UNLIMITED_NOTE
from advisor.domain import Rejected
from advisor.domain.generation import LlmMethod
from advisor.domain.tuning import FineTuningCandidate, FineTuningRecommendation, FineTuningRequest
from advisor.engine.assumed_facts import assumed_facts
from advisor.engine.assumptions import price_warnings
from advisor.engine.language.shortfalls import by_price
from advisor.engine.language.tuning.table import TuningTable
from advisor.engine.language.tuning.ways import TuningWay, tuning_ways
from advisor.engine.limits import closest
from advisor.engine.offers import place_query
from advisor.engine.price_calls import Draft, decided_by_price
from advisor.engine.table import best_of_each
from advisor.messages import Message
from advisor.models.language.finetuning.tuning import ADAPTER_RANK, STEP_SEQUENCES
from advisor.units import ceil_significant, floor_rate

if TYPE_CHECKING:
    from advisor.engine.model import Integers
    from advisor.models.language.finetuning import FineTuningPredictor
    from advisor.models.language.language_model import LanguageModel


class Preparations(NamedTuple):
    """What requests about one language model are answered from."""

    catalog: Catalog
    model: LanguageModel
    predictor: FineTuningPredictor


def recommend_tuning(
    request: FineTuningRequest, preparations: Preparations, *, today: date
) -> FineTuningRecommendation:
    """Answer one request; raises `UsageError` for what the catalogue does not know."""
    return decided_by_price(
        request,
        lambda asked: Draft(_by_median_price(asked, preparations, today)),
        lambda candidate: _cost(request, candidate),
        today,
    )


def _cost(request: FineTuningRequest, candidate: FineTuningCandidate) -> float:
    """What a candidate ranks by, as `TuningTable.cost`."""
    if request.ranks_by_price:
        return candidate.spec.total_usd_per_hour
    return candidate.usd_per_run.median


def _by_median_price(
    request: FineTuningRequest, preparations: Preparations, today: date
) -> FineTuningRecommendation:
    """The answer where every price were what it is at the median."""
    found = tuning_ways(request, *preparations)
    catalog, predictor = preparations.catalog, preparations.predictor
    rejected = [*found.rejected, *catalog.unpriced(place_query(request, accelerated=True))]
    if not found.ways:
        return FineTuningRecommendation(
            request=request,
            ranked=(),
            nearest=None,
            rejected=by_price(rejected),
            offers_considered=found.considered,
            assumptions=tuning_assumptions(request, None),
            warnings=(),
            today=today,
        )
    table = TuningTable.of(request, found.ways)
    rows = ranked_rows(table)
    shown = tuple(table.candidate(at, predictor) for at in rows[: request.max_results].tolist())
    chosen = shown[0] if shown else None
    at = int(rows[0]) if shown else _nearest(table)
    nearest = None if shown else table.candidate(at, predictor)
    return FineTuningRecommendation(
        request=request,
        ranked=shown,
        nearest=nearest,
        beyond_price=None if shown else _beyond_price(table, predictor),
        rejected=by_price([*rejected, *_rejections(table)]),
        offers_considered=found.considered,
        assumptions=tuning_assumptions(request, chosen or nearest),
        warnings=tuning_warnings(chosen or nearest, table.ways[at], today),
        today=today,
    )


def ranked_rows(table: TuningTable) -> Integers:
    """Of each type the best row that answers, the cheapest first; ties by rate, then by name."""
    good = np.flatnonzero(table.answering())
    if not len(good):
        return good
    costs, rates = table.cost, table.rates[1]
    best = good[best_of_each(table.kind[good], costs[good], -rates[good])]
    names = table.names[table.kind[best]].tolist()
    order = sorted(range(len(best)), key=lambda at: (costs[best[at]], -rates[best[at]], names[at]))
    return np.asarray(best[order])


def _nearest(table: TuningTable) -> int:
    return closest(table.limits, table.usd, np.arange(len(table)))[0]


def _beyond_price(table: TuningTable, predictor: FineTuningPredictor) -> FineTuningCandidate | None:
    """The cheapest that would answer if only its price were allowed."""
    rows = np.flatnonzero(table.answering(but_for=("over_max_price",)))
    if table.request.max_usd_per_hour is None or not len(rows):
        return None
    return table.candidate(int(rows[table.usd[rows].argmin()]), predictor)


def _rejections(table: TuningTable) -> list[Rejected]:
    """Every type of which no way answers, with the reason that its nearest shows."""
    answered = np.zeros(len(table.names), dtype=bool)
    answered[table.kind[table.answering()]] = True
    found = []
    for kind in np.flatnonzero(~answered).tolist():
        at, reason = closest(table.limits, table.usd, np.flatnonzero(table.kind == kind))
        detail, usd = _shortfall(table, at, reason), float(table.usd[at])
        found.append(Rejected(*table.ways[at].kind, reason, detail, usd))
    return found


def _shortfall(table: TuningTable, at: int, reason: str) -> Message:
    """What a row misses, with the number that decided."""
    request = table.request
    if reason == "too_slow":
        return Message(
            "p{p:.3g} is {lower:,g} tokens/s, below {target:target}",
            code=reason,
            p=100 * (1 - request.confidence),
            lower=floor_rate(float(table.rates[0, at])),
            target=request.target_tokens_per_second,
        )
    if reason == "too_long":
        return Message(
            "its run takes up to {upper:hours}, more than {limit:hours}; median {median:hours}",
            code=reason,
            upper=ceil_significant(float(table.hours[0, at])),
            limit=request.max_hours,
            median=float(table.hours[1, at]),
        )
    if reason == "over_max_cost":
        return Message(
            "its run costs up to {upper:usd}, more than {limit:usd}; median {median:usd}",
            code=reason,
            upper=ceil_significant(float(table.run_usd[0, at])),
            limit=request.max_run_usd,
            median=float(table.run_usd[1, at]),
        )
    if reason == "over_max_price":
        return Message(
            "{usd:usd}/h is above {limit:usd}/h",
            code=reason,
            usd=float(table.usd[at]),
            limit=request.max_usd_per_hour,
        )
    return Message("no calibrated interval for it (--allow-extrapolation judges it)", code=reason)


def tuning_assumptions(request: FineTuningRequest, chosen: FineTuningCandidate | None) -> tuple[Message, ...]:
    """Everything the answer takes for granted, one short clause each."""
    return tuple(_assumed(request, chosen))


def _assumed(request: FineTuningRequest, chosen: FineTuningCandidate | None) -> Iterator[Message]:
    if chosen is not None:
        yield from assumed_facts(request, chosen.spec.offer.instance, chosen.spec.disk)
    yield Message("PyTorch with FSDP or data parallel, compiled, fused attention, in 16 bits")
    if request.method == LlmMethod.FULL:
        yield Message("AdamW with 32-bit weights, gradients and moments")
    else:
        yield Message("adapters of rank {rank} on every matrix, AdamW in 32 bits", rank=ADAPTER_RANK)
    yield Message(
        "sequences packed to {sequence:,} tokens, {count} or more in an optimizer step",
        sequence=request.sequence,
        count=STEP_SEQUENCES,
    )
    if request.micro_batch is None and chosen is not None:
        yield Message("micro-batch and checkpointing as fit and are fastest")
    yield Message("start-up, evaluation and checkpoints are not counted")
    if request.target_tokens_per_second is None:
        yield Message("ranked by cost of the run at the median rate")


def tuning_warnings(
    chosen: FineTuningCandidate | None, way: TuningWay | None, today: date
) -> tuple[Message | str, ...]:
    """What weakens the answer and can be checked."""
    if chosen is None or way is None:
        return ()
    offer = chosen.spec.offer
    found = [*chosen.extrapolation, *price_warnings(offer.price, chosen.spec.disk, today)]
    if chosen.gpus_used > 1 and not way.link.source:
        found.append(
            Message(
                "how the GPUs of {name} are joined is not published: PCIe is assumed",
                name=offer.instance.name,
            )
        )
    found += [note for note in chosen.notes if note != UNLIMITED_NOTE]
    idle = offer.instance.gpu_count - chosen.gpus_used
    if idle > 0:
        found.append(Message("{idle} of its {gpus} GPUs stay idle", idle=idle, gpus=offer.instance.gpu_count))
    return tuple(found)
