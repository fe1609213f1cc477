"""Specs and places as texts name them: with their cloud where a question covers more than one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from advisor.domain import LIST, Market, Offer, Price, Rejected, Spec
from advisor.domain.decision import AnyCandidate
from advisor.domain.price_age import is_listed
from advisor.domain.spec_request import SpecRequest
from advisor.messages import Message
from advisor.units import format_usd

_EVERY_CLOUD = "any"


def covers_clouds(request: SpecRequest) -> bool:
    """Whether a question is about more than one cloud."""
    return request.cloud == _EVERY_CLOUD


def place_name(offer: Offer, request: SpecRequest) -> str:
    """'us-central1', or 'gcp us-central1' where the question covers more than one cloud."""
    return f"{offer.instance.cloud} {offer.region}" if covers_clouds(request) else offer.region


def spec_name(spec: Spec, request: SpecRequest) -> Message | str:
    """'g2-standard-4', or 'g2-standard-4 of gcp' where the question covers more than one cloud."""
    if not covers_clouds(request):
        return spec.name
    return Message("{name} of {cloud}", name=spec.name, cloud=spec.offer.instance.cloud)


def place_texts(shown: Sequence[AnyCandidate], request: SpecRequest, today: date) -> list[str]:
    """'ap-south-1, spot, estimated' for each; empty where all stand in one place, priced one way.

    Where the question is about any market, those stand there that are not on demand. A price that
    its seller lists `today` has no word after it.
    """
    offers = [candidate.spec.offer for candidate in shown]
    words = [[place_name(offer, request), *_price_words(offer, request, today)] for offer in offers]
    texts = [", ".join(one) for one in words]
    return texts if len(set(texts)) > 1 else []


def price_words(shown: Sequence[AnyCandidate], request: SpecRequest, today: date) -> list[str]:
    """How the prices of each total are known, as 'observed, estimated disk'; '' where they are
    listed today."""
    found = []
    for candidate in shown:
        disk = candidate.spec.disk.price
        words = _price_words(candidate.spec.offer, request, today)
        if disk is not None and not is_listed(disk, today):
            words.append("old disk" if disk.kind == LIST else f"{disk.kind} disk")
        found.append(", ".join(words))
    return found


def _price_words(offer: Offer, request: SpecRequest, today: date) -> list[str]:
    plain = request.market is not None or offer.market is Market.ON_DEMAND
    market = [] if plain else [str(offer.market)]
    if is_listed(offer.price, today):
        return market
    return [*market, _kind_word(offer.price)]


def _kind_word(price: Price) -> str:
    return "old list" if price.kind == LIST else price.kind


def rejection_text(rejected: Rejected, request: SpecRequest) -> str:
    """'  g4dn.xlarge $0.526/h: needs .. of GPU memory', with 'of aws' as in `spec_name`."""
    name, usd = rejected.instance_type, rejected.usd_per_hour
    if covers_clouds(request):
        name = f"{name} of {rejected.cloud}"
    price = "" if usd is None else f" {format_usd(usd)}/h"
    return f"  {name}{price}: {rejected.detail}"
