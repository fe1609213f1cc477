"""Which offer is tried next: an order, and what was refused and may be asked for again later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from advisor.catalog.quotas import quota_code
from advisor.domain import Market
from infra.aws.errors import Reaction
from infra.aws.launch import Rung

# For so long an offer without capacity is left alone (karpenter, UnavailableOfferingsTTL).
CAPACITY_MEMORY = timedelta(minutes=3)

# What a refusal bars: a kind of thing, and which one of it.
_Barred = tuple[str, ...]


def in_order(rungs: Sequence[Rung], types: Sequence[str], regions: Sequence[str]) -> list[Rung]:
    """Spot before on demand; in each, region by region, type by type, the cheapest zone first."""
    return sorted(
        rungs,
        key=lambda one: (
            one.market is not Market.SPOT,
            regions.index(one.region),
            types.index(one.instance_type),
            one.usd_per_hour,
            one.zone,
        ),
    )


class Ladder:
    """The offers of one launch, and what is known of each from its refusals."""

    def __init__(self, rungs: Sequence[Rung]) -> None:
        self._rungs = list(rungs)
        self._out_until: dict[_Barred, datetime] = {}
        self._barred: dict[_Barred, str] = {}
        self.tried: list[tuple[Rung, str]] = []

    def open(self, now: datetime) -> Iterator[Rung]:
        """What may be tried now, best first; looked at anew for each one."""
        for rung in self._rungs:
            if not self._is_barred(rung) and self._free_at(rung) <= now:
                yield rung

    def refused(self, rung: Rung, code: str, reaction: Reaction, now: datetime) -> None:
        """Remember what an offer was refused for."""
        self.tried.append((rung, code))
        if reaction is Reaction.NEXT_OFFER:
            self._out_until[_offer(rung)] = now + CAPACITY_MEMORY
        else:
            self._barred[_reach(rung, reaction)] = code

    def next_free_at(self) -> datetime | None:
        """When the first offer may be asked for again; None where none ever may."""
        return min(
            (self._free_at(rung) for rung in self._rungs if not self._is_barred(rung)),
            default=None,
        )

    def all_refused_for(self, code: str) -> bool:
        """Whether every offer is barred for that one reason."""
        return bool(self._barred) and set(self._barred.values()) == {code}

    def in_words(self) -> str:
        """'g4dn.xlarge spot in us-east-1a: InsufficientInstanceCapacity, ..', each offer once."""
        last = {str(rung): code for rung, code in self.tried}
        return ", ".join(f"{name}: {code}" for name, code in last.items()) or "no offer is known"

    def _free_at(self, rung: Rung) -> datetime:
        least = datetime.min.replace(tzinfo=UTC)
        return self._out_until.get(_offer(rung), least)

    def _is_barred(self, rung: Rung) -> bool:
        return any(_reach(rung, one) in self._barred for one in _LASTING)


def _offer(rung: Rung) -> _Barred:
    return rung.instance_type, rung.zone, rung.market


def _reach(rung: Rung, reaction: Reaction) -> _Barred:
    """How far a refusal that does not pass goes."""
    if reaction is Reaction.NEXT_ZONE:
        return "zone", rung.instance_type, rung.zone
    if reaction is Reaction.NEXT_QUOTA:
        counted = quota_code(rung.instance_type, rung.market) or rung.instance_type
        return "quota", counted, rung.region, rung.market
    return "market", rung.instance_type, rung.region, rung.market


_LASTING = (Reaction.NEXT_ZONE, Reaction.NEXT_QUOTA, Reaction.NEXT_MARKET)
