"""Prices and offerings as a cloud tells them now, and whether they can be believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.believed import why_not_believed
from advisor.catalog.overlay import plain_cell
from advisor.catalog.support import CLOUD
from advisor.domain import ESTIMATED, LIST, OBSERVED, Market, Price
from advisor.domain.live import PriceAnswer
from advisor.domain.money import MAX_AGE_DAYS, is_old
from advisor.errors import LiveError
from advisor.infra.live.ec2 import Facts, facts, offered
from advisor.infra.live.lists import PriceList
from advisor.infra.live.session import NoQuote, Quote

_KINDS = {Market.ON_DEMAND: LIST, Market.SPOT: OBSERVED}
# Between which times the estimate 90 % of observed prices lay, without a GPU and with one:
# docs/reference/prices.md.
_SPREAD = {False: (0.38, 1.54), True: (0.31, 2.07)}
_BAND = "interrupted within a month"
# So many types, and more than half of those asked for, do not vanish at once: an answer was lost.
FEWEST_DOUBTED = 4


class PriceQuestion(Struct, frozen=True, kw_only=True):
    """A question to a seller: the types of a region, and the known prices that answers are checked
    against; `accept_implausible` takes any price above 0."""

    prices: PriceList
    names: Sequence[str]
    region: str
    known: Catalog
    today: date
    accept_implausible: bool = False


def ask_prices(question: PriceQuestion, market: Market) -> Iterator[PriceAnswer]:
    """One answer a type, in order. `LiveError` where the service cannot be asked at all."""
    for quote in question.prices.quotes(question.names, question.region, market, question.today):
        yield _judged(question, market, quote)


def _judged(question: PriceQuestion, market: Market, quote: Quote | NoQuote) -> PriceAnswer:
    name, cloud = quote.instance_type, question.prices.cloud
    before = question.known.price(name, question.region, market, cloud)
    answer = PriceAnswer(instance_type=name, region=question.region, market=market, before=before)
    if isinstance(quote, NoQuote):
        return replace(answer, why=quote.why, unlisted=quote.unlisted)
    far = why_not_believed(quote.usd_per_hour, question.known, cloud, name, question.region, market)
    if far and not question.accept_implausible:
        return replace(answer, not_believed=quote.usd_per_hour, why=far)
    if quote.estimated and before and before.kind == OBSERVED and not is_old(before, question.today):
        return replace(answer, why=f"the price that was observed on {before.as_of} is surer")
    kind = ESTIMATED if quote.estimated else _KINDS[market]
    has_gpu = bool(question.known.partial_type(name, cloud).gpu_count)
    low, high = _SPREAD[has_gpu] if quote.estimated else (1.0, 1.0)
    price = Price(
        usd_per_hour=quote.usd_per_hour,
        kind=kind,
        as_of=quote.as_of,
        # Lists of one seller keep alike; of another kind of price nothing is known.
        max_age_days=before.max_age_days if before and before.kind == kind else MAX_AGE_DAYS,
        source=question.prices.sources[market],
        terms=quote.terms or _terms(quote, before),
        low=low,
        high=high,
    )
    return replace(answer, price=price)


def _terms(quote: Quote, before: Price | None) -> str:
    """The zone of a spot price, and how often instances were taken back when that was seen."""
    if not quote.zone:
        return ""
    zone = f"zone {plain_cell(quote.zone)}"
    if before is None:
        return zone
    # What an earlier refresh kept says when already. An estimate has the day of its band; a price
    # that was seen has a day of its own.
    when = "of the snapshot" if before.kind == OBSERVED else f"seen {before.as_of}"
    bands = [part for part in before.terms.split("; ") if _BAND in part]
    return "; ".join([zone, *(band if band.endswith(")") else f"{band} ({when})" for band in bands)])


class Offerings(Struct, frozen=True):
    """Whether each type is offered, where that is sure; what differs from what was known."""

    offered: dict[str, bool]
    warnings: tuple[str, ...] = ()


def ask_offerings(
    names: Sequence[str], region: str, known: Catalog, *, accept_implausible: bool = False
) -> Offerings:
    """Ask a region which types it offers. `LiveError` where it cannot be asked.

    A type is withdrawn only where two services agree on it: one lists it no longer, and the other
    does not describe it.
    """
    there = offered(names, region)
    warnings: list[str] = []
    try:
        described = facts(names, region)
    except LiveError as error:
        described = {}
        warnings.append(f"facts of types are not confirmed: {error}")
    doubtful = [name for name in names if name in described and name not in there]
    warnings += [
        f"{region} does not list {name} as offered, and yet describes it: left as it was" for name in doubtful
    ]
    warnings += [line for name in described for line in _differences(name, described[name], known)]
    is_offered = {name: name in there for name in names if name not in doubtful}
    sure = without_vanished(is_offered, region, known, CLOUD, accept_implausible=accept_implausible)
    return Offerings(sure.offered, (*warnings, *sure.warnings))


def without_vanished(
    is_offered: dict[str, bool], region: str, known: Catalog, cloud: str, *, accept_implausible: bool
) -> Offerings:
    """Whether each type is offered, without those that vanished in bulk; and a warning of these."""
    vanished = [name for name in is_offered if not is_offered[name] and known.is_offered(name, region, cloud)]
    if len(vanished) < FEWEST_DOUBTED or 2 * len(vanished) <= len(is_offered) or accept_implausible:
        return Offerings(is_offered)
    doubt = (
        f"{region} is said to offer {len(vanished)} of {len(is_offered)} types no longer: not believed "
        "(--accept-implausible takes it)"
    )
    return Offerings({name: there for name, there in is_offered.items() if there}, (doubt,))


def _differences(name: str, described: Facts, known: Catalog) -> list[str]:
    ours = known.partial_type(name, CLOUD)
    pairs = [
        ("vCPUs", described.vcpus, ours.vcpus),
        ("MiB of RAM", described.memory_mib, ours.memory_mib),
        ("GPUs", described.gpu_count, ours.gpu_count),
    ]
    return [
        f"AWS says that {name} has {theirs:,} {what}, the catalogue {known_one:,}"
        for what, theirs, known_one in pairs
        if known_one is not None and theirs != known_one
    ]
