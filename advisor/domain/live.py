"""What clouds say about today's prices, compared with the snapshot."""

from __future__ import annotations

from datetime import date

from msgspec import Struct

from advisor.domain.money import Price
from advisor.domain.words import Market


class PriceAnswer(Struct, frozen=True, kw_only=True):
    """The answer of a cloud about one price. `before` is the price known so far (None: none), `price` the new
    one if it is plausible. Otherwise `why` says why there is none, and `not_believed` has the dollars an hour
    of an implausible one. `unlisted`: a list that was read to its end does not have it."""

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
        """True if there is a new price that differs from the known one."""
        if self.price is None:
            return False
        return self.before is None or self.price.usd_per_hour != self.before.usd_per_hour


class LiveChecked(Struct, frozen=True, kw_only=True):
    """One type that was checked live; `offered` and `vcpu_quota` None: not known. `vcpu_quota` is how many
    vCPUs of `quota_code` the account may run at once."""

    answer: PriceAnswer
    offered: bool | None = None
    quota_code: str | None = None
    vcpu_quota: float | None = None

    @property
    def verified(self) -> bool:
        """True if the region surely offers the type, at a new price."""
        return self.offered is True and self.answer.price is not None


class LiveCheck(Struct, frozen=True, kw_only=True):
    """All live checks for one answer, in order; `warnings` say what could not be verified."""

    as_of: date
    checked: tuple[LiveChecked, ...]
    warnings: tuple[str, ...]


class Refresh(Struct, frozen=True, kw_only=True):
    """The result of refreshing one region's prices, for the types in `names`. `withdrawn` are types that the
    region no longer offers, `returned` those that it offers again. `file` holds the result; empty where there
    was nothing to store."""

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
