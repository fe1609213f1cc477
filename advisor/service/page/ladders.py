"""What the sliders offer: vCPUs, RAM and disks around what an instance has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from advisor.render.i18n.catalogue import Texts
from advisor.service.page.specs import LOCAL
from advisor.units import format_mib

VCPUS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
MEMORY_GIB = (2, 4, 8, 16, 32, 64, 128, 256, 512)
# Rates of AWS's general volume that are priced apart: its least, its usual steps, its most.
GP3_RATES = ("", ":4000iops:250MiB/s", ":6000iops:500MiB/s", ":16000iops:1000MiB/s")
# Of the other clouds the types themselves, slow ones first.
TYPES = {
    "gcp": ("pd-standard", "pd-balanced", "pd-ssd"),
    "alibaba": ("cloud_ssd", "cloud_essd_pl1"),
}
_MIB = 1024


class Step(NamedTuple):
    """One place of a slider: what is sent ('' is as it is), what is told, and what is predicted."""

    value: str
    text: str
    point: object


def vcpu_steps(real: int, t: Texts) -> list[Step]:
    """Whole vCPUs, the instance's own among them, up to four times as many."""
    counts = sorted({*(count for count in VCPUS if count <= 4 * real), real})
    return [_step(str(at), str(at), at, at == real, t) for at in counts]


def memory_steps(real_mib: float, t: Texts) -> list[Step]:
    """Sizes of RAM, the instance's own among them, up to four times as much."""
    sizes = {gib * _MIB for gib in MEMORY_GIB if gib * _MIB <= 4 * real_mib} | {real_mib}
    return [
        _step(f"{mib / _MIB:g}GiB", format_mib(mib), mib, mib == real_mib, t)
        for mib in sorted(sizes)
    ]


def disk_steps(cloud: str, disk: Mapping[str, Any], asked: str | None, t: Texts) -> list[Step]:
    """Disks of the cloud, the one that is asked about among them; orders as `--disk` takes them.

    Without a disk in the question the advisor's own choice stands there, as ''.
    """
    chosen = "local" if disk["type"] == LOCAL else str(disk["order"])
    own = asked or ""
    orders = [f"gp3{rates}" for rates in GP3_RATES] if cloud == "aws" else TYPES.get(cloud, ())
    found = [own, *(one for one in orders if one != own)]
    return [Step(one, _disk_told(one or chosen, t), one) for one in dict.fromkeys(found)]


def _disk_told(order: str, t: Texts) -> str:
    return t("disk.local") if order == "local" else order.replace(":", " ")


def _step(value: str, text: str, point: object, is_real: bool, t: Texts) -> Step:
    """What is as it is needs no word in the address."""
    return Step("", t("what_if.real", value=text), point) if is_real else Step(value, text, point)
