"""Seconds until an engine serves: reading the weights from a disk, and the engine's own start.

Fitted on Run:ai's benchmark (infra/build/language_sources/model_loads.csv: 15 GB to an A10G from two EBS
disks): a load is as long as its bytes over the slowest of the disk, of the streams that read at
once, and of what one GPU's process takes in. Not counted: renting the machine, booting it and
pulling the container image.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

# MiB/s of one stream of reads from a network disk (300 from gp3, 327 from io2), and the share of a
# disk's rate that several reach.
_STREAM_MIB_PER_SECOND, DISK_SHARE = 312.0, 0.97
# MiB/s that the process of one GPU takes in.
PROCESS_MIB_PER_SECOND = 1900.0
# Several times that many streams change nothing more (14.3 s with 16, 14.4 s with 4).
STREAMS = 16
# Loads lay within this of the formula: 23 % for one of 21 rows, 15 % for the others.
_LOAD_DOUBT = 0.15


class Loader(StrEnum):
    """How weights are read: with one stream as files are mapped into memory, what engines do unless
    told otherwise, or with several at once (vLLM's `--load-format runai_streamer`)."""

    MAPPED = "mapped"
    STREAMED = "streamed"


class Seconds(NamedTuple):
    """Lower bound, median and upper bound."""

    lower: float
    median: float
    upper: float

    def plus(self, other: Seconds) -> Seconds:
        """One after the other; the bounds as if both went well, or badly."""
        return Seconds(*(one + more for one, more in zip(self, other, strict=True)))


# vLLM 0.5.5 on an A10G, start to ready less the load: 15.7 to 20.8 s. Since 0.6 engines compile
# kernels at their first start: vLLM 0.20 had read 15 GB and was ready 131 s after its container
# began (ree2raz/inference-bench, A100-40GB), which is the most that a start is taken to last.
START = Seconds(15.7, 20.0, 110.0)


def load_seconds(
    weights_mib: float,
    disk_mib_per_second: float = math.inf,
    gpus: int = 1,
    loader: Loader = Loader.STREAMED,
    *,
    local: bool = False,
) -> Seconds:
    """Seconds to read weights that the processes of `gpus` GPUs share.

    `disk_mib_per_second` is the lower of the volume's and the instance's sustained limit. Mapped
    files are read by one stream, which the processes of several GPUs at best multiply. One stream
    of a `local` disk is held up less; how fast it is was not measured, so that the lower bound has
    the disk's whole rate.
    """
    most = min(disk_mib_per_second * DISK_SHARE, PROCESS_MIB_PER_SECOND * gpus)
    if loader == Loader.STREAMED:
        usual = best = min(most, STREAMS * _STREAM_MIB_PER_SECOND * gpus)
    else:
        usual = min(most, _STREAM_MIB_PER_SECOND)
        best = most if local else min(most, _STREAM_MIB_PER_SECOND * gpus)
    median = weights_mib / usual
    return Seconds(weights_mib / best * (1 - _LOAD_DOUBT), median, median * (1 + _LOAD_DOUBT))


def ready_seconds(
    weights_mib: float,
    disk_mib_per_second: float = math.inf,
    gpus: int = 1,
    loader: Loader = Loader.STREAMED,
    *,
    local: bool = False,
) -> Seconds:
    """Seconds from the engine's start to its first answer; arguments as of `load_seconds`."""
    return load_seconds(weights_mib, disk_mib_per_second, gpus, loader, local=local).plus(START)
