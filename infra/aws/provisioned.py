"""Provides an instance for as long as its work takes, and then ends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from advisor.errors import AdvisorError, CloudError
from advisor.infra.aws import machines, tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import Reaction, Refused, Unanswered, explained, explained_state, reaction_to
from advisor.infra.aws.launch_options import (
    LEAST,
    LaunchedMachine,
    LaunchOption,
    Region,
    Slot,
    Sweep,
    oldest_first,
)
from advisor.infra.aws.orders import LOOKS, POLL, Fallbacks, Order, TokenOrders
from advisor.infra.aws.reap import (
    Ended,
    Meter,
    Outcome,
    Why,
    Work,
    end_instance,
    end_sweep,
    not_ended,
    usd_per_hour,
    watch,
)
from advisor.messages import format_usd

_EXISTS = "InvalidGroup.Duplicate"


def own_group(aws: Aws, region: str, network: str, sweep: Sweep, expires_at: datetime) -> tuple[str, bool]:
    """The id of the sweep's security group in a network, and whether this call created it."""
    described = tags.base_tags(sweep.id, sweep.owner, expires_at, sweep.budget_usd)
    try:
        answer = aws.ask(
            region,
            "create_security_group",
            GroupName=tags.name_of(sweep.id),
            Description=f"advisor sweep {sweep.id}: nothing comes in",
            VpcId=network,
            TagSpecifications=tags.specifications(described, ["security-group"]),
        )
    except Refused as refused:
        if refused.code != _EXISTS:
            raise
        group = _existing(aws, region, network, sweep)
        with suppress(Refused):  # some replicas may not show the group yet; it has an expiry anyway
            renew(aws, region, group, expires_at)
        return group, False
    return str(answer["GroupId"]), True


def renew(aws: Aws, region: str, group: str, expires_at: datetime) -> None:
    """Extend the group's expiry to that of its instances."""
    listed = [{"Key": tags.EXPIRES_AT, "Value": tags.time_text(expires_at)}]
    aws.ask(region, "create_tags", Resources=[group], Tags=listed)


def _existing(aws: Aws, region: str, network: str, sweep: Sweep) -> str:
    filters = [
        {"Name": "group-name", "Values": [tags.name_of(sweep.id)]},
        {"Name": "vpc-id", "Values": [network]},
    ]
    for _ in range(LOOKS):
        result = aws.ask(region, "describe_security_groups", Filters=filters)
        for entry in result.get("SecurityGroups", ()):
            _refuse_foreign_group(entry, sweep)
            return str(entry["GroupId"])
        aws.clock.sleep(POLL)
    raise Unanswered("describe_security_groups", f"{tags.name_of(sweep.id)} exists, nobody sees it")


def _refuse_foreign_group(row: Mapping[str, Any], sweep: Sweep) -> None:
    """Raise `CloudError` for a group that is not ours (it may have open ports), or another owner's."""
    group_tags, group = tags.tags_from(row.get("Tags")), row["GroupId"]
    if (group_tags.get(tags.MANAGED), group_tags.get(tags.SWEEP_ID)) != (tags.MANAGED_VALUE, sweep.id):
        raise CloudError(
            f"the security group {tags.name_of(sweep.id)} ({group}) is none of the advisor's",
            hint="nothing was launched: give another --sweep-id",
        )
    if group_tags.get(tags.OWNER) != sweep.owner:
        raise CloudError(
            f"sweep {sweep.id} is {group_tags.get(tags.OWNER)}'s, and nothing of it was touched",
            hint=f"give another --sweep-id, or go on with it as --owner {group_tags.get(tags.OWNER)}",
        )


# More generations of one launch option than could plausibly have ended.
_MOST_GENERATIONS = 50
_OVER_BUDGET = "OverBudget"
# The reaper has removed the group, or some replicas do not show it yet.
_GROUP_GONE = ("InvalidGroup.NotFound", "InvalidSecurityGroupID.NotFound")
_SKIPPING = (Reaction.NEXT_OFFER, Reaction.NEVER_AGAIN)


class NoCapacityError(CloudError):
    """All offers were refused, and the time to wait for capacity is over."""


class BudgetOverError(CloudError):
    """The rest of the budget pays no offer for the shortest useful time."""


