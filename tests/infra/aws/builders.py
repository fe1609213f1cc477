"""Sweeps, slots and work with defaults: a test tells what matters to it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from advisor.catalog import load_catalog
from advisor.domain import Market
from advisor.infra.aws import tags
from advisor.infra.aws.guest.job import Job
from advisor.infra.aws.launch_options import LaunchedMachine, LaunchOption, Slot, Sweep, Volume
from advisor.infra.aws.preflight import Preflight, preflight_of
from advisor.infra.aws.reap import Outcome, Why
from advisor.infra.aws.regions import InstanceRequirements
from tests.infra.aws.bed import Bed
from tests.infra.aws.lifecycles import FakeClock

PRICES = {"g4dn.xlarge": 0.526, "g4dn.2xlarge": 0.752, "g4dn.4xlarge": 1.204}
BOTH = (Market.SPOT, Market.ON_DEMAND)


def a_sweep(**changes: Any) -> Sweep:
    values: dict[str, Any] = {
        "id": "s1",
        "owner": "ada",
        "budget_usd": 5.0,
        "hours": 6.0,
        "volumes": (Volume(type="gp3", size_gib=100), Volume(type="st1", size_gib=500)),
    }
    return Sweep(**{**values, **changes})


def a_wish(*types: str, markets: Sequence[Market] = BOTH, **changes: Any) -> InstanceRequirements:
    catalog = load_catalog()
    named = tuple(catalog.instance(name, "aws") for name in types or ("g4dn.xlarge",))
    return InstanceRequirements(
        types=named,
        markets=tuple(markets),
        price_of=changes.pop("price_of", lambda name, _region: PRICES.get(name)),
        **changes,
    )


def looked(bed: Bed, *types: str, regions: Sequence[str] = ("us-east-1",), **wish: Any) -> Preflight:
    """What a launch finds in the account of the bed."""
    return preflight_of(bed.aws(), regions, a_wish(*types, **wish), a_sweep())


def a_slot(result: Preflight, **sweep: Any) -> Slot:
    return Slot(sweep=a_sweep(**sweep), name="g4dn.xlarge", regions=result.regions, user_data=guest_script)


def guest_script(expires_at: datetime, _rung: LaunchOption) -> str:
    """What the guests of the bed read: when they power off."""
    return tags.time_text(expires_at)


def a_job(**changes: Any) -> Job:
    """What an instance is asked to do, by its place in a bucket."""
    usual: dict[str, Any] = {"sweep_id": "s1", "region": "us-east-1", "bucket": "advisor-test"}
    return Job(**{**usual, "prefix": "sweeps/s1", "arguments": (), **changes})


class Minutes:
    """Work that takes so long from now on, on whichever instance."""

    def __init__(self, clock: FakeClock, minutes: float) -> None:
        self._clock = clock
        self._until = clock.now() + timedelta(minutes=minutes)
        self.minutes: list[tuple[str, float, str]] = []

    def reported(self, machine: LaunchedMachine) -> Why | None:
        return Why.DONE if self._clock.now() >= self._until else None

    def on_minute(self, machine: LaunchedMachine, spent_usd: float, trouble: str) -> None:
        self.minutes.append((machine.id, spent_usd, trouble))

    def on_end(self, outcome: Outcome) -> None:
        """Nothing is kept of it."""


def is_clean(reaped):
    """Whether a pass of the reaper left nothing that had expired, and saw everything."""
    there = reaped.expired if reaped.dry_run else reaped.remaining
    return not (there or reaped.not_listed)
