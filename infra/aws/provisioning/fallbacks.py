"""The order in which offers are tried, and the refused ones that may be tried again later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from advisor.catalog.support import quota_code
from advisor.domain import Market
from advisor.infra.aws.errors import Reaction
from advisor.infra.aws.launch_options import LaunchOption

# For so long an offer without capacity is left alone (karpenter, UnavailableOfferingsTTL).
CAPACITY_MEMORY = timedelta(minutes=3)

# What a refusal bars: a kind of thing, and which one of it.
_Barred = tuple[str, ...]


def in_order(
    options: Sequence[LaunchOption], types: Sequence[str], regions: Sequence[str]
) -> list[LaunchOption]:
    """Spot before on demand; in each, region by region, type by type, the cheapest zone first."""
    return sorted(
        options,
        key=lambda entry: (
            entry.market is not Market.SPOT,
            regions.index(entry.region),
            types.index(entry.instance_type),
            entry.usd_per_hour,
            entry.zone,
        ),
    )


class Fallbacks:
    """The offers of one launch, and what is known of each from its refusals."""

    def __init__(self, options: Sequence[LaunchOption]) -> None:
        self._options = list(options)
        self._out_until: dict[_Barred, datetime] = {}
        self._barred: dict[_Barred, str] = {}
        self.tried: list[tuple[LaunchOption, str]] = []

    def open(self, now: datetime) -> Iterator[LaunchOption]:
        """The offers that may be tried now, best first; found anew each time."""
        for option in self._options:
            if not self._is_barred(option) and self._free_at(option) <= now:
                yield option

    def refused(self, option: LaunchOption, code: str, reaction: Reaction, now: datetime) -> None:
        """Remember what an offer was refused for."""
        self.tried.append((option, code))
        if reaction is Reaction.NEXT_OFFER:
            self._out_until[_offer(option)] = now + CAPACITY_MEMORY
        else:
            self._barred[_reach(option, reaction)] = code

    def next_free_at(self) -> datetime | None:
        """When the first offer may be asked for again; None where none ever may."""
        return min(
            (self._free_at(option) for option in self._options if not self._is_barred(option)), default=None
        )

    def all_refused_for(self, code: str) -> bool:
        """Whether every offer is barred for that one reason."""
        return bool(self._barred) and set(self._barred.values()) == {code}

    def reasons_text(self) -> str:
        """'g4dn.xlarge spot in us-east-1a: InsufficientInstanceCapacity, ..', each offer once."""
        last = {str(option): code for option, code in self.tried}
        return ", ".join(f"{name}: {code}" for name, code in last.items()) or "no offer is known"

    def _free_at(self, option: LaunchOption) -> datetime:
        least = datetime.min.replace(tzinfo=UTC)
        return self._out_until.get(_offer(option), least)

    def _is_barred(self, option: LaunchOption) -> bool:
        return any(_reach(option, entry) in self._barred for entry in _LASTING)


def _offer(option: LaunchOption) -> _Barred:
    return option.instance_type, option.zone, option.market


def _reach(option: LaunchOption, reaction: Reaction) -> _Barred:
    """The scope of a permanent refusal."""
    if reaction is Reaction.NEXT_ZONE:
        return "zone", option.instance_type, option.zone
    if reaction is Reaction.NEXT_QUOTA:
        counted = quota_code(option.instance_type, option.market) or option.instance_type
        return "quota", counted, option.region, option.market
    return "market", option.instance_type, option.region, option.market


_LASTING = (Reaction.NEXT_ZONE, Reaction.NEXT_QUOTA, Reaction.NEXT_MARKET)
