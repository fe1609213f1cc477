"""How far an answer depends on prices that are not listed, and how to learn today's."""

from __future__ import annotations

import shlex
import textwrap
from datetime import date
from typing import Any

from advisor.catalog.live import is_live, refresh_command
from advisor.catalog.price_pages import PRICE_PAGES
from advisor.domain import (
    ESTIMATED,
    LIST,
    OBSERVED,
    Offer,
    PriceCall,
    Recommendation,
    Spec,
)
from advisor.domain.decision import AnyCandidate
from advisor.domain.price_age import is_listed
from advisor.messages import Message
from advisor.naming import place_name, spec_name
from advisor.render.blocks import by_price
from advisor.render.text import INDENT, WIDTH, beside, folded_command

# How the price of an instance that is not listed, or old, is known; and that of a disk, alone or
# after the instance's.
_KINDS = {
    ESTIMATED: Message("Estimated price"),
    OBSERVED: Message("Observed price"),
    LIST: Message("Old price"),
}
_DISK_KINDS = {
    ESTIMATED: Message("Estimated disk price"),
    OBSERVED: Message("Observed disk price"),
    LIST: Message("Old disk price"),
}
_DISK_KINDS_TOO = {
    ESTIMATED: Message("estimated disk"),
    OBSERVED: Message("observed disk"),
    LIST: Message("old disk"),
}
# Any recommendation: its chosen spec, its `price_call` and its day count.
AnyAnswer = Any


def resting_sentence(answer: AnyAnswer) -> Message | None:
    """What the chosen price is where it is not listed, beside the cheapest listed one; None where
    the chosen price is listed."""
    if answer.price_call is None:
        return None
    spec, listed = answer.chosen.spec, answer.price_call.listed
    kinds = _kinds(spec, answer.today)
    if not kinds:
        return None
    cost, per = _cost(answer.chosen, answer.request)
    ends = by_price(spec, cost)
    lies = Message(
        "{kind} ({low:usd} to {high:usd}{per})",
        kind=kinds, low=ends["low"], high=ends["high"], per=per,
    )  # fmt: skip
    if spec.low_usd_per_hour == spec.high_usd_per_hour:
        lies = Message("{kind}", kind=kinds)
    is_published = spec.offer.price.kind == LIST
    if listed is None or listed is answer.chosen:
        none = Message("{lies}.", lies=lies)
        return none if is_published else Message("{lies}; no listed price answers this.", lies=lies)
    market = listed.spec.offer.market
    named = Message(
        "{name} at {usd:usd}{per}",
        name=spec_name(listed.spec, answer.request), usd=_cost(listed, answer.request)[0], per=per,
    )  # fmt: skip
    if market is not spec.offer.market:
        named = Message("{spec} ({market})", spec=named, market=str(market))
    if is_published:
        return Message("{lies}; cheapest of a recent list: {named}.", lies=lies, named=named)
    return Message("{lies}; cheapest listed: {named}.", lies=lies, named=named)


def borderline_sentence(answer: AnyAnswer) -> Message | None:
    """What may be cheaper than the chosen spec, and is borderline on price; None where nothing
    is."""
    call: PriceCall | None = answer.price_call
    if call is None or call.cheaper is None:
        return None
    spec = call.cheaper.spec
    cost, per = _cost(call.cheaper, answer.request)
    ends = by_price(spec, cost)
    return Message(
        "Borderline on price: {name} ({market}, {region}) may be cheaper than {listed} at "
        "{usd:usd}{per}. {kind}: {low:usd} to {high:usd}{per}, median {median:usd}.",
        name=spec.name, market=str(spec.offer.market),
        region=place_name(spec.offer, answer.request),
        listed=spec_name(answer.chosen.spec, answer.request),
        usd=_cost(answer.chosen, answer.request)[0], per=per,
        kind=_kinds(spec, answer.today), median=cost, low=ends["low"], high=ends["high"],
    )  # fmt: skip


