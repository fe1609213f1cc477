"""`advisor catalog refresh`: today's prices of a cloud or tracker, checked and put over the snapshot."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog, OfferQuery
from advisor.catalog.believed import why_not_believed
from advisor.catalog.importing import Imported, import_file
from advisor.catalog.overlay import Overlay, cloud_title, keep_overlay, plain_cell
from advisor.catalog.prices import matches_instance
from advisor.catalog.support import CLOUD
from advisor.domain import ESTIMATED, LIST, OBSERVED, Market, Price
from advisor.domain.live import PriceAnswer, Refresh
from advisor.domain.money import MAX_AGE_DAYS, is_old
from advisor.errors import LiveError, UsageError
from advisor.infra.live.aws import offered
from advisor.infra.live.lists import PriceList
from advisor.infra.live.session import Deadline, NoQuote, Quote, each_within
from advisor.infra.live.web import Say, checked_url, download

_KINDS = {Market.ON_DEMAND: LIST, Market.SPOT: OBSERVED}
# Bounds of 90 % of observed prices as multiples of the estimate, by whether the type has a GPU
# (docs/reference/prices.md).
_SPREAD = {False: (0.38, 1.54), True: (0.31, 2.07)}
_BAND = "interrupted within a month"
# If this many types, and more than half of those queried, vanish at once, an answer was probably lost.
FEWEST_DOUBTED = 4


class PriceQuestion(Struct, frozen=True, kw_only=True):
    """A query to a seller: the types of a region, and the known prices that answers are checked against;
    with `accept_implausible` any price above 0 is taken."""

    prices: PriceList
    names: Sequence[str]
    region: str
    known: Catalog
    today: date
    accept_implausible: bool = False


def ask_prices(question: PriceQuestion, market: Market) -> Iterator[PriceAnswer]:
    """One answer per type, in order; raises `LiveError` where the service does not respond at all."""
    for quote in question.prices.quotes(question.names, question.region, market, question.today):
        yield _price_answer(question, market, quote)


def _price_answer(question: PriceQuestion, market: Market, quote: Quote | NoQuote) -> PriceAnswer:
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
        # The same kind of price from the same seller stays valid as long as before.
        max_age_days=before.max_age_days if before and before.kind == kind else MAX_AGE_DAYS,
        source=question.prices.sources[market],
        terms=quote.terms or _terms(quote, before),
        low=low,
        high=high,
    )
    return replace(answer, price=price)


def _terms(quote: Quote, before: Price | None) -> str:
    """The zone of a spot price, and the earlier price's interruption rate with the day when it was seen."""
    if not quote.zone:
        return ""
    zone = f"zone {plain_cell(quote.zone)}"
    if before is None:
        return zone
    # Terms from an earlier refresh end with a day already. Else the day of an estimated price is the day
    # of its interruption rate; the day of an observed price is not.
    when = "of the snapshot" if before.kind == OBSERVED else f"seen {before.as_of}"
    bands = [part for part in before.terms.split("; ") if _BAND in part]
    return "; ".join([zone, *(band if band.endswith(")") else f"{band} ({when})" for band in bands)])


class Offerings(Struct, frozen=True):
    """The types, each with whether a region offers it, and warnings about answers that are not believed."""

    offered: dict[str, bool]
    warnings: tuple[str, ...] = ()


def ask_offerings(
    names: Sequence[str], region: str, known: Catalog, *, accept_implausible: bool = False
) -> Offerings:
    """The types, each with whether an AWS region offers it; raises `LiveError` where it does not respond."""
    there = offered(names, region)
    is_offered = {name: name in there for name in names}
    return without_vanished(is_offered, region, known, CLOUD, accept_implausible=accept_implausible)


def without_vanished(
    is_offered: dict[str, bool], region: str, known: Catalog, cloud: str, *, accept_implausible: bool
) -> Offerings:
    """The region's offerings; if over half of its types vanished, only the others, with a warning."""
    vanished = [name for name in is_offered if not is_offered[name] and known.is_offered(name, region, cloud)]
    if len(vanished) < FEWEST_DOUBTED or 2 * len(vanished) <= len(is_offered) or accept_implausible:
        return Offerings(is_offered)
    doubt = (
        f"{region} is said to offer {len(vanished)} of {len(is_offered)} types no longer: not believed "
        "(--accept-implausible takes it)"
    )
    return Offerings({name: there for name, there in is_offered.items() if there}, (doubt,))


# Seconds for one answer: four tries of boto3 and its waits between them. A price list without an account
# is one answer, fetched whole.
ANSWER_SECONDS = 60.0
WHOLE_LIST_SECONDS = 600.0
# Answers per line of progress.
PROGRESS_EVERY = 10
TRACKER_SECONDS = 120.0


