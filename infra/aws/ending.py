"""The controller's own end: everything with the sweep's tag goes, whatever it is."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from msgspec import Struct

from advisor.errors import AdvisorError, CloudError
from advisor.infra.aws import tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.budget import Meter
from advisor.infra.aws.errors import Refused
from advisor.infra.aws.launch_options import LaunchedMachine, Sweep
from advisor.infra.aws.machines import NotListed, instance
from advisor.infra.aws.managed import KINDS, PATIENCE, POLL_SECONDS, Managed, managed_of, remove_all
from advisor.infra.aws.permissions import mend_of
from advisor.messages import Message
from advisor.units import format_usd


class Ended(Struct, frozen=True, kw_only=True):
    """Resources that are gone, and those that are or may be still there, in words."""

    removed: tuple[Managed, ...]
    left: tuple[str, ...]


class NotEndedError(CloudError):
    """Something may still run, and the message says what, until when, and what ends it now."""


def end_sweep(aws: Aws, regions: Iterable[str], sweep: Sweep, first: LaunchedMachine | None = None) -> Ended:
    """End all instances of the sweep and its owner, and remove what they leave; `first` is known
    to run, and is ended before anything is looked for. Raises nothing of AWS's: what could not be
    asked or removed is listed."""
    removed: list[Managed] = []
    left: list[str] = []
    if first is not None:
        with suppress(AdvisorError):  # it is found by its tag again, and listed where it stays
            aws.ask(first.region, "terminate_instances", InstanceIds=[first.id])
    for region in regions:
        result, not_listed = _of_sweep(aws, region, sweep)
        left += not_listed
        if first is not None and first.region == region:
            result += _unlisted(first, sweep.id, result)
        remaining = remove_all(aws, result)
        there = {entry.thing.id for entry in remaining}
        removed += [entry for entry in result if entry.id not in there]
        left += [f"{entry.thing.kind} {entry.thing.id} in {region}: {entry.reason}" for entry in remaining]
    return Ended(removed=tuple(removed), left=tuple(left))


def end_instance(aws: Aws, machine: LaunchedMachine) -> None:
    """End one instance and wait until it is billed no more; `CloudError` where it is not."""
    aws.ask(machine.region, "terminate_instances", InstanceIds=[machine.id])
    deadline = aws.clock.now() + PATIENCE
    while True:
        try:
            if not instance(aws, machine.region, machine.id).lives:
                return
        except NotListed:
            return
        if aws.clock.now() >= deadline:
            raise CloudError(
                "{machine_id} in {region} does not end", machine_id=machine.id, region=machine.region
            )
        aws.clock.sleep(POLL_SECONDS)


def _of_sweep(aws: Aws, region: str, sweep: Sweep) -> tuple[list[Managed], list[str]]:
    """All there is; a kind that may not be listed hinders the end of no other, and is listed."""
    result: list[Managed] = []
    not_listed: list[str] = []
    for kind in KINDS:
        try:
            listed = managed_of(aws, kind, region, owner=sweep.owner)
            result += [entry for entry in listed if entry.sweep_id == sweep.id]
        except Refused as refused:
            not_listed.append(f"no {kind.name} in {region} is listed: {mend_of(refused)}")
        except AdvisorError as error:  # nobody answers: nor would they for other kinds
            return result, [*not_listed, f"what there is in {region} is not known: {error}"]
    return result, not_listed


def _unlisted(machine: LaunchedMachine, sweep_id: str, things: Iterable[Managed]) -> list[Managed]:
    """The instance, where lists do not show it (any more, or again: EC2 asks one of several)."""
    if any(managed.id == machine.id for managed in things):
        return []
    return [
        Managed(
            kind="instance",
            id=machine.id,
            region=machine.region,
            sweep_id=sweep_id,
            owner="",
            expires_at=machine.expires_at,
        )
    ]


def not_ended(ended: Ended, machine: LaunchedMachine | None, meter: Meter | None) -> NotEndedError:
    """The error that tells a user what to do where an instance may still run."""
    text = "; ".join(ended.left)
    if machine is None:
        return NotEndedError(
            "not everything has ended, as far as AWS says ({text})",
            hint=(
                "what there may be ends itself when its time is over, and `advisor cloud "
                "reap` removes the rest then; `advisor cloud status` lists what is left"
            ),
            text=text,
        )
    itself = "its own timer ends it, and so does the next pass of the reaper"
    if machine.expires_at and meter:
        most = format_usd(max(meter.budget_usd, meter.spent(machine.expires_at)))
        itself = (
            f"{machine.id} powers itself off at {tags.time_text(machine.expires_at)}, and costs "
            f"{most} at most until then"
        )
    return NotEndedError(
        "not everything has ended, as far as AWS says ({text})",
        hint=Message(
            "{itself}; to end it now: `aws ec2 terminate-instances --instance-ids "
            "{machine_id} --region {region}`; `advisor cloud status` lists what is left",
            itself=itself,
            machine_id=machine.id,
            region=machine.region,
        ),
        text=text,
    )
