"""Preprocessing of article A1: photographs into an LMDB, read from each of its disks."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from msgspec import Struct

from advisor.domain import Resources
from advisor.errors import DataError
from advisor.sweeps.machine.mounts import block_device
from advisor.sweeps.machine.processes import busy_seconds, judge
from advisor.sweeps.trial.child import Worker, WorkerEnded, WorkerLate, started_worker
from advisor.sweeps.trial.limits.choosing import choose_limiter
from advisor.sweeps.trial.limits.types import ResourceLimits, request_for
from advisor.sweeps.trial.limits.usage import read_usage
from advisor.sweeps.trial.placement.taking import placed
from benchmarks.claims.scale import SCALE, CloudDisk
from benchmarks.claims.trials import AMPLE_MIB

_COMMAND = (sys.executable, "-P", "-m", "benchmarks.claims.conversion_worker")
_TIMEOUT_SECONDS = 300.0
_ATTEMPTS = 3


class ConversionJob(Struct, frozen=True, kw_only=True):
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
    """Convert cold under the disk's limits over SCALE. Reads are limited, writes are not.

    What neighbours spoiled is done again, twice at most, and told as `spoiled` then. Raises
    `DataError` when the converter dies.
    """
    for _ in range(_ATTEMPTS):
        answer = _attempt(job, source, target)
        if not answer["spoiled"]:
            break
    return answer


def _attempt(job: ConversionJob, source: Path, target: Path) -> dict[str, Any]:
    resources = Resources(
        vcpus=job.vcpus, physical_cores=job.vcpus, memory_mib=AMPLE_MIB, disk=job.disk.rate(SCALE)
    )
    with placed(job.vcpus) as placement:
        return _converted(job, source, target, resources, placement.cpus)


def _converted(
    job: ConversionJob, source: Path, target: Path, resources: Resources, cpus: tuple[int, ...]
) -> dict[str, Any]:
    request = request_for(resources, cpus, block_device(source))
    document = {"source": str(source), "target": str(target), "processes": job.processes}
    with choose_limiter(request).hold(request) as hold, started_worker(_COMMAND) as worker:
        hold.add(worker.pid)
        try:
            answer = _converse(worker, hold, document, cpus)
        except (WorkerEnded, WorkerLate) as error:
            raise DataError(f"conversion {job.key}: {worker.last_output()}") from error
    contention = judge(
        busy=answer.pop("busy_seconds"),
        own=answer["cpu_seconds"],
        wall_seconds=answer["wall_seconds"],
        cpus=len(cpus),
        vcpus=job.vcpus,
    )
    return {
        **answer,
        "disk": job.disk.name,
        "vcpus": job.vcpus,
        "processes": job.processes,
        "limited_by": hold.limited_by.value,
        "other_cores": contention.other_cores,
        "spoiled": contention.interfered,
    }


def _converse(
    worker: Worker, hold: ResourceLimits, document: dict[str, Any], cpus: tuple[int, ...]
) -> dict[str, Any]:
    """Job out, `ready` in, limits on, `go` out, answer in; with what was used meanwhile."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    worker.send(document)
    worker.receive(deadline)
    hold.limit_memory()
    hold.engage()
    start, busy = time.monotonic(), busy_seconds(cpus)
    before = read_usage(hold.usage_source(), worker.pid)
    worker.send("go")
    answer: dict[str, Any] = worker.receive(deadline)
    after = read_usage(hold.usage_source(), worker.pid)
    return {
        **answer,
        "wall_seconds": time.monotonic() - start,
        "busy_seconds": busy_seconds(cpus) - busy,
        "cpu_seconds": after.cpu_seconds - before.cpu_seconds,
        "read_bytes": (after.read_bytes or 0) - (before.read_bytes or 0),
    }
