"""`advisor catalog refresh`: what a cloud tells today, laid over the snapshot, or what a tracker of rental
prices tells, taken as `advisor catalog import` takes a file; all or nothing."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from msgspec.structs import replace

from advisor.answers.live.asking import Offerings, PriceQuestion, ask_offerings, ask_prices, without_vanished
from advisor.catalog import Catalog, OfferQuery
from advisor.catalog.importing import Imported, import_file
from advisor.catalog.live import cloud_title
from advisor.catalog.match import matches_instance
from advisor.catalog.overlay import Overlay, keep_overlay
from advisor.domain import Market
from advisor.domain.live import PriceAnswer, Refresh
from advisor.errors import LiveError, UsageError
from advisor.infra.live.session import Deadline, each_within
from advisor.infra.live.web import Say, checked_url, download

# Seconds for one answer: four tries of boto3, and what it waits between them. Google's list is
# one answer, fetched whole.
ANSWER_SECONDS = 60.0
WHOLE_LIST_SECONDS = 600.0
# A line of progress for so many answers.
TOLD_EVERY = 10
TRACKER_SECONDS = 120.0


def types_to_ask(bundled: Catalog, region: str, query: OfferQuery) -> tuple[str, ...]:
    """The named types, else those the region offers, by the snapshot, that match the query.

    `UsageError` for names nobody knows, and where nothing matches.
    """
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
    """Ask, judge against what is known, and keep what is believed in `folder`.

    `LiveError` where the cloud cannot be asked: then nothing has changed, as after Ctrl-C.
    """
    cloud, region, known = question.prices.cloud, question.region, question.known
    offerings = _offerings(question, say)
    names = [name for name in question.names if offerings.offered.get(name, True)]
    answers = [
        answer for market in markets for answer in _prices(replace(question, names=names), market, say)
    ]
    if question.prices.by_type and not question.prices.has_account:
        offerings = _gone_from_list(question, answers)
    newer = overlay_of(region, question.today, offerings.offered, answers)
    # Who tells no price that can be believed is not believed about anything else.
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
    """The answers that are believed, to be laid over the snapshot."""
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


def _gone_from_list(question: PriceQuestion, answers: Sequence[PriceAnswer]) -> Offerings:
    """Types whose on-demand price was known, and that a whole list has on none of the markets that
    were asked for: who lists a type no longer does not sell it."""
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
        if number % TOLD_EVERY == 0 or number == len(question.names):
            say(f"{market} prices: {number} of {len(question.names)}")
        yield answer


def imported_from(
    url: str, folder: Path, today: date, say: Say, *, accept_implausible: bool = False
) -> Imported:
    """The file at an address, kept in `folder` as an import of its host's name, or as refreshed
    prices.

    `today` is the date of prices that tell none. `LiveError` where it cannot be fetched, and
    `UsageError` where it is no price list that is known: then nothing has changed.
    """
    address = checked_url(url, "--tracker")
    host = str(urlsplit(address).hostname)
    say(f"asking {host}")
    content = Deadline(TRACKER_SECONDS).within(host, lambda: download(address))
    with tempfile.TemporaryDirectory() as made:
        # A price says where it is from by the name of its file.
        path = Path(made) / _file_name(host, urlsplit(address).path)
        path.write_bytes(content)
        return import_file(path, _plain(host), folder, as_of=today, accept_implausible=accept_implausible)


def _file_name(host: str, path: str) -> str:
    return f"{_plain(host)} {_plain(PurePosixPath(path).name) or 'prices'}"


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:60]
