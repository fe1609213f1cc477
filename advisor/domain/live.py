"""Answers of a cloud about today's prices, beside the snapshot."""

from __future__ import annotations

from datetime import date

from msgspec import Struct

from advisor.domain.money import Price
from advisor.domain.words import Market


class PriceAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a question for one price.

    `before` is the price known so far (None: none). `price` is the new one, where one was told and is
    believed; else `why` says why there is none, and `not_believed` holds the dollars an hour that were told
    and are not taken. `unlisted`: a list that was read whole does not have it."""

    instance_type: str
    region: str
    market: Market
    before: Price | None
    price: Price | None = None
    not_believed: float | None = None
    why: str = ""
    unlisted: bool = False

    @property
    def changed(self) -> bool:
        """Whether a price was told that differs from the one known so far."""
        if self.price is None:
            return False
        return self.before is None or self.price.usd_per_hour != self.before.usd_per_hour


class LiveChecked(Struct, frozen=True, kw_only=True):
    """One type that was asked for live; `offered` and `vcpu_quota` None: not known.

    `vcpu_quota` is what the account may run at once of `quota_code`."""

    answer: PriceAnswer
    offered: bool | None = None
    quota_code: str | None = None
    vcpu_quota: float | None = None

    @property
    def verified(self) -> bool:
        """Whether the type is surely offered, at a price that was told."""
        return self.offered is True and self.answer.price is not None


class LiveCheck(Struct, frozen=True, kw_only=True):
    """All that was asked for one answer, in order; `warnings` say what could not be verified."""

    as_of: date
    checked: tuple[LiveChecked, ...]
    warnings: tuple[str, ...]


class Refresh(Struct, frozen=True, kw_only=True):
    """The result of a price refresh of one region of a cloud for the types of the `names`.

    `withdrawn` are types that the region no longer offers, `returned` those that it offers again. `file` is
    where it is kept; empty where nothing was told that could be kept."""

    cloud: str
    as_of: date
    region: str
    markets: tuple[Market, ...]
    names: tuple[str, ...]
    answers: tuple[PriceAnswer, ...]
    withdrawn: tuple[str, ...]
    returned: tuple[str, ...]
    warnings: tuple[str, ...]
    file: str
