"""Samples the resources of a session's processes every second; finds the steady part and the bottleneck."""

from __future__ import annotations

import itertools
import math
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from advisor.domain import MIB
from advisor.errors import MeasuringError
from advisor.sweeps.machine.environment import allowed_cpus, machine_size
from advisor.sweeps.machine.gpu import Facts, ThreadSampler, gpu_states
from advisor.sweeps.machine.processes import busy_seconds, stat_fields, waited_seconds

_EVERY_SECONDS = 1.0
FEWEST_SAMPLES = 10
# Indices of fields in /proc/PID/stat after the name (proc(5)).
_STATE, _SESSION, _USER, _SYSTEM, _STARTED = 0, 3, 11, 12, 19
_TICKS = os.sysconf("SC_CLK_TCK")
# Shares of use at which a resource is the bottleneck; for a disk, of samples in which a process waits for it.
_FULL, _WAITING = 0.9, 0.5
# The largest difference between the halves of the steady part.
_EVEN_WITHIN = 0.1
_RESERVE = 1.1
# What is counted for each process; the counts of bytes have their names in /proc/PID/io.
_COUNTED = ("cpu_seconds", "waited_seconds", "runnable_seconds", "read_bytes", "rchar", "write_bytes")
_NOTHING: Mapping[str, float] = dict.fromkeys(_COUNTED, 0.0)


class Sample(Struct, frozen=True, kw_only=True):
    """Totals of all processes of a session since it began, and their present memory and GPUs.

    `busiest` is the largest number of runnable seconds of one process since the previous sample,
    `machine_seconds` the time that this machine's CPUs were not idle. `is_blocked`: a process waits for a
    disk."""

    moment: float
    total: Mapping[str, float]
    busiest: float
    machine_seconds: float
    is_blocked: bool
    held_mib: float
    processes: int
    gpus: Sequence[Facts] = field(default_factory=list)


class UsageSampler(ThreadSampler):
    """Samples the processes of one session."""

    def __init__(self, session: int, every_seconds: float = _EVERY_SECONDS) -> None:
        self._session = session
        self._used: dict[tuple[int, str], Mapping[str, float]] = {}  # includes processes that have ended
        self.samples: list[Sample] = []
        super().__init__(every_seconds)

    def _run(self) -> None:
        while not self._ended.wait(self._every_seconds):
            if sample := self._sample():
                self.samples.append(sample)

    def _sample(self) -> Sample | None:
        moment, held, living, busiest, is_blocked = time.monotonic(), 0.0, 0, 0.0, False
        for pid in (int(entry.name) for entry in Path("/proc").glob("[0-9]*")):
            fields = stat_fields(pid)
            if not fields or int(fields[_SESSION]) != self._session or fields[_STATE] == "Z":
                continue
            living += 1
            held += _memory_mib(pid)
            process = pid, fields[_STARTED]
            before = self._used.get(process, _NOTHING)
            now = self._used[process] = _used(pid, fields)
            busiest = max(busiest, now["runnable_seconds"] - before["runnable_seconds"])
            is_blocked = is_blocked or fields[_STATE] == "D"
        gpus = self._gpus()
        if not living:
            return None
        return Sample(
            moment=moment,
            total={name: sum(used[name] for used in self._used.values()) for name in _NOTHING},
            busiest=busiest,
            machine_seconds=busy_seconds(allowed_cpus()),
            is_blocked=is_blocked,
            held_mib=held,
            processes=living,
            gpus=gpus,
        )

    def _gpus(self) -> list[Facts]:
        with suppress(MeasuringError):  # no driver, or no package for it
            return [state for state in gpu_states(self._session) if state["own_memory_mib"]]
        return []


