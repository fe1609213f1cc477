"""Prices as a cloud tells them now, and whether they can be believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from advisor.answers.live.lists import PriceList
from advisor.catalog import Catalog
from advisor.catalog.believed import why_not_believed
from advisor.catalog.overlay import plain_cell
from advisor.domain import ESTIMATED, LIST, OBSERVED, Market, Price
from advisor.domain.live import PriceAnswer
from advisor.domain.money import MAX_AGE_DAYS
from advisor.domain.price_age import is_old
from advisor.infra.live.quotes import NoQuote, Quote

_KINDS = {Market.ON_DEMAND: LIST, Market.SPOT: OBSERVED}
# Between which times the estimate 90 % of observed prices lay, without a GPU and with one:
# `python benchmarks/prices.py --json`, `spot_as_told`.
_SPREAD = {False: (0.38, 1.54), True: (0.31, 2.07)}
_BAND = "interrupted within a month"


class Question(Struct, frozen=True, kw_only=True):
    """What is asked of whom, and against what it is held; `accept_implausible` takes any price
    above 0."""

    prices: PriceList
    names: Sequence[str]
    region: str
    market: Market
    known: Catalog
    today: date
    accept_implausible: bool = False


def ask_prices(question: Question) -> Iterator[PriceAnswer]:
    """One answer a type, in order. `LiveError` where the service cannot be asked at all."""
    quotes = question.prices.quotes
    for told in quotes(question.names, question.region, question.market, question.today):
        yield judged(question, told)


def judged(question: Question, told: Quote | NoQuote) -> PriceAnswer:
    """What was told beside what is known: taken, or refused with both numbers."""
    name, market = told.instance_type, question.market
    before = question.known.price(name, question.region, market, question.prices.cloud)
    answer = PriceAnswer(instance_type=name, region=question.region, market=market, before=before)
    if isinstance(told, NoQuote):
        return replace(answer, why=told.why, unlisted=told.unlisted)
    cloud, usd = question.prices.cloud, told.usd_per_hour
    far = why_not_believed(usd, question.known, cloud, name, question.region, market)
    if far and not question.accept_implausible:
        return replace(answer, not_believed=told.usd_per_hour, why=far)
    kind = ESTIMATED if told.estimated else _KINDS[market]
    if told.estimated and before and before.kind == OBSERVED and not is_old(before, question.today):
        return replace(answer, why=f"the price that was observed on {before.as_of} is surer")
    has_gpu = bool(question.known.partial_type(name, cloud).gpu_count)
    low, high = _SPREAD[has_gpu] if told.estimated else (1.0, 1.0)
    price = Price(
        usd_per_hour=told.usd_per_hour,
        kind=kind,
        as_of=told.as_of,
        # Lists of one seller keep alike; of another kind of price nothing is known.
        max_age_days=before.max_age_days if before and before.kind == kind else MAX_AGE_DAYS,
        source=question.prices.sources[market],
        terms=told.terms or _terms(told, before),
        low=low,
        high=high,
    )
    return replace(answer, told=price)


def _terms(told: Quote, before: Price | None) -> str:
    """The zone of a spot price, and how often instances were taken back when that was seen."""
    if not told.zone:
        return ""
    zone = f"zone {plain_cell(told.zone)}"
    if before is None:
        return zone
    # What an earlier refresh kept says when already. An estimate has the day of its band; a price
    # that was seen has a day of its own.
    when = "of the snapshot" if before.kind == OBSERVED else f"seen {before.as_of}"
    bands = [part for part in before.terms.split("; ") if _BAND in part]
    return "; ".join([zone, *(one if one.endswith(")") else f"{one} ({when})" for one in bands)])