def types_to_ask(bundled: Catalog, region: str, query: OfferQuery) -> tuple[str, ...]:
    """The types that the query names, else the matching ones that the region offers in the snapshot. Raises
    `UsageError` for unknown names, and where nothing matches."""
    cloud = str(query.cloud)
    bundled.require_region(region, cloud)
    for gpu in query.gpus:
        bundled.require_gpu(gpu, cloud)
    if query.instances:
        named = tuple(dict.fromkeys(bundled.name_of(name, cloud) for name in query.instances))
        query = replace(query, instances=named)
    names = [
        instance.name
        for instance in bundled.instances(cloud)
        if matches_instance(instance, query, bundled.capability_of(instance.gpu_name))
        and (query.instances or bundled.is_offered(instance.name, region, cloud))
    ]
    if region in bundled.regions(cloud):  # types that lack facts are listed with their prices
        partial = bundled.partial_offers(replace(query, region=region))
        names += dict.fromkeys(offer.type.name for offer in partial)
    if not names:
        raise UsageError(f"no type of {cloud} in {region} is what is asked for; nothing to refresh")
    return tuple(names)


def refresh(question: PriceQuestion, markets: tuple[Market, ...], folder: Path, say: Say) -> Refresh:
    """Fetches prices, checks them against known ones, and keeps the believed ones in `folder`. Raises
    `LiveError` where the cloud does not respond: then nothing has changed, as after Ctrl-C."""
    cloud, region, known = question.prices.cloud, question.region, question.known
    offerings = _offerings(question, say)
    names = [name for name in question.names if offerings.offered.get(name, True)]
    answers = [
        answer for market in markets for answer in _prices(replace(question, names=names), market, say)
    ]
    if question.prices.by_type and not question.prices.has_account:
        offerings = _delisted(question, answers)
    newer = overlay_of(region, question.today, offerings.offered, answers)
    # A seller whose prices are all implausible is not believed about its offerings either.
    sound = newer and (newer.prices or not answers)
    file = str(keep_overlay(folder, cloud, newer)) if sound else ""
    changed = [
        name for name, there in offerings.offered.items() if there != known.is_offered(name, region, cloud)
    ]
    return Refresh(
        cloud=cloud,
        as_of=question.today,
        region=region,
        markets=markets,
        names=tuple(question.names),
        answers=tuple(answers),
        withdrawn=tuple(name for name in changed if not offerings.offered[name]),
        returned=tuple(name for name in changed if offerings.offered[name]),
        warnings=offerings.warnings,
        file=file,
    )


def overlay_of(region: str, today: date, offered: dict[str, bool], answers: Iterable[PriceAnswer]) -> Overlay:
    """The overlay of believed prices and of offerings, for the snapshot."""
    prices = {
        (answer.instance_type, answer.region, answer.market): answer.price
        for answer in answers
        if answer.price
    }
    return Overlay(prices, {(name, region): (there, today) for name, there in offered.items()})


def _offerings(question: PriceQuestion, say: Say) -> Offerings:
    if not question.prices.has_account:
        return Offerings({})
    names, region, accept = question.names, question.region, question.accept_implausible
    say(f"asking {region} which of {len(names)} types it offers")
    try:
        return Deadline(ANSWER_SECONDS).within(
            "AWS instance type offerings",
            lambda: ask_offerings(names, region, question.known, accept_implausible=accept),
        )
    except LiveError as error:
        return Offerings({}, (f"whether the types are still offered is not known: {error}",))


def _delisted(question: PriceQuestion, answers: Sequence[PriceAnswer]) -> Offerings:
    """Types with a known on-demand price that the seller's whole list lacks on every market queried: a type
    that is no longer listed is no longer sold."""
    listed = {answer.instance_type for answer in answers if not answer.unlisted}
    gone = {
        answer.instance_type: False
        for answer in answers
        if answer.market is Market.ON_DEMAND and answer.before and answer.instance_type not in listed
    }
    every = dict.fromkeys(question.names, True) | gone
    cloud, accept = question.prices.cloud, question.accept_implausible
    sure = without_vanished(every, question.region, question.known, cloud, accept_implausible=accept)
    return Offerings({name: False for name in gone if name in sure.offered}, sure.warnings)


def _prices(question: PriceQuestion, market: Market, say: Say) -> Iterable[PriceAnswer]:
    seconds = ANSWER_SECONDS if question.prices.has_account else WHOLE_LIST_SECONDS
    what = f"{cloud_title(question.prices.cloud)}: {market} prices"
    for number, answer in enumerate(each_within(seconds, what, ask_prices(question, market)), 1):
        if number % PROGRESS_EVERY == 0 or number == len(question.names):
            say(f"{market} prices: {number} of {len(question.names)}")
        yield answer


def imported_from(url: str, folder: Path, today: date, say: Say, *, accept_implausible: bool) -> Imported:
    """The price list at `url`, kept in `folder` as an import named after its host, or as refreshed prices.
    `today` dates prices without a date. Raises `LiveError` where it cannot be fetched, and `UsageError` for
    an unknown kind of list: then nothing has changed."""
    address = checked_url(url, "--tracker")
    host = str(urlsplit(address).hostname)
    say(f"asking {host}")
    content = Deadline(TRACKER_SECONDS).within(host, lambda: download(address))
    with tempfile.TemporaryDirectory() as made:
        # Prices name their file as their source.
        name = _safe_name(PurePosixPath(urlsplit(address).path).name) or "prices"
        path = Path(made) / f"{_safe_name(host)} {name}"
        path.write_bytes(content)
        return import_file(path, _safe_name(host), folder, as_of=today, accept_implausible=accept_implausible)


def _safe_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:60]
