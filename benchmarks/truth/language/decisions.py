"""Which choice of GPU and tensor parallelism makes a token cheapest: what is predicted against what was
measured.

A case is one model and traffic that one source measured at unlimited load on at least three choices, on two
GPUs or more. A choice costs its share of the cheapest on-demand instance of us-east-1 that has so many of its
GPUs; where only larger ones are sold, its GPUs' share of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import mean
from typing import NamedTuple

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.gpus import usd_per_gpu_hour
from advisor.domain import Market
from advisor.infra.build.language_sources.rows import ServingRow
from benchmarks.truth.language.scores import RowAnswer

_LEAST_CHOICES = 3
_WITHIN = 1.05
_SECONDS_PER_HOUR = 3600.0


class Choice(NamedTuple):
    """A measured way to serve: the row's place, and what it costs."""

    index: int
    usd_per_hour: float
    tokens_per_second: float

    @property
    def usd_per_token(self) -> float:
        """As measured."""
        return self.usd_per_hour / _SECONDS_PER_HOUR / self.tokens_per_second


Case = Sequence[Choice]


def cases_of(rows: Sequence[ServingRow]) -> list[Case]:
    """Every case that the rows hold."""
    cases: dict[tuple[str, str, float, float], list[Choice]] = defaultdict(list)
    gpus: dict[tuple[str, str, float, float], set[str]] = defaultdict(set)
    for index, row in enumerate(rows):
        usd = replica_usd_per_hour(row.gpu, row.gpus) if row.kind == "maximum" else None
        if usd is not None:
            key = (row.source, row.model, row.input_tokens, row.output_tokens)
            cases[key].append(Choice(index, usd, row.output_tokens_per_second))
            gpus[key].add(row.gpu)
    return [case for key, case in cases.items() if len(case) >= _LEAST_CHOICES and len(gpus[key]) > 1]


def chosen(case: Case, answers: Mapping[int, RowAnswer | str]) -> Choice | None:
    """The cheapest a token by the predicted medians, of those with a prediction."""
    tokens_per_second = {
        choice: answer.output_tokens_per_second.median
        for choice in case
        if isinstance(answer := answers.get(choice.index), RowAnswer) and answer.output_tokens_per_second
    }
    return min(tokens_per_second, key=lambda one: one.usd_per_hour / tokens_per_second[one], default=None)


def chosen_after_trial(
    case: Case, answers: Mapping[int, RowAnswer | str], after: Mapping[int, RowAnswer | str]
) -> Choice | None:
    """As `chosen`, once the first choice was measured: it counts with its measured rate, the others
    with what is predicted then."""
    tried = chosen(case, answers)
    if tried is None:
        return None
    rest = [choice for choice in case if choice.index != tried.index]
    best = chosen(rest, after)
    if best is None:
        return tried
    answer = after[best.index]
    assert isinstance(answer, RowAnswer)
    assert answer.output_tokens_per_second
    predicted = best.usd_per_hour / answer.output_tokens_per_second.median
    return best if predicted < tried.usd_per_hour / tried.tokens_per_second else tried


def figures_of(
    rows: Sequence[ServingRow], answers: Mapping[int, RowAnswer | str], after: Mapping[int, RowAnswer | str]
) -> dict[str, dict[str, float]]:
    """By way to choose: cases, per cent within 5 % of the cheapest token, mean overspend."""
    cases = [case for case in cases_of(rows) if chosen(case, answers)]
    ways: dict[str, Callable[[Case], Choice | None]] = {
        "predicted": lambda case: chosen(case, answers),
        "lowest_hourly_price": lambda case: min(case, key=lambda one: one.usd_per_hour),
    }
    if after:
        ways["with_one_trial"] = lambda case: chosen_after_trial(case, answers, after)
    return {name: _figures(cases, way) for name, way in ways.items()}


def _figures(cases: Sequence[Case], way: Callable[[Case], Choice | None]) -> dict[str, float]:
    choices = [(case, choice) for case in cases if (choice := way(case)) is not None]
    over = [choice.usd_per_token / min(each.usd_per_token for each in case) for case, choice in choices]
    if not over:
        return {"cases": 0}
    return {
        "cases": len(over),
        "within_5_percent": round(100 * mean(ratio <= _WITHIN for ratio in over), 1),
        "overspend_percent": round(100 * (mean(over) - 1), 1),
    }


@cache
def replica_usd_per_hour(gpu: str, gpus: int) -> float | None:
    """US dollars an hour; None where us-east-1 sells no such GPUs."""
    query = OfferQuery(cloud="aws", region="us-east-1", market=Market.ON_DEMAND)
    offers = (
        offer
        for offer in load_catalog().offers(query)
        if offer.instance.gpu_name == gpu and offer.instance.gpu_fraction == 1
        if offer.instance.current and offer.instance.gpu_count >= gpus
    )
    return min((gpus * usd_per_gpu_hour(offer) for offer in offers), default=None)
