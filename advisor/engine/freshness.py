"""Answers that no price gives which is older than its source keeps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, TypeVar

from msgspec.structs import replace

from advisor.catalog.live import is_live, refresh_command
from advisor.domain import Offer
from advisor.domain.price_age import is_old
from advisor.errors import NoIntervalError, NoOfferError, StalePriceError
from advisor.messages import Message

# A recommendation of any task.
Answer = TypeVar("Answer", bound=Any)
AnyRequest = Any


def fresh_answer(request: AnyRequest, answered: Callable[[AnyRequest], Answer], today: date) -> Answer:
    """The answer among instances whose price is not old `today`; disk prices are dated apart.

    Raises `StalePriceError` where older prices alone answer, and what `answered` raises.
    """
    try:
        fresh = answered(replace(request, fresh_on=today))
    except (NoOfferError, NoIntervalError):
        fresh = None
    if fresh is not None and fresh.chosen is not None:
        return fresh
    whole = answered(request)
    if whole.chosen is not None:
        _require_fresh_price(whole.chosen.spec.offer, today)
    return whole if fresh is None else fresh


def _require_fresh_price(offer: Offer, today: date) -> None:
    price, instance = offer.price, offer.instance
    if not is_old(price, today):
        return
    raise StalePriceError(
        "no price that --strict takes answers: that of {name} of {cloud} is {age} days old "
        "({as_of}) and its source keeps for {most}",
        name=instance.name,
        cloud=instance.cloud,
        age=(today - price.as_of).days,
        as_of=price.as_of.isoformat(),
        most=price.max_age_days,
        field="strict",
        hint=_way_to_newer(offer),
    )


def _way_to_newer(offer: Offer) -> Message:
    """What brings a newer price of an offer."""
    cloud = offer.instance.cloud
    command = refresh_command(cloud, offer.region) if is_live(cloud, offer.market) else None
    if command is None:
        return Message("`advisor catalog import` takes newer prices, or ask without --strict")
    return Message("refresh it (`{command}`), or ask without --strict", command=command)
