"""Whether a measured rate is another one than last time, by more than it is known to. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from advisor.domain import Measurement, Status
from advisor.sweeps.quality.age import is_stale
from advisor.sweeps.quality.rates import RateInterval, rate_interval
from advisor.sweeps.trial.formatting import trial_name

# Facts of a machine that explain another rate; `versions` has those of packages.
_TELLING = ("gpu", "cpu_model", "kernel", "python", "driver", "host")


class Shift(Struct, frozen=True):
    """One trial measured on two days, the earlier time at `started_at`: rates in samples per
    second with their 95 % intervals.

    `beyond` says whether each lies outside of where the other expects its next run.
    """

    trial_id: str
    trial: str
    before: RateInterval
    now: RateInterval
    started_at: str
    beyond: bool

    @property
    def change(self) -> float:
        """0.1 for a tenth more than last time."""
        return self.now.rate / self.before.rate - 1


class Drift(Struct, frozen=True):
    """The shifts of all trials that could be compared, and what is another machine or version."""

    shifts: tuple[Shift, ...]
    changed: tuple[str, ...]

    @property
    def beyond(self) -> tuple[Shift, ...]:
        """Those that drifted, the largest first."""
        drifted = [shift for shift in self.shifts if shift.beyond]
        return tuple(sorted(drifted, key=lambda shift: -abs(math.log1p(shift.change))))

    @property
    def median_change(self) -> float | None:
        """Of all trials together: a driver or a clock moves them all."""
        changes = [math.log1p(shift.change) for shift in self.shifts]
        return math.expm1(statistics.median(changes)) if changes else None


def drift_between(fresh: Iterable[Measurement], earlier: Sequence[Measurement]) -> Drift:
    """Each fresh measurement against the latest earlier one of the same trial; both must have ended
    well and tell how well their rate is known."""
    latest = {row.trial.trial_id: row for row in earlier if row.status is Status.OK}
    pairs = [
        (latest[row.trial.trial_id], row)
        for row in fresh
        if row.status is Status.OK and row.trial.trial_id in latest
    ]
    shifts = [shift for before, now in pairs if (shift := _shift(before, now))]
    changes = {change: None for before, now in pairs for change in _changes(before, now)}
    return Drift(tuple(shifts), tuple(changes))


def is_fresh(row: Measurement, since_seconds: float) -> bool:
    """Whether it was measured at or after that moment (seconds since 1970)."""
    return not is_stale(row.started_at, datetime.fromtimestamp(since_seconds, UTC))


def _shift(before: Measurement, now: Measurement) -> Shift | None:
    old, new = rate_interval(before), rate_interval(now)
    if old is None or new is None:
        return None
    apart = not (old.lower <= new.rate <= old.upper or new.lower <= old.rate <= new.upper)
    return Shift(
        trial_id=now.trial.trial_id,
        trial=trial_name(now.trial),
        before=old,
        now=new,
        started_at=before.started_at,
        beyond=apart,
    )


def _changes(before: Measurement, now: Measurement) -> list[str]:
    """'torch 2.13.0 -> 2.14.0': what may be the reason."""
    old, new = _facts(before), _facts(now)
    return [f"{name} {old[name]} -> {new[name]}" for name in old if name in new and old[name] != new[name]]


def _facts(row: Measurement) -> dict[str, str]:
    environment = row.environment
    facts = {name: environment.get(name) for name in _TELLING}
    versions = environment.get("versions")
    facts |= dict(versions) if isinstance(versions, Mapping) else {}
    return {name: str(value) for name, value in facts.items() if value}
