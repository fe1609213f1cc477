"""An instance for as long as its work takes, and surely no longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from infra.aws.asking import Aws
from infra.aws.budget import Meter
from infra.aws.ending import Ended, end_instance, end_sweep, not_ended
from infra.aws.errors import Reaction, reaction_to
from infra.aws.ladder import Ladder
from infra.aws.launch import Machine
from infra.aws.launching import BudgetOverError, Launching
from infra.aws.permissions import explained_state
from infra.aws.slots import Slot
from infra.aws.watching import Outcome, Why, Work, watch

# What it is told as it comes: a machine was launched or adopted, one has ended.
Told = Callable[[Machine], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rented:
    """How it ended, what it cost at most, how many instances it took."""

    outcome: Outcome
    spent_usd: float
    instances: int
    ended: Ended


@dataclass(slots=True)
class _Last:
    """The last instance that was had, for what is told when ending it fails."""

    machine: Machine | None = None
    meter: Meter | None = None
    count: int = 0


def rent(
    aws: Aws, slot: Slot, ladder: Ladder, work: Work, *, queue: timedelta,
    on_machine: Told = lambda _: None,
) -> Rented:  # fmt: skip
    """Launch, wait until the work is done or the budget is over, and end everything of the sweep.
    `queue` is how long is waited for capacity, each time.

    A spot instance that is taken back is followed by another one, as long as the budget pays.
    However it ends (Ctrl-C, an error), everything with the sweep's tag is ended first; `CloudError`
    tells what may still be there.
    """
    launching, last = Launching(aws, slot, ladder), _Last()
    try:
        outcome = _worked(aws, launching, work, queue, on_machine, last)
    except BaseException as error:
        launching.settle()
        _end(aws, slot, last, error)
        raise
    ended = _end(aws, slot, last)
    assert last.meter is not None
    spent = last.meter.spent(outcome.at)
    return Rented(outcome=outcome, spent_usd=spent, instances=last.count, ended=ended)


def _end(aws: Aws, slot: Slot, last: _Last, error: BaseException | None = None) -> Ended:
    ended = end_sweep(aws, slot.region_names, slot.sweep.id, last.machine)
    if ended.left:
        raise not_ended(ended, last.machine, last.meter) from error
    return ended


def _worked(
    aws: Aws, launching: Launching, work: Work, queue: timedelta, on_machine: Told, last: _Last
) -> Outcome:
    while True:
        try:
            last.machine, last.meter = launching.get(aws.clock.now() + queue)
        except BudgetOverError:
            if last.machine is None:
                raise
            return Outcome(why=Why.BUDGET, machine=last.machine, at=aws.clock.now())
        last.count += 1
        on_machine(last.machine)
        outcome = watch(aws, last.machine, last.meter, work)
        if outcome.why not in (Why.TAKEN_BACK, Why.ENDED):
            return outcome
        reaction = reaction_to(outcome.code) if outcome.code else Reaction.LAUNCH_AGAIN
        if outcome.why is Why.ENDED and reaction is Reaction.STOP:
            raise explained_state(outcome.machine.id, outcome.code)
        # It may run on for the two minutes of a notice: two of them would both be paid.
        end_instance(aws, outcome.machine)
        launching.lost(outcome.machine, outcome.code or "spot notice", reaction)
