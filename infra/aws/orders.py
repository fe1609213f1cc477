"""Orders: requests for one instance each, and how to find the instance of an order by its token.

The request contains all that ensures the instance's end. A lost answer is replaced by a search by token."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import Market
from advisor.errors import AdvisorError
from advisor.infra.aws import machines, tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import AwsFailure, Reaction, Refused, Unanswered
from advisor.infra.aws.launch_options import Image, LaunchedMachine, LaunchOption, Slot, Sweep, Volume

# An offer without capacity is skipped for this time (as karpenter's UnavailableOfferingsTTL).
CAPACITY_MEMORY = timedelta(minutes=3)


def in_order(
    options: Sequence[LaunchOption], types: Sequence[str], regions: Sequence[str]
) -> list[LaunchOption]:
    """The options as they are tried: spot before on demand, then by region, type, and price of the zone."""
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


_ALWAYS, _NEVER = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))


class Fallbacks:
    """The offers of a launch, and until when and why each one is skipped after a refusal."""

    def __init__(self, options: Sequence[LaunchOption]) -> None:
        self._options = list(options)
        self._refused: dict[str, tuple[datetime, str]] = {}

    def open(self, now: datetime) -> Iterator[LaunchOption]:
        """The offers that may be tried now, best first; lazy, so that refusals meanwhile count."""
        return (option for option in self._options if self._free_at(option) <= now)

    def refused(self, option: LaunchOption, code: str, reaction: Reaction, now: datetime) -> None:
        """Note that an offer was refused with a code."""
        until = now + CAPACITY_MEMORY if reaction is Reaction.NEXT_OFFER else _NEVER
        self._refused[str(option)] = until, code

    def next_free_at(self) -> datetime | None:
        """When the first skipped offer may be tried again; None if no offer ever may."""
        first = min(map(self._free_at, self._options), default=_NEVER)
        return None if first == _NEVER else first

    def all_refused_for(self, code: str) -> bool:
        """True if this is the only code for which offers are skipped for good."""
        return {why for until, why in self._refused.values() if until == _NEVER} == {code}

    def reasons_text(self) -> str:
        """The refusals: 'g4dn.xlarge spot in us-east-1a: InsufficientInstanceCapacity, ..'."""
        reasons = (f"{name}: {code}" for name, (_, code) in self._refused.items())
        return ", ".join(reasons) or "no offer is known"

    def _free_at(self, option: LaunchOption) -> datetime:
        return self._refused.get(str(option), (_ALWAYS, ""))[0]


# With one hop, a container on the instance cannot reach its credentials.
_METADATA = {
    "HttpTokens": "required",
    "HttpEndpoint": "enabled",
    "HttpPutResponseHopLimit": 1,
    "InstanceMetadataTags": "enabled",
}
_SPOT = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
# EC2's lists lag behind changes by seconds (EC2 API, "Eventual consistency").
POLL = 3.0
LOOKS = 11  # for half a minute


class Order(Struct, frozen=True, kw_only=True):
    """The order of one offer for a sweep's slot; equal orders make equal requests."""

    sweep: Sweep
    slot: str
    option: LaunchOption
    image: Image
    network: str
    expires_at: datetime
    generation: int = 0
    group: str = ""
    user_data: str = ""
    usd_per_hour: float = 0.0
    spent_before_usd: float = 0.0

    @property
    def token(self) -> str:
        """The order's `ClientToken`: the same after a crash, but different for each offer and generation (at
        most 64 characters, EC2 API, "Ensuring idempotency")."""
        offer = (self.option.instance_type, self.option.zone, self.option.market)
        wanted = (self.sweep.id, self.slot, str(self.generation), *offer)
        return "advisor-" + hashlib.sha256("\0".join(wanted).encode()).hexdigest()[:48]


def run_instances(order: Order) -> dict[str, Any]:
    """The parameters of `RunInstances`."""
    sweep, option = order.sweep, order.option
    is_spot = option.market is Market.SPOT
    kinds = ("instance", "volume", "network-interface", *(("spot-instances-request",) if is_spot else ()))
    instance_tags = {
        **tags.base_tags(sweep.id, sweep.owner, order.expires_at, sweep.budget_usd),
        tags.SLOT: order.slot,
        tags.GENERATION: str(order.generation),
        tags.USD_PER_HOUR: f"{order.usd_per_hour:.6f}",
        tags.SPENT_BEFORE_USD: f"{order.spent_before_usd:.6f}",
    }
    # A public address, to reach the internet; the group has no rules, so nothing can connect to it.
    interface = {
        "DeviceIndex": 0,
        "SubnetId": option.subnet,
        "Groups": [order.group],
        "AssociatePublicIpAddress": True,
        "DeleteOnTermination": True,
    }
    request: dict[str, Any] = {
        "ClientToken": order.token,
        "MinCount": 1,
        "MaxCount": 1,
        "ImageId": order.image.id,
        "InstanceType": option.instance_type,
        "UserData": order.user_data,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": _METADATA,
        "BlockDeviceMappings": _disks(order),
        "NetworkInterfaces": [interface],
        "TagSpecifications": tags.specifications(instance_tags, kinds),
    }
    if sweep.profile:
        request["IamInstanceProfile"] = {"Name": sweep.profile}
    if is_spot:
        spot = {**_SPOT, "MaxPrice": f"{option.usd_per_hour:.6f}"}
        request["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": spot}
    return request


