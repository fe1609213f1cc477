"""Seconds until an engine serves: reading the weights from a disk, and the engine's own start.

Fitted on Run:ai's benchmark (infra/language_sources/model_loads.csv: 15 GB to an A10G from two EBS
disks): a load is as long as its bytes over the slowest of the disk, of the streams that read at
once, and of what one GPU's process takes in. Not counted: renting the machine, booting it and
pulling the container image.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from models.language.bounds import Bounds, Floats

# MiB/s of one stream of reads from a network disk (300 from gp3, 327 from io2), and the share of a
# disk's rate that several reach.
_STREAM_MIB_PER_SECOND, _DISK_SHARE = 312.0, 0.97
# MiB/s that the process of one GPU takes in.
_PROCESS_MIB_PER_SECOND = 1900.0
# Several times that many streams change nothing more (14.3 s with 16, 14.4 s with 4).
STREAMS = 16
# Loads lay within this of the formula: 23 % for one of 21 rows, 15 % for the others.
_LOAD_DOUBT = 0.15
# vLLM 0.5.5 on an A10G, start to ready less the load: 15.7 to 20.8 s. Since 0.6 engines compile
# kernels at their first start: vLLM 0.20 had read 15 GB and was ready 131 s after its container
# began (ree2raz/inference-bench, A100-40GB), which is the most that a start is taken to last.
_START_SECONDS = (15.7, 20.0, 110.0)


class Loader(StrEnum):
    """How weights are read: with one stream as files are mapped into memory, what engines do unless
    told otherwise, or with several at once (vLLM's `--load-format runai_streamer`)."""

    MAPPED = "mapped"
    STREAMED = "streamed"


class ReadySeconds(NamedTuple):
    """Columns of seconds, each (n,): reading the weights, the engine's start, and both."""

    load: Bounds
    start: Bounds

    @property
    def total(self) -> Bounds:
        """One after the other; the bounds as if both went badly, or well."""
        return Bounds(*(load + start for load, start in zip(self.load, self.start, strict=True)))


def load_seconds(
    weights_gib: Floats | float, disk_mib_per_second: Floats | float,
    gpus: Floats | float = 1, loader: Loader = Loader.STREAMED, local: bool = False,
) -> Bounds:  # fmt: skip
    """Seconds to read weights that `gpus` processes share, from a disk of a sustained rate.

    `disk_mib_per_second` is the lower of the volume's and the instance's limit, inf where nobody
    limits it. Mapped files are read by one stream, which the processes of several GPUs at best
    multiply. One stream of a `local` disk is held up less; how fast it is was not measured, so that
    the lower bound has the disk's whole rate.
    """
    mib = np.atleast_1d(np.asarray(weights_gib, dtype=float)) * 1024
    gpus = np.asarray(gpus, dtype=float)
    disk = np.asarray(disk_mib_per_second, dtype=float) * _DISK_SHARE
    most = np.minimum(disk, _PROCESS_MIB_PER_SECOND * gpus)
    if loader == Loader.STREAMED:
        median = best = mib / np.minimum(most, STREAMS * _STREAM_MIB_PER_SECOND * gpus)
    else:
        median = mib / np.minimum(most, _STREAM_MIB_PER_SECOND)
        best = mib / np.minimum(most, np.inf if local else _STREAM_MIB_PER_SECOND * gpus)
    return Bounds(best * (1 - _LOAD_DOUBT), median, median * (1 + _LOAD_DOUBT))


def ready_seconds(
    weights_gib: Floats | float, disk_mib_per_second: Floats | float,
    gpus: Floats | float = 1, loader: Loader = Loader.STREAMED, local: bool = False,
) -> ReadySeconds:  # fmt: skip
    """Seconds from the engine's start to its first answer; arguments as of `load_seconds`."""
    load = load_seconds(weights_gib, disk_mib_per_second, gpus, loader, local)
    each = np.ones_like(load.median)
    return ReadySeconds(load, Bounds(*(seconds * each for seconds in _START_SECONDS)))
