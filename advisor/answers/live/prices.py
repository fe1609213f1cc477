"""Prices as a cloud tells them now, and whether they can be believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from advisor.answers.live.lists import PriceList
from advisor.catalog import Catalog
from advisor.catalog.refreshed import plain_cell
from advisor.domain import LIST, OBSERVED, Market, Price
from advisor.domain.live import PriceAnswer
from advisor.domain.money import MAX_AGE_DAYS
from advisor.infra.live.quotes import NoQuote, Quote
from advisor.units import format_usd

# A price that is told at so many times the known one, or at less than that part of it, is not
# believed. The largest change of a list price of a GPU type in us-east-1 from 2022 to 2026 was a
# factor of 1.79 (p5.48xlarge, June 2025); spot prices are known by estimates only, and move.
BELIEVED_FACTOR = {Market.ON_DEMAND: 3.0, Market.SPOT: 10.0}
_KINDS = {Market.ON_DEMAND: LIST, Market.SPOT: OBSERVED}
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
        return replace(answer, why=told.why)
    far = _implausible(told.usd_per_hour, before, BELIEVED_FACTOR[market])
    if far and not question.accept_implausible:
        return replace(answer, not_believed=told.usd_per_hour, why=far)
    kind = _KINDS[market]
    price = Price(
        usd_per_hour=told.usd_per_hour,
        kind=kind,
        as_of=told.as_of,
        # Lists of one seller keep alike; of another kind of price nothing is known.
        max_age_days=before.max_age_days if before and before.kind == kind else MAX_AGE_DAYS,
        source=question.prices.sources[market],
        terms=_terms(told, before),
    )
    return replace(answer, told=price)


def _implausible(usd: float, before: Price | None, factor: float) -> str:
    """Why a price is not believed; empty where it is, or where nothing is known to hold it to."""
    if before is None or not before.usd_per_hour:
        return ""
    ratio = usd / before.usd_per_hour
    if 1 / factor <= ratio <= factor:
        return ""
    return (
        f"{format_usd(usd)}/h is {ratio:.3g} times the known {format_usd(before.usd_per_hour)}/h "
        f"({before.kind}, {before.as_of}), more than a factor of {factor:g}"
    )


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
