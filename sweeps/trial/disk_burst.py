"""Finds whether a trial read a mounted disk faster than its baseline, on burst credits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import MIB, DiskRate, InstanceType, Measurement, Stage
from advisor.errors import AdvisorError, UsageError
from advisor.sweeps.machine.environment import describe_disk, instance_type

if TYPE_CHECKING:
    from advisor.catalog.disks import DiskCatalog

RUN = "run"  # the end-to-end run in `above_baseline`; other names are stages
# Measured rates deviate a little from a volume's limit.
_TOLERATED = 1.02


# MiB read, in seconds, and the number of operations (None if nothing counts them).
Reads = tuple[float, float, float | None]


def disk_burst(
    disks: DiskCatalog,
    disk: DiskRate,
    size_gib: float,
    instance: InstanceType | None,
    reads: Mapping[str, Reads],
) -> dict[str, Any] | None:
    """The disk's baseline and burst, and the names of `reads` above the baseline.

    If a volume's rate depends on its size, the rate of the real size counts, else the provisioned one. None
    for a disk without burst, and for types that the catalogue does not know."""
    if disk.type not in disks.rules:
        return None
    volume, rule = disk, disks.rules[disk.type]
    if rule.provision_iops_max is None:
        try:
            volume = rule.rate(size_gib)
        except UsageError:  # a size that is not sold, so it is another disk
            return None
    burst = disks.burst_of(volume, size_gib, instance)
    if burst is None:
        return None
    lasting = disks.sustained_rate(volume, instance)

    def is_lent(read: Reads) -> bool:
        mib, seconds, operations = read
        rates = ((mib, lasting.read_mib_per_second), (operations or 0.0, lasting.read_iops))
        return any(most and amount / seconds > _TOLERATED * most for amount, most in rates)

    return {
        "baseline_mib_per_second": lasting.read_mib_per_second,
        "baseline_iops": lasting.read_iops,
        "burst_mib_per_second": burst.read_mib_per_second,
        "burst_iops": burst.read_iops,
        # How long a full bucket lasts; None if the instance's limit never empties it.
        "burst_seconds": burst.seconds if math.isfinite(burst.seconds) else None,
        "lent_by": list(burst.causes),
        "above_baseline": [name for name, read in reads.items() if is_lent(read)],
    }


def with_disk_burst(measurement: Measurement) -> Measurement:
    """The measurement, with `environment.disk_burst` if its disk is mounted and can burst."""
    if not measurement.trial.on_mounted_disk or not measurement.step_seconds:
        return measurement
    trial, burst = measurement.trial, None
    try:
        catalog, name = load_catalog(), instance_type()
        instance = catalog.instance(name) if name else None
        size_gib = describe_disk(Path(trial.dataset_path)).get("device_gib")
        if isinstance(size_gib, float):
            reads = _reads_of(measurement)
            burst = disk_burst(catalog.disks, trial.resources.disk, size_gib, instance, reads)
    except (AdvisorError, OSError):  # the disk was removed, or the catalogue cannot be read
        return measurement
    facts = {"disk_burst": burst} if burst else {}
    return replace(measurement, environment={**measurement.environment, **facts})


def _reads_of(measurement: Measurement) -> dict[str, Reads]:
    environment, burst = measurement.environment, dict[str, Reads]()
    if measurement.read_bytes is not None and measurement.wall_seconds:
        mib, operations = measurement.read_bytes / MIB, environment.get("read_operations")
        burst[RUN] = mib, measurement.wall_seconds, operations
    stage = environment.get("stage_runs", {}).get(Stage.STORAGE.value)
    if stage:
        seconds = stage["seconds"]
        burst[Stage.STORAGE.value] = stage["mib_per_second"] * seconds, seconds, stage.get("operations")
    return burst