def _cost(candidate: AnyCandidate, request: Any) -> tuple[float, Message]:
    """What a candidate ranks by in dollars, at the median of its price, and for what."""
    if request.ranks_by_price:
        return candidate.spec.total_usd_per_hour, Message("/h")
    # Each task's candidate has its own; none is imported for answers about the others.
    run = getattr(candidate, "usd_per_run", None)
    if run is not None:
        return run.median, Message(" for the run")
    tokens = getattr(candidate, "usd_per_million_output_tokens", None)
    if tokens is not None:
        return tokens.median, Message(" per million output tokens")
    return candidate.usd_per_million_samples, Message(" per million samples")


def price_call_block(answer: AnyAnswer) -> dict[str, Any] | None:
    """The document's `price_call`; null where listed prices alone decide."""
    call: PriceCall | None = answer.price_call
    if call is None:
        return None
    sentences = resting_sentence(answer), borderline_sentence(answer)
    offer = _doubted(answer)
    return {
        "borderline": call.cheaper is not None,
        "sentences": [sentence for sentence in sentences if sentence],
        "listed": _brief_block(call.listed),
        "cheaper": _brief_block(call.cheaper),
        "todays_price": {"command": todays_command(offer), "page": price_page(offer)},
    }


def resting_lines(answer: AnyAnswer) -> list[str]:
    """`resting_sentence` as the first lines of an answer."""
    sentence = resting_sentence(answer)
    return textwrap.wrap(str(sentence), WIDTH) if sentence else []


def price_lines(answer: AnyAnswer) -> list[str]:
    """What may be cheaper, else where the cheapest listed spec stands, and how to learn today's
    price."""
    if answer.price_call is None:
        return []
    offer = _doubted(answer)
    command, page = todays_command(offer), price_page(offer)
    texts = [str(_sentence_beside(answer) or "")]
    if command is not None:
        # Other tasks have no --live.
        live = " (or ask again with --live)" if isinstance(answer, Recommendation) else ""
        texts.append(f"Today's price{live}:")
    elif page is not None:
        texts.append(f"Today's price: {page}")
    lines = textwrap.wrap(" ".join(filter(None, texts)), WIDTH - INDENT, break_on_hyphens=False)
    lines += folded_command(command, WIDTH - INDENT) if command else []
    return beside("on price", lines)


def _sentence_beside(answer: AnyAnswer) -> Message | None:
    listed = answer.price_call.listed
    if answer.price_call.cheaper is not None or listed is None:
        return borderline_sentence(answer)
    return Message(
        "{name} is listed in {region}, {market}.",
        name=listed.spec.name, region=place_name(listed.spec.offer, answer.request),
        market=str(listed.spec.offer.market),
    )  # fmt: skip


def todays_command(offer: Offer) -> str | None:
    """What asks the cloud for today's price of an offer; None where no command does."""
    cloud = offer.instance.cloud
    if not is_live(cloud, offer.market):
        return None
    words = shlex.join(["--instance", offer.instance.name, "--market", str(offer.market)])
    return f"{refresh_command(cloud, offer.region)} {words}"


def price_page(offer: Offer) -> str | None:
    """Where the cloud tells it to everybody."""
    return PRICE_PAGES.get(offer.instance.cloud)


def _doubted(answer: AnyAnswer) -> Offer:
    """The offer whose price of today would settle it."""
    candidate: AnyCandidate = answer.price_call.cheaper or answer.chosen
    offer: Offer = candidate.spec.offer
    return offer


def _kinds(spec: Spec, today: date) -> list[Message]:
    """How the prices in a total are known that are not listed, or old; the instance's first."""
    price, disk = spec.offer.price, spec.disk.price
    found = [] if is_listed(price, today) else [_KINDS[price.kind]]
    if disk is not None and not is_listed(disk, today):
        found.append((_DISK_KINDS_TOO if found else _DISK_KINDS)[disk.kind])
    return found


def _brief_block(candidate: AnyCandidate | None) -> dict[str, Any] | None:
    if candidate is None:
        return None
    spec: Spec = candidate.spec
    return {
        "instance_type": spec.offer.instance.name,
        "cloud": spec.offer.instance.cloud,
        "region": spec.offer.region,
        "market": str(spec.offer.market),
        "count": spec.count,
        "disk": str(spec.disk.choice),
        "kind": spec.offer.price.kind,
        "total_usd_per_hour": spec.total_usd_per_hour,
        "low_usd_per_hour": spec.low_usd_per_hour,
        "high_usd_per_hour": spec.high_usd_per_hour,
    }
