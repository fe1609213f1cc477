"""The budget of a sweep: trials, time or money."""

from __future__ import annotations

import math
import re
from statistics import mean

from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import Measurement
from advisor.errors import UsageError
from advisor.messages import FieldName
from advisor.quantities import parse_number

# Of a trial, before and after its counted window: start-up, page cache, drained batches, stages.
OVERHEAD_SECONDS = 9.0
_HOURS = {"h": 1.0, "hours": 1.0, "min": 1 / 60, "m": 1 / 60, "s": 1 / 3600}
_TRIALS = ("trials", "trial")
_WRITTEN = re.compile(r"\s*(?P<dollar>\$?)\s*(?P<number>[^a-zA-Z$\s]+)\s*(?P<unit>[a-zA-Z]*)\s*")


class Budget(Struct, frozen=True, kw_only=True):
    """Exactly one of `trials`, `seconds` and `usd`; the last buys time by the price of the host."""

    trials: int | None = None
    seconds: float | None = None
    usd: float | None = None
    usd_per_hour: float | None = None

    def seconds_left(self, spent_seconds: float) -> float:
        """Seconds that may still be spent; infinite where trials are counted."""
        allowed = self.seconds
        if self.usd is not None and self.usd_per_hour is not None:
            allowed = 3600 * self.usd / self.usd_per_hour
        return math.inf if allowed is None else allowed - spent_seconds

    def trials_left(self, done: int, spent_seconds: float, each_seconds: float) -> int:
        """The number of further trials of `each_seconds` within the budget."""
        if self.trials is not None:
            return max(0, self.trials - done)
        return max(0, int(self.seconds_left(spent_seconds) / each_seconds))

    @property
    def ending(self) -> str:
        """Why nothing more is begun."""
        what = "is used up" if self.trials is not None else "has no room for another trial"
        return f"the budget of {self.text} {what}"

    @property
    def text(self) -> str:
        """The budget as a user would write it."""
        if self.trials is not None:
            return "1 trial" if self.trials == 1 else f"{self.trials} trials"
        if self.usd is not None:
            return f"{self.usd:.12g} USD"
        seconds = self.seconds or 0.0
        return f"{seconds / 60:.12g} min" if seconds >= 60 else f"{seconds:.12g} s"

    def priced(self, usd_per_hour: float | None) -> Budget:
        """The budget on a host of that price."""
        return replace(self, usd_per_hour=usd_per_hour)


def parse_budget(text: str) -> Budget:
    """'30trials', '2h', '90min', '5USD' or '$5'."""
    match = _WRITTEN.fullmatch(text)
    unit = match["unit"].lower() if match else ""
    dollars = match is not None and (bool(match["dollar"]) or unit == "usd")
    is_unit = unit in _HOURS or unit in _TRIALS
    if match is None or not (is_unit or dollars) or (match["dollar"] and unit not in ("", "usd")):
        raise UsageError(
            "'{given}' is no budget",
            given=text,
            field="budget",
            hint="write it like 30trials, 2h, 90min or 5USD",
        )
    whole = unit in _TRIALS
    number = parse_number(match["number"], FieldName("budget"), whole=whole)
    if whole:
        return Budget(trials=int(number))
    return Budget(usd=number) if dollars else Budget(seconds=3600 * _HOURS[unit] * number)


def seconds_of(measurement: Measurement) -> float:
    """About how long a trial took, all its runs and attempts counted."""
    runs = [{"wall_seconds": measurement.wall_seconds}, *measurement.repeats, *measurement.attempts]
    each = OVERHEAD_SECONDS + float(measurement.trial.plan.get("warmup_seconds", 0.0))
    return sum(each + (run.get("wall_seconds") or 0.0) for run in runs)


def expected_seconds(measured: list[float], usual: float) -> float:
    """Seconds of the next trial: the mean so far, or the usual before there is one."""
    return mean([*measured, usual])
