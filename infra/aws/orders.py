"""One order: the request that makes an instance, and the instance that its token stands for.

Everything that keeps an instance safe is in its request from the start; whatever answers get lost, the token
finds it."""

from __future__ import annotations

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
from advisor.infra.aws.launch_options import (
    Image,
    LaunchedMachine,
    LaunchOption,
    Slot,
    Sweep,
    Volume,
    client_token,
)

# For so long an offer without capacity is left alone (karpenter, UnavailableOfferingsTTL).
CAPACITY_MEMORY = timedelta(minutes=3)


def in_order(
    options: Sequence[LaunchOption], types: Sequence[str], regions: Sequence[str]
) -> list[LaunchOption]:
    """Spot before on demand; in each, region by region, type by type, the cheapest zone first."""
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
    """The offers of one launch: until when each is left alone after a refusal, and why."""

    def __init__(self, options: Sequence[LaunchOption]) -> None:
        self._options = list(options)
        self._refused: dict[str, tuple[datetime, str]] = {}

    def open(self, now: datetime) -> Iterator[LaunchOption]:
        """The offers that may be tried now, best first; found anew each time."""
        return (option for option in self._options if self._free_at(option) <= now)

    def refused(self, option: LaunchOption, code: str, reaction: Reaction, now: datetime) -> None:
        """Remember what an offer was refused for."""
        until = now + CAPACITY_MEMORY if reaction is Reaction.NEXT_OFFER else _NEVER
        self._refused[str(option)] = until, code

    def next_free_at(self) -> datetime | None:
        """When the first offer may be asked for again; None where none ever may."""
        first = min(map(self._free_at, self._options), default=_NEVER)
        return None if first == _NEVER else first

    def all_refused_for(self, code: str) -> bool:
        """Whether every offer is left alone for good, for that one reason."""
        return {why for until, why in self._refused.values() if until == _NEVER} == {code}

    def reasons_text(self) -> str:
        """'g4dn.xlarge spot in us-east-1a: InsufficientInstanceCapacity, ..', each offer once."""
        reasons = (f"{name}: {code}" for name, (_, code) in self._refused.items())
        return ", ".join(reasons) or "no offer is known"

    def _free_at(self, option: LaunchOption) -> datetime:
        return self._refused.get(str(option), (_ALWAYS, ""))[0]


# One hop: a container on the instance does not reach its credentials.
_METADATA = {
    "HttpTokens": "required",
    "HttpEndpoint": "enabled",
    "HttpPutResponseHopLimit": 1,
    "InstanceMetadataTags": "enabled",
}
_SPOT = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
# Lists of EC2 lag behind what was done, by seconds (EC2 API, "Eventual consistency").
POLL = 3.0
LOOKS = 11  # for half a minute


class Order(Struct, frozen=True, kw_only=True):
    """One offer of a sweep's slot, ready to be asked for; the same order is the same request."""

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
        """Its `ClientToken`."""
        return client_token(self.sweep.id, self.slot, self.generation, self.option)


def run_instances(order: Order) -> dict[str, Any]:
    """The parameters of `RunInstances`."""
    sweep, option = order.sweep, order.option
    is_spot = option.market is Market.SPOT
    kinds = ("instance", "volume", "network-interface", *(("spot-instances-request",) if is_spot else ()))
    worn = {
        **tags.base_tags(sweep.id, sweep.owner, order.expires_at, sweep.budget_usd),
        tags.SLOT: order.slot,
        tags.GENERATION: str(order.generation),
        tags.USD_PER_HOUR: f"{order.usd_per_hour:.6f}",
        tags.SPENT_BEFORE_USD: f"{order.spent_before_usd:.6f}",
    }
    # A public address to reach the outside by, and a group without any rule for what comes in.
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
        "TagSpecifications": tags.specifications(worn, kinds),
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
    """Asks for orders of one slot, and knows of one whose answer is still open."""

    def __init__(self, aws: Aws, slot: Slot) -> None:
        self._aws = aws
        self._slot = slot
        self._open: Order | None = None

    def made(self, order: Order) -> LaunchedMachine | None:
        """The instance that the order's token stands for, also where it came to nothing as it was made; None
        where that is one from before, which has ended. `Refused` says that none was made, `Unanswered` that
        nobody knows."""
        requested_at, region = self._aws.clock.now(), order.option.region
        self._open = order
        try:
            answer = self._aws.ask(region, "run_instances", **run_instances(order))
            machine = machines.machine_from(answer["Instances"][0], region)
        except Refused as refused:
            return self._after_refusal(order, refused)
        except (Unanswered, LookupError) as error:
            return self._certain_by_token(order, error)
        seen = self._seen(machine)
        self._open = None  # from now on lists show it: it can be ended
        if not seen.lives and seen.expires_at != order.expires_at:
            return None
        return replace(seen, launched_at=min(requested_at, seen.launched_at))

    def listed(self) -> list[LaunchedMachine]:
        """The slot's instances in all its regions, oldest first."""
        slot = self._slot
        return machines.instances_of(self._aws, slot.region_names, slot.sweep.id, slot.name)

    def settle(self) -> LaunchedMachine | None:
        """Waits for the instance of an interrupted request, so that it can be ended; returns it."""
        if self._open is not None:
            with suppress(AdvisorError):
                return self._by_token(self._open)
        return None

    def _after_refusal(self, order: Order, refused: Refused) -> LaunchedMachine | None:
        """A refusal proves nothing where an earlier try of the same request stayed open."""
        if refused.reaction is Reaction.LAUNCH_AGAIN:  # the token's instance has ended
            self._open = None
            return None
        if refused.reaction is Reaction.FIND:
            return self._by_token(order)
        if refused.kind is AwsFailure.SERVER:
            return self._certain_by_token(order, refused)
        if refused.was_open and (machine := self._by_token(order)):
            return machine
        self._open = None
        raise refused

    def _certain_by_token(self, order: Order, error: Exception) -> LaunchedMachine:
        """The instance of the token where nobody knows whether there is one: no other offer is tried then."""
        machine = self._by_token(order)
        if machine is None:
            raise Unanswered("RunInstances", str(error)) from error
        return machine

    def _by_token(self, order: Order) -> LaunchedMachine | None:
        """The instance with the order's token; None where it has ended, or is long forgotten."""
        for _ in range(LOOKS):
            for entry in self.listed():
                if entry.token == order.token:
                    self._open = None
                    return entry if entry.lives else None
            self._aws.clock.sleep(POLL)
        self._open = None
        return None

    def _seen(self, machine: LaunchedMachine) -> LaunchedMachine:
        """The instance as lists have it, once they do: an answer may be that of an instance that has ended.
        Where they do not, it is taken as the answer had it: its id must not get lost."""
        for _ in range(LOOKS - 1):
            try:
                return machines.instance(self._aws, machine.region, machine.id)
            except machines.NotListed:
                self._aws.clock.sleep(POLL)
            except AdvisorError:
                break
        return machine
