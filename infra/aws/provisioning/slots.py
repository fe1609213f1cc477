"""An instance that is wanted, and where it may be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from infra.aws.launch_options import Image, LaunchOption, Sweep

# What the guest is told: until when, on what.
UserData = Callable[[datetime, LaunchOption], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """What is launched into: an image, and the network of the subnets."""

    name: str
    image: Image
    network: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One instance of a sweep that is wanted, and all that has to be known to get it."""

    sweep: Sweep
    name: str
    regions: tuple[Region, ...]
    user_data: UserData

    @property
    def region_names(self) -> tuple[str, ...]:
        """Where the ladder leads, in its order."""
        return tuple(region.name for region in self.regions)

    def region(self, name: str) -> Region:
        """The region of that name."""
        return next(region for region in self.regions if region.name == name)
