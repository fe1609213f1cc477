"""The options of a launch, and the resources of it that exist in the cloud: values."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from advisor.domain import Market
from advisor.errors import UsageError

LIVE_STATES = ("pending", "running", "stopping", "stopped")
_SWEEP_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-]{0,39}")
# Nothing is launched that cannot live so long, where no start of the type was measured: boot and
# set-up take minutes, a trial a quarter of one.
LEAST = timedelta(minutes=10)
# Letters of /dev/sd?: f to p are what EC2 recommends for data volumes.
_DEVICES = "fghijklmnop"


def checked_sweep_id(text: str) -> str:
    """The id, where it can stand in names, tags and shell commands; else `UsageError`."""
    if not _SWEEP_ID.fullmatch(text):
        raise UsageError(
            f"'{text}' is no sweep id", field="sweep_id", hint="it takes up to 40 letters, digits and dashes"
        )
    return text


def sweep_id_of(*parts: str) -> str:
    """Twelve hex digits of what was asked: the same question finds its own instance again."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


class Volume(Struct, frozen=True, kw_only=True):
    """One EBS volume, encrypted and deleted with its instance; None is what the type includes."""

    type: str
    size_gib: int
    iops: int | None = None
    mib_per_second: int | None = None


class Image(Struct, frozen=True, kw_only=True):
    """A machine image of a region, with the disk that it boots from."""

    id: str
    root_device: str
    root_gib: int


class Sweep(Struct, frozen=True, kw_only=True):
    """The settings that all instances of a sweep share. `hours` is the longest life of one, whatever the
    budget pays; `volumes` are its data disks, `profile` its instance profile (empty: none); no instance
    is launched that cannot live for `least`."""

    id: str
    owner: str
    budget_usd: float
    hours: float
    volumes: tuple[Volume, ...] = ()
    root_gib: int = 120
    profile: str = ""
    least: timedelta = LEAST

    @property
    def devices(self) -> tuple[str, ...]:
        """Device names of the volumes, in their order; the guest finds them by size and type."""
        return tuple(f"/dev/sd{letter}" for letter in _DEVICES[: len(self.volumes)])

    def __post_init__(self) -> None:
        checked_sweep_id(self.id)
        if len(self.volumes) > len(_DEVICES):
            raise UsageError(f"at most {len(_DEVICES)} disk types go on one instance")


class LaunchOption(Struct, frozen=True, kw_only=True):
    """One offer of the ladder; `usd_per_hour` at most: on demand, or a spot request's `MaxPrice`."""

    instance_type: str
    region: str
    zone: str
    subnet: str
    market: Market
    usd_per_hour: float

    def __str__(self) -> str:
        return f"{self.instance_type} {self.market} in {self.zone or self.region}"


class LaunchedMachine(Struct, frozen=True, kw_only=True):
    """An instance of ours as EC2 describes it; times are aware UTC."""

    id: str
    region: str
    zone: str
    instance_type: str
    market: Market
    state: str
    launched_at: datetime
    token: str
    slot: str
    generation: int
    usd_per_hour: float
    spent_before_usd: float
    expires_at: datetime | None
    ended_at: datetime | None = None
    reason: str = ""
    private_ip: str = ""

    @property
    def lives(self) -> bool:
        """Whether it is or may come to be billed."""
        return self.state in LIVE_STATES


def client_token(sweep_id: str, slot: str, generation: int, option: LaunchOption) -> str:
    """The `ClientToken` of one offer's request: the same after a crash, another one for each
    offer and each generation (at most 64 characters, EC2 API, "Ensuring idempotency")."""
    wanted = (sweep_id, slot, str(generation), option.instance_type, option.zone, option.market)
    return "advisor-" + hashlib.sha256("\0".join(wanted).encode()).hexdigest()[:48]


def oldest_first(machines: Iterator[LaunchedMachine] | list[LaunchedMachine]) -> list[LaunchedMachine]:
    """In an order that every controller finds the same."""
    return sorted(machines, key=lambda machine: (machine.launched_at, machine.id))


# What the guest gets: until when, on what.
UserData = Callable[[datetime, LaunchOption], str]


class Region(Struct, frozen=True, kw_only=True):
    """The target of launches in a region: an image, and the network of the subnets."""

    name: str
    image: Image
    network: str


class Slot(Struct, frozen=True, kw_only=True):
    """One instance of a sweep that is wanted, and all that has to be known to get it."""

    sweep: Sweep
    name: str
    regions: tuple[Region, ...]
    user_data: UserData

    @property
    def region_names(self) -> tuple[str, ...]:
        """The regions of the ladder, in its order."""
        return tuple(region.name for region in self.regions)

    def region(self, name: str) -> Region:
        """The region of that name."""
        return next(region for region in self.regions if region.name == name)