def _used(pid: int, fields: Sequence[str]) -> dict[str, float]:
    """Seconds and bytes that a process has used since it began."""
    used = dict(_NOTHING)
    with suppress(OSError, ValueError):
        lines = (line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        used |= {name: int(value) for name, value in lines if name in _NOTHING}
    cpu, waited = (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS, waited_seconds([pid]) or 0.0
    return used | {"cpu_seconds": cpu, "waited_seconds": waited, "runnable_seconds": cpu + waited}


def _memory_mib(pid: int) -> float:
    """The process's share of memory that is not page cache."""
    kib = 0
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                kib += int(line.split()[1])
    return kib / 1024


def usage_of(samples: Sequence[Sample], samples_per_second: float | None = None) -> dict[str, Any]:
    """The part `usage` of an anchor: means of the steady part, peaks of memory, the bottleneck, and the
    resources that a machine needs for the same rate. Raises `MeasuringError` for too few samples."""
    if len(samples) < FEWEST_SAMPLES:
        raise MeasuringError(
            f"the script was sampled {len(samples)} times, too few to tell what it needs",
            hint="let it run longer",
        )
    cores = _rates(samples, "cpu_seconds")
    first = _steady_start(cores)
    steady, size = samples[first or len(samples) // 2 :], machine_size()
    seconds = steady[-1].moment - steady[0].moment

    def rate(name: str) -> float:
        return (steady[-1].total[name] - steady[0].total[name]) / seconds

    own, gpus = rate("cpu_seconds"), _gpu_usage(steady)
    usage: dict[str, Any] = {
        "seconds": round(seconds, 1),
        "is_steady": first is not None,
        "cores": own,
        "waited_cores": rate("waited_seconds"),
        "other_cores": max(0.0, (steady[-1].machine_seconds - steady[0].machine_seconds) / seconds - own),
        "cores_here": size.vcpus,
        "busiest_process_cores": sum(sample.busiest for sample in steady[1:]) / seconds,
        "blocked_share": statistics.fmean(sample.is_blocked for sample in steady),
        "processes": max(sample.processes for sample in steady),
        "memory_mib": max(sample.held_mib for sample in samples),
        "memory_mib_here": size.memory_mib,
        "disk_read_mib_per_second": rate("read_bytes") / MIB,
        "read_mib_per_second": rate("rchar") / MIB,
        "written_mib_per_second": rate("write_bytes") / MIB,
        "samples_per_second": samples_per_second,
        "gpus": gpus,
    }
    needed = min(size.vcpus, statistics.quantiles(_rates(steady, "runnable_seconds"), n=20)[-1])
    needs = {
        "vcpus": max(1, math.ceil(needed - 0.05)),
        "memory_mib": math.ceil(_RESERVE * usage["memory_mib"]),
        "disk_mib_per_second": usage["disk_read_mib_per_second"],
        "gpus": len(gpus),
        "gpu_memory_mib": max((math.ceil(_RESERVE * gpu["memory_mib"]) for gpu in gpus), default=0),
    }
    return usage | {"bound_by": _bound_by(usage), "needs": needs}


def _gpu_usage(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    states = [state for sample in samples for state in sample.gpus]
    return [
        {
            "uuid": uuid,
            "utilization_percent": statistics.fmean(own["utilization_percent"] or 0 for own in each),
            "memory_mib": max(own["own_memory_mib"] for own in each),
        }
        for uuid in dict.fromkeys(state["uuid"] for state in states)
        if (each := [state for state in states if state["uuid"] == uuid])
    ]


def _bound_by(usage: dict[str, Any]) -> str:
    """The bottleneck: `gpu`, `cpu`, `one_process`, `memory`, `disk` or `nothing_sampled` (asleep, network,
    lock)."""
    if any(gpu["utilization_percent"] >= 100 * _FULL for gpu in usage["gpus"]):
        return "gpu"
    if usage["cores"] + usage["waited_cores"] >= _FULL * usage["cores_here"]:
        return "cpu"
    if usage["memory_mib"] >= _FULL * usage["memory_mib_here"]:
        return "memory"
    if usage["blocked_share"] >= _WAITING:
        return "disk"
    return "one_process" if usage["busiest_process_cores"] >= _FULL else "nothing_sampled"


def _rates(samples: Sequence[Sample], name: str) -> list[float]:
    return [
        (after.total[name] - before.total[name]) / (after.moment - before.moment)
        for before, after in itertools.pairwise(samples)
    ]


def _steady_start(rates: Sequence[float]) -> int | None:
    """The first sample of the longest tail whose two halves agree; None if that is less than half of all."""
    for first in range(len(rates) // 2 + 1):
        rest = rates[first:]
        early, late = (statistics.fmean(part) for part in (rest[: len(rest) // 2], rest[len(rest) // 2 :]))
        if abs(early - late) <= _EVEN_WITHIN * max(early, late, 0.1):
            return first
    return None