def _disks(order: Order) -> list[dict[str, Any]]:
    root = Volume(type="gp3", size_gib=max(order.sweep.root_gib, order.image.root_gib))
    named = zip(order.sweep.devices, order.sweep.volumes, strict=True)
    disks = []
    for device, volume in ((order.image.root_device, root), *named):
        given = {
            "VolumeType": volume.type,
            "VolumeSize": volume.size_gib,
            "Iops": volume.iops,
            "Throughput": volume.mib_per_second,
            "Encrypted": True,
            "DeleteOnTermination": True,
        }
        disks.append(
            {"DeviceName": device, "Ebs": {name: value for name, value in given.items() if value is not None}}
        )
    return disks


class TokenOrders:
    """Places the orders of one slot, and remembers an order whose answer is still open."""

    def __init__(self, aws: Aws, slot: Slot) -> None:
        self._aws = aws
        self._slot = slot
        self._open: Order | None = None

    def made(self, order: Order) -> LaunchedMachine | None:
        """The instance of an order's token, even if it ended at once; None if the token belongs to an earlier
        instance that has ended. `Refused` means that none was launched, `Unanswered` that this is unknown."""
        requested_at, region = self._aws.clock.now(), order.option.region
        self._open = order
        try:
            answer = self._aws.ask(region, "run_instances", **run_instances(order))
            machine = machines.machine_from(answer["Instances"][0], region)
        except Refused as refused:
            return self._after_refusal(order, refused)
        except (Unanswered, LookupError) as error:
            return self._required_by_token(order, error)
        listed = self._as_listed(machine)
        self._open = None  # lists show the instance now, so it can be ended
        if not listed.lives and listed.expires_at != order.expires_at:
            return None
        return replace(listed, launched_at=min(requested_at, listed.launched_at))

    def listed(self) -> list[LaunchedMachine]:
        """The slot's instances in all its regions, oldest first."""
        slot = self._slot
        return machines.instances_of(self._aws, slot.regions, slot.sweep.id, slot.name)

    def settle(self) -> LaunchedMachine | None:
        """Wait for the instance of an interrupted request, so that it can be ended; None if there is none."""
        if self._open is not None:
            with suppress(AdvisorError):
                return self._by_token(self._open)
        return None

    def _after_refusal(self, order: Order, refused: Refused) -> LaunchedMachine | None:
        """The instance that an earlier attempt launched; None if it has ended; otherwise raises `refused`."""
        if refused.reaction is Reaction.LAUNCH_AGAIN:  # the instance of the token has ended
            self._open = None
            return None
        if refused.reaction is Reaction.FIND:
            return self._by_token(order)
        if refused.kind is AwsFailure.SERVER:
            return self._required_by_token(order, refused)
        if refused.was_open and (machine := self._by_token(order)):
            return machine
        self._open = None
        raise refused

    def _required_by_token(self, order: Order, error: Exception) -> LaunchedMachine:
        """The instance of the token; `Unanswered` if none is found, since one may still appear."""
        machine = self._by_token(order)
        if machine is None:
            raise Unanswered("RunInstances", str(error)) from error
        return machine

    def _by_token(self, order: Order) -> LaunchedMachine | None:
        """The living instance with the order's token; None if it has ended, or is not listed in time."""
        for _ in range(LOOKS):
            for entry in self.listed():
                if entry.token == order.token:
                    self._open = None
                    return entry if entry.lives else None
            self._aws.clock.sleep(POLL)
        self._open = None
        return None

    def _as_listed(self, machine: LaunchedMachine) -> LaunchedMachine:
        """The instance as lists show it, since an answer may describe one that has ended since. If they do
        not show it in time, it is returned as it was in the answer, so that its id is not lost."""
        for _ in range(LOOKS - 1):
            try:
                return machines.instance(self._aws, machine.region, machine.id)
            except machines.NotListed:
                self._aws.clock.sleep(POLL)
            except AdvisorError:
                break
        return machine
