"""One instance while it measures: every minute, is it paid, does it live, is it done?"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from advisor.errors import AdvisorError
from advisor.infra.aws import machines
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.budget import BILLING_MINUTE, Meter
from advisor.infra.aws.errors import AwsFailure, kind_of
from advisor.infra.aws.launch_options import LaunchedMachine

# Of a minute, so much may go into asking: the budget is looked at every minute all the same.
_PATIENCE = 20.0
# Lists do not know an instance for seconds after its launch.
_FORGIVEN = timedelta(minutes=2)


class Why(StrEnum):
    """Why nothing more is waited for."""

    DONE = "done"
    FAILED = "failed"
    BUDGET = "budget"
    EXPIRED = "expired"
    SHUT_DOWN = "shut_down"  # by the guest itself, without a word
    TAKEN_BACK = "taken_back"
    ENDED = "ended"


class Work(Protocol):
    """The work of an instance; results come back by themselves (a database, S3)."""

    def reported(self, machine: LaunchedMachine) -> Why | None:
        """The guest's own report of its end (`done`, `failed`, `expired`, `taken_back`); None while it
        works, or is silent. Collects results that have come back."""

    def on_minute(self, machine: LaunchedMachine, spent_usd: float, trouble: str) -> None:
        """Tell where it stands; `trouble` is why AWS could not be asked."""

    def on_end(self, outcome: Outcome) -> None:
        """Keep what the instance leaves behind; what it held is removed after this."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The end of an instance's time; `code` is EC2's state reason where the instance ended by itself."""

    why: Why
    machine: LaunchedMachine
    at: datetime
    code: str = ""


def watch(aws: Aws, machine: LaunchedMachine, meter: Meter, work: Work) -> Outcome:
    """Wait until the work is done, the budget or the time is over, or the instance has ended.

    The budget is looked at by the clock alone: it holds while AWS answers nothing at all.
    """
    while True:
        began = aws.clock.now()
        if why := _over(machine, meter, began) or work.reported(machine):
            return Outcome(why=why, machine=machine, at=began)
        machine, trouble = _looked(aws, machine)
        if not machine.lives:
            why = work.reported(machine) or _ending(machine)
            return Outcome(why=why, machine=machine, at=began, code=machine.reason)
        work.on_minute(machine, meter.spent(began), trouble)
        used = (aws.clock.now() - began).total_seconds()
        aws.clock.sleep(max(1.0, BILLING_MINUTE.total_seconds() - used))


def _over(machine: LaunchedMachine, meter: Meter, now: datetime) -> Why | None:
    if not meter.pays_next_minute(now):
        return Why.BUDGET
    if machine.expires_at and now + BILLING_MINUTE > machine.expires_at:
        return Why.EXPIRED
    return None


def _looked(aws: Aws, machine: LaunchedMachine) -> tuple[LaunchedMachine, str]:
    """The instance as it is now; as it was, with the reason, where that is not known."""
    try:
        return machines.instance(aws, machine.region, machine.id, patience=_PATIENCE), ""
    except machines.NotListed as error:
        gone = aws.clock.now() - machine.launched_at > _FORGIVEN
        return machines.as_ended(machine) if gone else machine, str(error)
    except AdvisorError as error:
        return machine, str(error)


def _ending(machine: LaunchedMachine) -> Why:
    kind = kind_of(machine.reason)
    if kind is AwsFailure.SPOT_TAKEN_BACK:
        return Why.TAKEN_BACK
    return Why.SHUT_DOWN if kind is AwsFailure.OWN_END else Why.ENDED
