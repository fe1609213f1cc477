"""Records of a launch: its sweep, options, image, volumes, and launched instances."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from advisor.domain import Market
from advisor.errors import UsageError

LIVE_STATES = ("pending", "running", "stopping", "stopped")
_SWEEP_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-]{0,39}")
# The shortest life for which an instance is launched: boot and set-up take minutes, a trial a quarter of one.
LEAST = timedelta(minutes=10)
# Letters of /dev/sd?: f to p are what EC2 recommends for data volumes.
_DEVICES = "fghijklmnop"


def checked_sweep_id(text: str) -> str:
    """The id; `UsageError` if it is not safe in names, tags and shell commands."""
    if not _SWEEP_ID.fullmatch(text):
        raise UsageError(
            f"'{text}' is no sweep id", field="sweep_id", hint="it takes up to 40 letters, digits and dashes"
        )
    return text


def sweep_id_of(*parts: str) -> str:
    """An id of twelve hex digits, the same for the same parts, so that a repeated command finds its
    instance."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


class Volume(Struct, frozen=True, kw_only=True):
    """An EBS volume, encrypted and deleted with its instance; None: what the volume type includes."""

    type: str
    size_gib: int
    iops: int | None = None
    mib_per_second: int | None = None


class Image(Struct, frozen=True, kw_only=True):
    """A machine image of a region, and its root disk."""

    id: str
    root_device: str
    root_gib: int


class Sweep(Struct, frozen=True, kw_only=True):
    """Settings of all instances of a sweep: `hours` is the longest life of one; `volumes` are its data
    disks, `profile` its instance profile (empty: none)."""

    id: str
    owner: str
    budget_usd: float
    hours: float
    volumes: tuple[Volume, ...] = ()
    root_gib: int = 120
    profile: str = ""

    @property
    def devices(self) -> tuple[str, ...]:
        """Device names of the volumes, in order, by which the guest finds them."""
        return tuple(f"/dev/sd{letter}" for letter in _DEVICES[: len(self.volumes)])

    def __post_init__(self) -> None:
        checked_sweep_id(self.id)
        if len(self.volumes) > len(_DEVICES):
            raise UsageError(f"at most {len(_DEVICES)} disk types go on one instance")


class LaunchOption(Struct, frozen=True, kw_only=True):
    """An offer to try; `usd_per_hour` is an upper bound: the on-demand price, or a spot `MaxPrice`."""

    instance_type: str
    region: str
    zone: str
    subnet: str
    market: Market
    usd_per_hour: float

    def __str__(self) -> str:
        return f"{self.instance_type} {self.market} in {self.zone or self.region}"


class LaunchedMachine(Struct, frozen=True, kw_only=True):
    """One of our instances as EC2 describes it; times are aware, in UTC."""

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

    @property
    def lives(self) -> bool:
        """True if the instance is billed, or may be billed later."""
        return self.state in LIVE_STATES


def oldest_first(machines: Iterator[LaunchedMachine] | list[LaunchedMachine]) -> list[LaunchedMachine]:
    """The instances sorted by launch time and id, so that all controllers agree on the oldest."""
    return sorted(machines, key=lambda machine: (machine.launched_at, machine.id))


# Makes an instance's start script from its expiry and its launch option.
UserData = Callable[[datetime, LaunchOption], str]


class Region(Struct, frozen=True, kw_only=True):
    """A region to launch in, with the image and the network of the subnets."""

    name: str
    image: Image
    network: str


class Slot(Struct, frozen=True, kw_only=True):
    """The place of one instance in a sweep, with all that is needed to launch it. `regions` are by name, in
    the order in which they are tried."""

    sweep: Sweep
    name: str
    regions: Mapping[str, Region]
    user_data: UserData
