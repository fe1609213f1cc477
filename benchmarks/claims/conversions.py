"""Preprocessing of article A1: photographs into an LMDB, read from each of its disks."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.domain import Resources
from benchmarks.claims.scale import SCALE, CloudDisk
from benchmarks.claims.trials import AMPLE_MIB
from sweeps.child import started_worker
from sweeps.limits.choosing import (
    allowed_cpus,
    block_device,
    choose_cpus,
    choose_limiter,
    read_cores,
)
from sweeps.limits.usage import read_usage
from sweeps.limits.words import request_for

_COMMAND = (sys.executable, "-P", "-m", "benchmarks.claims.conversion_worker")
_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionJob:
    """One conversion with so many vCPUs (times SCALE) and changing processes."""

    disk: CloudDisk
    vcpus: float
    processes: int
    run: int

    @property
    def key(self) -> str:
        """What a stored result is found by."""
        return f"{self.disk.name}/{self.vcpus:g}vcpus/{self.processes}processes/{self.run}"


def run_conversion(job: ConversionJob, source: Path, target: Path) -> dict[str, Any]:
    """Convert cold under the disk's limits over SCALE. Reads are limited, writes are not."""
    resources = Resources(
        vcpus=job.vcpus, physical_cores=job.vcpus, memory_mib=AMPLE_MIB,
        disk=job.disk.rate(SCALE),
    )  # fmt: skip
    cpus = choose_cpus(job.vcpus, read_cores(allowed_cpus()))
    request = request_for(resources, cpus, block_device(source))
    document = {"source": str(source), "target": str(target), "processes": job.processes}
    with choose_limiter(request).hold(request) as hold, started_worker(_COMMAND) as worker:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        hold.add(worker.pid)
        worker.send(document)
        worker.receive(deadline)
        hold.engage()
        before = read_usage(hold.usage_source(), worker.pid)
        worker.send("go")
        answer: dict[str, Any] = worker.receive(deadline)
        after = read_usage(hold.usage_source(), worker.pid)
    return {
        **answer,
        "disk": job.disk.name,
        "vcpus": job.vcpus,
        "processes": job.processes,
        "limited_by": hold.limited_by.value,
        "cpu_seconds": after.cpu_seconds - before.cpu_seconds,
        "read_bytes": (after.read_bytes or 0) - (before.read_bytes or 0),
    }
