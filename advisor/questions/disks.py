"""The disk of a question: one disk that is fixed, or types among which the advisor chooses."""

from __future__ import annotations

from typing import Any

from advisor.catalog import Catalog
from advisor.catalog.local_disks import LOCAL
from advisor.domain import DatasetProfile, DiskChoice
from advisor.errors import UsageError, unknown_name

# The instance's own disk, whatever a cloud calls it.
OWN = "local"


def disk_answers(
    catalog: Catalog, cloud: str, text: str | None, dataset: DatasetProfile
) -> dict[str, Any]:
    """The fields `disk` or `disk_types` of a `Request`; none where nothing is asked."""
    if not text:
        return {}
    if "," in text or text.lower() == OWN:
        return {"disk_types": _types(catalog, cloud, text)}
    return {"disk": _choice(catalog, cloud, text, dataset)}


def _types(catalog: Catalog, cloud: str, text: str) -> tuple[str, ...]:
    known = {name for one in _clouds(catalog, cloud) for name in catalog.disks_of(one).types}
    names = [part.strip().lower() for part in text.split(",") if part.strip()]
    for name in names:
        if ":" in name:
            raise UsageError(
                f"--disk {text}: among several types the advisor chooses the order; name types "
                "alone (gp3,io2), or one disk"
            )
        if name not in known and name != OWN:
            raise unknown_name("disk type", name, {*known, OWN})
    if not names:
        raise UsageError("--disk takes a disk (gp3:500GiB) or types to choose among (gp3,io2)")
    return tuple(dict.fromkeys(LOCAL if name == OWN else name for name in names))


def _choice(catalog: Catalog, cloud: str, text: str, dataset: DatasetProfile) -> DiskChoice:
    name = text.partition(":")[0].strip().lower()
    clouds = _clouds(catalog, cloud)
    home = [one for one in clouds if name in catalog.disks_of(one).types] or [*clouds, "aws"]
    choice = catalog.disks_of(home[0]).parse_choice(text)
    needed_gib = dataset.total_mib / 1024
    if choice.size_gib is not None and choice.size_gib < needed_gib:
        raise UsageError(
            f"--disk {text} cannot hold {dataset.name}, which has {needed_gib:.3g}GiB; name a "
            "larger size, or none"
        )
    return choice


def _clouds(catalog: Catalog, cloud: str) -> list[str]:
    """The clouds asked about whose disks are known."""
    return [one for one in catalog.disk_clouds if cloud in ("any", one)]
