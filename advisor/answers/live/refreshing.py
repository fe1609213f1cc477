"""`advisor catalog refresh`: what a cloud tells today, laid over the snapshot; all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from advisor.answers.live.lists import PriceList
from advisor.answers.live.offerings import Offerings, ask_offerings, believed
from advisor.answers.live.prices import Question, ask_prices
from advisor.catalog import Catalog, OfferQuery
from advisor.catalog.live import cloud_title
from advisor.catalog.match import matches_instance
from advisor.catalog.overlay import Overlay, keep_overlay
from advisor.domain import Market
from advisor.domain.live import PriceAnswer, Refresh
from advisor.errors import LiveError, UsageError
from advisor.infra.live.deadlines import Deadline, each_within

# Seconds for one answer: four tries of boto3, and what it waits between them. Google's list is
# one answer, fetched whole.
ANSWER_SECONDS = 60.0
WHOLE_LIST_SECONDS = 600.0
# A line of progress for so many answers.
TOLD_EVERY = 10
Say = Callable[[str], None]


class Wanted(Struct, frozen=True, kw_only=True):
    """Which prices are to be refreshed, from whom; see `types_to_ask`."""

    prices: PriceList
    region: str
    markets: tuple[Market, ...]
    names: tuple[str, ...]
    today: date
    accept_implausible: bool = False


def types_to_ask(bundled: Catalog, region: str, query: OfferQuery) -> tuple[str, ...]:
    """The named types, else those the region offers, by the snapshot, that match the query.

    `UsageError` for names nobody knows, and where nothing matches.
    """
    cloud = str(query.cloud)
    bundled.require_region(region, cloud)
    for gpu in query.gpus:
        bundled.require_gpu(gpu, cloud)
    if query.instances:
        named = tuple(dict.fromkeys(bundled.name_of(one, cloud) for one in query.instances))
        query = replace(query, instances=named)
    names = [
        instance.name
        for instance in bundled.instances(cloud)
        if matches_instance(instance, query, bundled.capability_of(instance.gpu_name))
        and (query.instances or bundled.is_offered(instance.name, region, cloud))
    ]
    if region in bundled.regions(cloud):  # types that lack facts are listed with their prices
        partial = bundled.partial_offers(replace(query, region=region))
        names += dict.fromkeys(one.type.name for one in partial)
    if not names:
        raise UsageError(f"no type of {cloud} in {region} is what is asked for; nothing to refresh")
    return tuple(names)


def refresh(wanted: Wanted, known: Catalog, folder: Path, say: Say) -> Refresh:
    """Ask, judge against what is known, and keep what is believed in `folder`.

    `LiveError` where the cloud cannot be asked: then nothing has changed, as after Ctrl-C.
    """
    cloud = wanted.prices.cloud
    offerings = _offerings(wanted, known, say)
    names = [name for name in wanted.names if offerings.offered.get(name, True)]
    answers = [one for market in wanted.markets for one in _prices(wanted, market, names, known, say)]
    if wanted.prices.by_type and not wanted.prices.has_account:
        offerings = _gone_from_list(wanted, answers, known)
    newer = refreshed_of(wanted.region, wanted.today, offerings.offered, answers)
    # Who tells no price that can be believed is not believed about anything else.
    sound = newer and (newer.prices or not answers)
    file = str(keep_overlay(folder, cloud, newer)) if sound else ""
    known_there = {name: known.is_offered(name, wanted.region, cloud) for name in wanted.names}
    changed = [name for name, there in offerings.offered.items() if there != known_there[name]]
    return Refresh(
        cloud=cloud,
        as_of=wanted.today,
        region=wanted.region,
        markets=wanted.markets,
        asked=wanted.names,
        answers=tuple(answers),
        withdrawn=tuple(name for name in changed if not offerings.offered[name]),
        returned=tuple(name for name in changed if offerings.offered[name]),
        warnings=offerings.warnings,
        file=file,
    )


def refreshed_of(
    region: str, today: date, offered: dict[str, bool], answers: Iterable[PriceAnswer]
) -> Overlay:
    """What was told and is believed, as it is laid over the snapshot."""
    prices = {
        (answer.instance_type, answer.region, answer.market): answer.told for answer in answers if answer.told
    }
    return Overlay(prices, {(name, region): (there, today) for name, there in offered.items()})


def _offerings(wanted: Wanted, known: Catalog, say: Say) -> Offerings:
    if not wanted.prices.has_account:
        return Offerings({}, ())
    say(f"asking {wanted.region} which of {len(wanted.names)} types it offers")
    accept = wanted.accept_implausible
    try:
        return Deadline(ANSWER_SECONDS).within(
            "AWS instance type offerings",
            lambda: ask_offerings(wanted.names, wanted.region, known, accept_implausible=accept),
        )
    except LiveError as error:
        return Offerings({}, (f"whether the types are still offered is not known: {error}",))


def _gone_from_list(wanted: Wanted, answers: Sequence[PriceAnswer], known: Catalog) -> Offerings:
    """Types whose on-demand price was known, and that a whole list has on none of the markets that
    were asked for: who lists a type no longer does not sell it."""
    listed = {one.instance_type for one in answers if not one.unlisted}
    gone = {
        one.instance_type: False
        for one in answers
        if one.market is Market.ON_DEMAND and one.before and one.instance_type not in listed
    }
    every = dict.fromkeys(wanted.names, True) | gone
    cloud, accept = wanted.prices.cloud, wanted.accept_implausible
    sure, doubts = believed(every, wanted.region, known, cloud, accept_implausible=accept)
    return Offerings({name: False for name in gone if name in sure}, tuple(doubts))


def _prices(
    wanted: Wanted, market: Market, names: Sequence[str], known: Catalog, say: Say
) -> Iterable[PriceAnswer]:
    question = Question(
        prices=wanted.prices,
        names=names,
        region=wanted.region,
        market=market,
        known=known,
        today=wanted.today,
        accept_implausible=wanted.accept_implausible,
    )
    seconds = ANSWER_SECONDS if wanted.prices.has_account else WHOLE_LIST_SECONDS
    what = f"{cloud_title(wanted.prices.cloud)}: {market} prices"
    for number, answer in enumerate(each_within(seconds, what, ask_prices(question)), 1):
        if number % TOLD_EVERY == 0 or number == len(names):
            say(f"{market} prices: {number} of {len(names)}")
        yield answer