class Provisioner:
    """Launches the instance of one slot, again after each loss."""

    def __init__(self, aws: Aws, slot: Slot, fallbacks: Fallbacks) -> None:
        self._aws = aws
        self._slot = slot
        self._fallbacks = fallbacks
        self._orders = TokenOrders(aws, slot)
        self._groups: dict[str, str] = {}
        self._generation = 0
        self._spent_usd = 0.0
        self._is_first = True
        self.machine: LaunchedMachine | None = None  # the latest instance

    def get(self, queue_until: datetime) -> tuple[LaunchedMachine, Meter]:
        """The slot's instance, a living or a new one, and its meter. `NoCapacityError` if no offer succeeded
        until `queue_until`, `CloudError` if further attempts are useless, `Unanswered` if it is unknown
        whether an instance was launched."""
        self.machine = self._adopted() or self._new_machine(queue_until)
        kept = self.machine = self._without_others(self.machine)
        # Extend the group's expiry. If that fails, no harm: the reaper cannot remove a group in use.
        with suppress(AdvisorError):
            self._group(self._slot.regions[kept.region])
            if kept.expires_at is not None:
                renew(self._aws, kept.region, self._groups[kept.region], kept.expires_at)
        return kept, self.meter_of(kept)

    def meter_of(self, machine: LaunchedMachine) -> Meter:
        """The slot's budget, used up by that instance."""
        return Meter(
            budget_usd=self._slot.sweep.budget_usd,
            usd_per_hour=machine.usd_per_hour,
            since=machine.launched_at,
            spent_usd=machine.spent_before_usd,
        )

    def lost(self, machine: LaunchedMachine, code: str, reaction: Reaction) -> None:
        """Note why an instance ended by itself, so that its offer is skipped next time."""
        option = LaunchOption(
            instance_type=machine.instance_type,
            region=machine.region,
            zone=machine.zone,
            subnet="",
            market=machine.market,
            usd_per_hour=machine.usd_per_hour,
        )
        skip = reaction if reaction in _SKIPPING else Reaction.NEXT_OFFER
        self._fallbacks.refused(option, code, skip, self._aws.clock.now())

    def settle(self) -> None:
        """See `TokenOrders.settle`."""
        self.machine = self._orders.settle() or self.machine

    def _adopted(self) -> LaunchedMachine | None:
        """A living instance of the slot. If the group existed, EC2's lists get time to show its instance."""
        made_now = self._group(next(iter(self._slot.regions.values())))
        may_be_hidden, self._is_first = self._is_first and not made_now, False
        result = self._orders.listed()
        for _ in range(LOOKS - 1 if may_be_hidden else 0):
            if any(entry.lives for entry in result):
                break
            self._aws.clock.sleep(POLL)
            result = self._orders.listed()
        self._generation = max(self._generation, *(entry.generation + 1 for entry in result), 0)
        self._spent_usd = max(self._spent_usd, machines.spent_usd(result, self._aws.clock.now()))
        return next((entry for entry in result if entry.lives), None)

    def _group(self, region: Region) -> bool:
        """Ensure that the region's group exists; True if it was created now. It expires before any instance
        could, so that wherever this is interrupted one pass of the reaper removes both."""
        if region.name in self._groups:
            return False
        expires_at = self._aws.clock.now() + LEAST
        group, made = own_group(self._aws, region.name, region.network, self._slot.sweep, expires_at)
        self._groups[region.name] = group
        return made

    def _new_machine(self, queue_until: datetime) -> LaunchedMachine:
        while True:
            for option in self._fallbacks.open(self._aws.clock.now()):
                if self._is_paid(option) and (made := self._launched(option)):
                    return made
            self._queue(queue_until)

    def _is_paid(self, option: LaunchOption) -> bool:
        hourly = usd_per_hour(option, self._slot.sweep)
        if hourly * (LEAST / timedelta(hours=1)) <= self._slot.sweep.budget_usd - self._spent_usd:
            return True
        self._fallbacks.refused(option, _OVER_BUDGET, Reaction.NEVER_AGAIN, self._aws.clock.now())
        return False

    def _queue(self, queue_until: datetime) -> None:
        free_at, now = self._fallbacks.next_free_at(), self._aws.clock.now()
        if free_at is None and self._fallbacks.all_refused_for(_OVER_BUDGET):
            spent, budget = format_usd(self._spent_usd), format_usd(self._slot.sweep.budget_usd)
            raise BudgetOverError(
                f"what is left of the budget does not pay {LEAST / timedelta(minutes=1):.0f} minutes of any "
                f"offer ({spent} of {budget} are spent)",
                hint="give a larger --budget",
            )
        if free_at is None or free_at > queue_until:
            raise NoCapacityError(
                f"no offer was to be had ({self._fallbacks.reasons_text()})",
                hint="nothing was launched: add regions or types, give --queue more time, or ask again later",
            )
        self._aws.clock.sleep(max(1.0, (free_at - now).total_seconds()))

    def _launched(self, option: LaunchOption) -> LaunchedMachine | None:
        """An instance of one offer; None if the next offer has to be tried."""
        region = self._slot.regions[option.region]
        self._group(region)
        for _ in range(_MOST_GENERATIONS):
            order = self._order(option, region)
            try:
                made = self._orders.made(order)
            except Refused as refused:
                if refused.code in _GROUP_GONE:
                    del self._groups[region.name]
                    self._aws.clock.sleep(POLL)
                    self._group(region)
                    continue
                if refused.reaction not in _SKIPPING:
                    raise explained(refused) from refused
                self._fallbacks.refused(option, refused.code, refused.reaction, self._aws.clock.now())
                return None
            if made is not None and made.lives:
                return made
            self._generation += 1
            if made is not None:  # it ended right after its launch; so would the next one of this offer
                reaction = reaction_to(made.reason) if made.reason else Reaction.LAUNCH_AGAIN
                if reaction is Reaction.STOP:
                    raise explained_state(made.id, made.reason)
                self.lost(made, made.reason or "ended as it was made", reaction)
                return None
        raise CloudError(f"{option}: every token of this sweep was used", hint="give another --sweep-id")

    def _order(self, option: LaunchOption, region: Region) -> Order:
        sweep, hourly = self._slot.sweep, usd_per_hour(option, self._slot.sweep)
        now = self._aws.clock.now().replace(microsecond=0)
        meter = Meter(budget_usd=sweep.budget_usd, usd_per_hour=hourly, since=now, spent_usd=self._spent_usd)
        expires_at = min(meter.ends_at, now + timedelta(hours=sweep.hours))
        return Order(
            sweep=sweep,
            slot=self._slot.name,
            generation=self._generation,
            option=option,
            image=region.image,
            group=self._groups[region.name],
            network=region.network,
            user_data=self._slot.user_data(expires_at, option),
            expires_at=expires_at,
            usd_per_hour=hourly,
            spent_before_usd=self._spent_usd,
        )

    def _without_others(self, machine: LaunchedMachine) -> LaunchedMachine:
        """End all instances of the slot but the oldest (two controllers may have launched several)."""
        living = [entry for entry in self._orders.listed() if entry.lives]
        if all(entry.id != machine.id for entry in living):
            living.append(machine)
        kept, *others = oldest_first(living)
        for other in others:
            self._aws.ask(other.region, "terminate_instances", InstanceIds=[other.id])
        return machine if kept.id == machine.id else kept


