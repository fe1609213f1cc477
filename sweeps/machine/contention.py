"""Whether neighbours spoiled a trial: what other processes took of its CPUs while it ran."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Below a tenth of a core, neighbours are the machine's own housekeeping.
_HOUSEKEEPING_CORES = 0.10
_TOLERATED_SHARE = 0.05
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # user nice system irq softirq steal


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """Cores in use on the trial's CPUs over the measured window, by the trial and by others."""

    own_cores: float
    other_cores: float
    cpus: int
    vcpus: float

    @property
    def interfered(self) -> bool:
        """Whether others took CPU time that the trial would have used.

        They did when they used more than a tenth of a core and 5 % of the trial's vCPUs, no
        idle time was left on its CPUs, and the trial did not get its full vCPUs.
        """
        limit = max(_HOUSEKEEPING_CORES, _TOLERATED_SHARE * self.vcpus)
        full = self.own_cores >= (1 - _TOLERATED_SHARE) * self.vcpus
        idle = self.own_cores + self.other_cores < (1 - _TOLERATED_SHARE) * self.cpus
        return self.other_cores > limit and not full and not idle


def busy_seconds(cpus: Iterable[int], stat: Path = Path("/proc/stat")) -> float:
    """Time that the CPUs were not idle since boot, what the hypervisor took included."""
    wanted = {f"cpu{cpu}" for cpu in cpus}
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for line in stat.read_text().splitlines():
        name, *fields = line.split()
        if name in wanted:
            total += sum(int(fields[index]) for index in _BUSY_FIELDS if index < len(fields))
    return total / ticks


def judge(*, busy: float, own: float, wall_seconds: float, cpus: int, vcpus: float) -> Contention:
    """The contention of a window in which `cpus` were busy and the trial's own part of it."""
    return Contention(
        own_cores=own / wall_seconds,
        other_cores=max(0.0, busy - own) / wall_seconds,
        cpus=cpus,
        vcpus=vcpus,
    )
