"""A P100 with 8 vCPUs on two cores: accelerator and disk slowed by one factor.

The emulated accelerator takes `SCALE` times as long for a step as the published rates say, and a
disk gives a `SCALE`th of its documented rate and operations. Then a trial with c vCPUs stands for
`SCALE` x c vCPUs beside the real accelerator and disk: every stage's rate is divided by the
same factor, so ratios of rates and knees stay. It assumes that the host's rate grows in
proportion to its vCPUs up to 8; a real machine's grows somewhat less.
"""

from __future__ import annotations

import csv

from msgspec import Struct

from advisor.domain import Accelerator, AcceleratorKind, DiskRate, Task, Workload
from advisor.runs.sweeps.sweeping import step_seconds
from benchmarks.claims.words import DATA, published_points

SCALE = 4
GPU = "P100"
P100_GB_PER_SECOND = 732.0
LSTM = "lstm_ptb_small"
LSTM_BATCH = 20
_MIB = 2**20
# Forward of three: a training step is forward, and twice as much backward.
_FORWARD_SHARE = 1 / 3


class CloudDisk(Struct, frozen=True, kw_only=True):
    """A disk type of the article with its documented limits; None: none is published."""

    name: str
    article_name: str
    read_mb_per_second: float | None
    read_iops: float | None
    latency_ms: float

    def rate(self, scale: int) -> DiskRate:
        """Its limits over `scale`."""
        rate, iops = self.read_mb_per_second, self.read_iops
        return DiskRate(
            type=self.name if scale == 1 else f"{self.name}/{scale}",
            read_mib_per_second=rate * 1e6 / _MIB / scale if rate else None,
            read_iops=round(iops / scale) if iops else None,
        )


def cloud_disks() -> dict[str, CloudDisk]:
    """The three disks of article A1 by name, fastest first."""
    with (DATA / "alibaba_disks.csv").open(newline="") as file:
        return {row["name"]: _cloud_disk(row) for row in csv.DictReader(file)}


def accelerator(scale: int) -> Accelerator:
    """Its name says the scale, so that a slowed one never passes for a P100."""
    return Accelerator(kind=AcceleratorKind.EMULATED, gpu=GPU if scale == 1 else f"{GPU}/{scale}")


def paced(workload: Workload, gpu: str) -> float:
    """Seconds of a step: published for the P100, times the scale in the accelerator's name."""
    scale = int(gpu.partition("/")[2] or 1)
    if workload.network == LSTM:
        return scale * lstm_step_seconds(workload.task)
    return scale * step_seconds(workload, GPU)


def lstm_step_seconds(task: Task) -> float:
    """Of the 2 x 200 LSTM, batch 20, 20 words: the published step of a GTX 1070, shortened by the
    ratio of memory bandwidths. That is the least a P100 could take, and so asks the most of
    the host: no published rate of this network on a P100 is at hand."""
    points = published_points()
    ratio = points["gtx1070_gb_per_second"] / P100_GB_PER_SECOND
    training = points["lstm_gtx1070_step_ms"] / 1e3 * ratio
    return float(f"{training if task is Task.TRAINING else training * _FORWARD_SHARE:.4g}")


def _cloud_disk(row: dict[str, str]) -> CloudDisk:
    rate, iops = row["read_mb_per_second"], row["read_iops"]
    return CloudDisk(
        name=row["name"],
        article_name=row["article_name"],
        read_mb_per_second=float(rate) if rate else None,
        read_iops=float(iops) if iops else None,
        latency_ms=float(row["latency_ms"]),
    )