# Called with each instance that was launched or adopted.
OnMachine = Callable[[LaunchedMachine], None]


class Provisioned(Struct, frozen=True, kw_only=True):
    """How the work ended, an upper bound of its cost, and the number of instances that it took."""

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
    """Launch an instance, wait until its work is done or the budget is spent, and end the whole sweep.
    `queue` is the longest wait for capacity, for each launch.

    An interrupted spot instance is replaced by another one as long as the budget pays. In every case, even
    after Ctrl-C or an error, all resources with the sweep's tag are ended; `CloudError` names those that may
    be left."""
    provisioner = Provisioner(aws, slot, fallbacks)
    try:
        outcome, instances = _final_outcome(aws, provisioner, work, queue, on_machine)
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
    """End everything of the sweep, even after a Ctrl-C meanwhile; a second one goes to the caller."""
    machine, regions = provisioner.machine, slot.regions
    try:
        ended = end_sweep(aws, regions, slot.sweep, machine)
    except KeyboardInterrupt as interrupted:
        ended, error = end_sweep(aws, regions, slot.sweep, machine), interrupted
        if not ended.left:
            raise
    if ended.left:
        raise not_ended(ended, machine, provisioner.meter_of(machine) if machine else None) from error
    return ended


def _final_outcome(
    aws: Aws, provisioner: Provisioner, work: Work, queue: timedelta, on_machine: OnMachine
) -> tuple[Outcome, int]:
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
        # It may run for two minutes after a spot notice, and would be billed beside its replacement.
        end_instance(aws, machine)
        provisioner.lost(machine, last.code or "spot notice", reaction)
