"""The controller's own end: everything with the sweep's tag goes, whatever it is."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from advisor.errors import AdvisorError, CloudError
from advisor.units import format_usd
from infra.aws import tags
from infra.aws.asking import Aws
from infra.aws.budget import Meter
from infra.aws.errors import Refused
from infra.aws.finding import KINDS, Managed, managed_of
from infra.aws.launch_options import Machine, Sweep
from infra.aws.machines import NotTold, instance
from infra.aws.permissions import mend_of
from infra.aws.removing import PATIENCE, POLL_SECONDS, remove_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What is gone, and what surely or possibly is still there, in words."""

    removed: tuple[Managed, ...]
    left: tuple[str, ...]


class NotEndedError(CloudError):
    """Something may still run, and the message tells what, until when, and what ends it now."""


def end_sweep(
    aws: Aws, regions: Iterable[str], sweep: Sweep, first: Machine | None = None
) -> Ended:
    """End all instances of the sweep and its owner, and remove what they leave; `first` is known
    to run, and is ended before anything is looked for. Raises nothing of AWS's: what could not be
    asked or removed is told."""
    removed: list[Managed] = []
    left: list[str] = []
    if first is not None:
        with suppress(AdvisorError):  # it is found by its tag again, and told where it stays
            aws.ask(first.region, "terminate_instances", InstanceIds=[first.id])
    for region in regions:
        found, not_told = _of_sweep(aws, region, sweep)
        left += not_told
        if first is not None and first.region == region:
            found += _unlisted(first, sweep.id, found)
        remaining = remove_all(aws, found)
        there = {one.found.id for one in remaining}
        removed += [one for one in found if one.id not in there]
        left += [f"{one.found.kind} {one.found.id} in {region}: {one.reason}" for one in remaining]
    return Ended(removed=tuple(removed), left=tuple(left))


def end_instance(aws: Aws, machine: Machine) -> None:
    """End one instance and wait until it is billed no more; `CloudError` where it is not."""
    aws.ask(machine.region, "terminate_instances", InstanceIds=[machine.id])
    deadline = aws.clock.now() + PATIENCE
    while True:
        try:
            if not instance(aws, machine.region, machine.id).lives:
                return
        except NotTold:
            return
        if aws.clock.now() >= deadline:
            raise CloudError(f"{machine.id} in {machine.region} does not end, as it was told to")
        aws.clock.sleep(POLL_SECONDS)


def _of_sweep(aws: Aws, region: str, sweep: Sweep) -> tuple[list[Managed], list[str]]:
    """What there is; a kind that may not be listed hinders the end of no other one, and is told."""
    found: list[Managed] = []
    not_told: list[str] = []
    for kind in KINDS:
        try:
            listed = managed_of(aws, kind, region, owner=sweep.owner)
            found += [one for one in listed if one.sweep_id == sweep.id]
        except Refused as refused:
            not_told.append(f"no {kind.name} in {region} is told: {mend_of(refused)}")
        except AdvisorError as error:  # nobody answers: nor would they for other kinds
            return found, [*not_told, f"what there is in {region} is not known: {error}"]
    return found, not_told


def _unlisted(machine: Machine, sweep_id: str, found: Iterable[Managed]) -> list[Managed]:
    """The instance, where lists do not show it (any more, or again: EC2 asks one of several)."""
    if any(one.id == machine.id for one in found):
        return []
    return [
        Managed(
            kind="instance", id=machine.id, region=machine.region, sweep_id=sweep_id, owner="",
            expires_at=machine.expires_at,
        )
    ]  # fmt: skip


def not_ended(ended: Ended, machine: Machine | None, meter: Meter | None) -> NotEndedError:
    """What a user has to know and to do where something may still run."""
    told = "; ".join(ended.left)
    if machine is None:
        return NotEndedError(
            f"not everything is surely ended ({told}); what there may be ends itself when its time "
            "is over, and `advisor cloud reap` removes the rest then; `advisor cloud status` tells "
            "what is left"
        )
    itself = "its own timer ends it, and so does the next pass of the reaper"
    if machine.expires_at and meter:
        most = format_usd(max(meter.budget_usd, meter.spent(machine.expires_at)))
        itself = (
            f"{machine.id} powers itself off at {tags.time_text(machine.expires_at)}, and costs "
            f"{most} at most until then"
        )
    return NotEndedError(
        f"not everything is surely ended ({told}); {itself}; to end it now: `aws ec2 "
        f"terminate-instances --instance-ids {machine.id} --region {machine.region}`; "
        "`advisor cloud status` tells what is left"
    )
