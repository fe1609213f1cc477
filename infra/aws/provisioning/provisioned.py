"""An instance for as long as its work takes, and no longer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from advisor.infra.aws.asking import Aws
from advisor.infra.aws.ending import Ended, end_instance, end_sweep, not_ended
from advisor.infra.aws.errors import Reaction, reaction_to
from advisor.infra.aws.launch_options import LaunchedMachine, Slot
from advisor.infra.aws.permissions import explained_state
from advisor.infra.aws.provisioning.fallbacks import Fallbacks
from advisor.infra.aws.provisioning.provisioner import BudgetOverError, Provisioner
from advisor.infra.aws.watching import Outcome, Why, Work, watch

# Called as it comes: a machine was launched or adopted, one has ended.
OnMachine = Callable[[LaunchedMachine], None]


class Provisioned(Struct, frozen=True, kw_only=True):
    """The end of the work, its highest cost, and the number of instances that it took."""

    outcome: Outcome
    spent_usd: float
    instances: int
    ended: Ended


def provision(
    aws: Aws,
    slot: Slot,
    fallbacks: Fallbacks,
    work: Work,
    *,
    queue: timedelta,
    on_machine: OnMachine = lambda _: None,
) -> Provisioned:
    """Launch, wait until the work is done or the budget is over, and end everything of the sweep.
    `queue` is how long is waited for capacity, each time.

    A spot instance that is taken back is followed by another one, as long as the budget pays.
    However it ends (Ctrl-C, an error), everything with the sweep's tag is ended first; `CloudError`
    tells what may still be there.
    """
    provisioner = Provisioner(aws, slot, fallbacks)
    try:
        outcome, instances = _worked(aws, provisioner, work, queue, on_machine)
    except BaseException as error:
        try:
            provisioner.settle()
        finally:
            _end(aws, slot, provisioner, error)
        raise
    ended = _end(aws, slot, provisioner)
    spent = provisioner.meter_of(outcome.machine).spent(outcome.at)
    return Provisioned(outcome=outcome, spent_usd=spent, instances=instances, ended=ended)


def _end(aws: Aws, slot: Slot, provisioner: Provisioner, error: BaseException | None = None) -> Ended:
    """End everything. Who interrupts that waits for it all the same, as at any other time; of a
    second Ctrl-C the command takes care."""
    machine, regions = provisioner.machine, slot.region_names
    try:
        ended = end_sweep(aws, regions, slot.sweep, machine)
    except KeyboardInterrupt as interrupted:
        ended, error = end_sweep(aws, regions, slot.sweep, machine), interrupted
        if not ended.left:
            raise
    if ended.left:
        raise not_ended(ended, machine, provisioner.meter_of(machine) if machine else None) from error
    return ended


def _worked(
    aws: Aws, provisioner: Provisioner, work: Work, queue: timedelta, on_machine: OnMachine
) -> tuple[Outcome, int]:
    """The end of the work, and the number of instances that it took."""
    last, count = None, 0
    while True:
        try:
            machine, meter = provisioner.get(aws.clock.now() + queue)
        except BudgetOverError:
            if last is None:
                raise
            return replace(last, why=Why.BUDGET), count
        count += 1
        on_machine(machine)
        last = watch(aws, machine, meter, work)
        work.on_end(last)
        if last.why not in (Why.TAKEN_BACK, Why.ENDED):
            return last, count
        reaction = reaction_to(last.code) if last.code else Reaction.LAUNCH_AGAIN
        if last.why is Why.ENDED and reaction is Reaction.STOP:
            raise explained_state(machine.id, last.code)
        # It may run on for the two minutes of a notice: two of them would both be paid.
        end_instance(aws, machine)
        provisioner.lost(machine, last.code or "spot notice", reaction)
