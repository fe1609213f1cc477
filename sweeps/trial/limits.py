"""The limits of a trial: the interface of all mechanisms that hold them, those without cgroups, and the
resources that a trial has used, from its cgroup or its process tree."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from typing import Any, Self, TypeVar

from msgspec import Struct, field

from advisor.domain import MIB, LimitedBy, Resources
from advisor.errors import MeasuringError
from advisor.sweeps.machine.environment import machine_size
from advisor.sweeps.machine.processes import pressure, stat_fields, waited_seconds


def remove_group(group: Path, *, patience_seconds: float = 10.0) -> None:
    """Kill the group's processes and remove it. Raises `MeasuringError` if it cannot be removed."""
    deadline = time.monotonic() + patience_seconds
    while group.exists():
        for pid in pids_of(group):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except PermissionError:
            raise
        except OSError as error:
            if time.monotonic() > deadline:
                raise MeasuringError(f"cannot remove the cgroup {group}: {error}") from error
            time.sleep(0.02)


def pids_of(group: Path) -> list[int]:
    """The processes in a group, without 0, which `kill` would take for our whole process group."""
    try:
        pids = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []
    return [pid for pid in pids if pid > 0]


PROCESS_TREE = "process-tree"
Total = TypeVar("Total", int, float)


class Usage(Struct, frozen=True, kw_only=True):
    """Totals since the trial's group was made (or its process started).

    `anonymous_memory_mib` is the present private and shared memory of the processes. `waited_seconds` is how
    long the present processes have waited for a CPU, `throttled_seconds` the part because of the group's
    quota. `pressure` is that of the group if it has one, else of the machine."""

    cpu_seconds: float
    anonymous_memory_mib: float | None = None
    read_bytes: int | None = None
    read_operations: int | None = None
    waited_seconds: float | None = None
    throttled_seconds: float = 0.0
    pressure: Mapping[str, float] = field(default_factory=dict)

    def since(self, before: Usage) -> Usage:
        """The usage since an earlier one; its `waited_seconds` exclude waits for the group's quota."""
        waited = grown(before.waited_seconds, self.waited_seconds)
        throttled = self.throttled_seconds - before.throttled_seconds
        earlier = before.pressure
        return Usage(
            cpu_seconds=self.cpu_seconds - before.cpu_seconds,
            anonymous_memory_mib=self.anonymous_memory_mib,
            read_bytes=grown(before.read_bytes, self.read_bytes),
            read_operations=grown(before.read_operations, self.read_operations),
            waited_seconds=None if waited is None else max(0.0, waited - throttled),
            throttled_seconds=throttled,
            pressure={name: some - earlier[name] for name, some in self.pressure.items() if name in earlier},
        )


class MemoryPeak:
    """The peak memory, including page cache, of the group in a `usage_source()` since this object was made.
    The group's total peak would include loading, before the limit was on.

    Writing to the file resets the peak: in version 1 for all readers, in version 2 from Linux 6.12 for reads
    of the same open file. Without write permission there is no peak. Kernel documentation:
    cgroup-v1/memory.rst (max_usage_in_bytes), admin-guide/cgroup-v2.rst (memory.peak)."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        self._file: FileIO | None = None
        path = None
        if source.get("kind") == LimitedBy.CGROUP_V1:
            path = Path(source["groups"]["memory"]) / "memory.max_usage_in_bytes"
        elif source.get("kind") == LimitedBy.CGROUP_V2:
            path = Path(source["group"]) / "memory.peak"
        if path:
            with suppress(OSError), ExitStack() as stack:
                file = stack.enter_context(FileIO(path, "r+"))
                file.write(b"0")
                self._file = file
                stack.pop_all()

    def read(self) -> float | None:
        """The peak in MiB; call it once. None if the kernel has no peak that can be reset."""
        if self._file is None:
            return None
        with self._file as file:
            file.seek(0)
            return int(file.read()) / MIB


def read_usage(source: Mapping[str, Any], pid: int | None = None) -> Usage:
    """The usage from a `usage_source()`; `pid` is the root of a process tree (default: this process)."""
    kind = source.get("kind")
    if kind == LimitedBy.CGROUP_V1:
        groups = {name: Path(path) for name, path in source["groups"].items()}
        memory = read_fields(groups["memory"] / "memory.stat")
        return Usage(
            cpu_seconds=int((groups["cpuacct"] / "cpuacct.usage").read_text()) / 1e9,
            anonymous_memory_mib=(int(memory.get("total_rss", 0)) + int(memory.get("total_shmem", 0))) / MIB,
            read_bytes=_v1_reads(groups["blkio"] / "blkio.throttle.io_service_bytes"),
            read_operations=_v1_reads(groups["blkio"] / "blkio.throttle.io_serviced"),
            waited_seconds=waited_seconds(pids_of(groups["cpuacct"])),
            throttled_seconds=_field(groups.get("cpu"), "throttled_time") / 1e9,
            pressure=pressure(),
        )
    if kind == LimitedBy.CGROUP_V2:
        group = Path(source["group"])
        memory = read_fields(group / "memory.stat")
        return Usage(
            cpu_seconds=int(read_fields(group / "cpu.stat")["usage_usec"]) / 1e6,
            anonymous_memory_mib=(int(memory.get("anon", 0)) + int(memory.get("shmem", 0))) / MIB,
            read_bytes=_v2_reads(group / "io.stat", "rbytes="),
            read_operations=_v2_reads(group / "io.stat", "rios="),
            waited_seconds=waited_seconds(pids_of(group)),
            throttled_seconds=_field(group, "throttled_usec") / 1e6,
            pressure=pressure(group, ".pressure") or pressure(),
        )
    processes = {int(entry.name): stat_fields(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")}
    tree = [pid or os.getpid()]
    for parent in tree:
        tree += [child for child, fields in processes.items() if fields and int(fields[1]) == parent]
    known = [fields for member in tree if (fields := processes.get(member))]
    # utime and stime, and those of ended children.
    ticks = sum(int(fields[index]) for fields in known for index in (11, 12, 13, 14))
    resident = sum(int(fields[21]) for fields in known) * os.sysconf("SC_PAGE_SIZE")
    return Usage(
        cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"),
        anonymous_memory_mib=resident / MIB,
        waited_seconds=waited_seconds(tree),
        pressure=pressure(),
    )


def _field(group: Path | None, name: str) -> int:
    """A number in the group's cpu.stat; 0 if it is missing."""
    with suppress(OSError):
        return int(read_fields(group / "cpu.stat").get(name, 0)) if group else 0
    return 0


def grown(before: Total | None, after: Total | None) -> Total | None:
    """The growth of a total; None if it is not counted."""
    return None if before is None or after is None else after - before


def read_fields(path: Path) -> dict[str, str]:
    """The fields of a kernel file with 'key value' lines."""
    lines = (line.split(maxsplit=1) for line in path.read_text().splitlines())
    return {line[0]: line[1] for line in lines if len(line) == 2}


def _v1_reads(path: Path) -> int:
    """The sum over devices in lines 'MAJOR:MINOR Read NUMBER'."""
    rows = (line.split() for line in path.read_text().splitlines())
    return sum(int(row[2]) for row in rows if len(row) == 3 and row[1] == "Read")


def _v2_reads(path: Path, key: str) -> int | None:
    """The sum of `key` in lines 'MAJOR:MINOR rbytes=N rios=N ..'; None without the io controller."""
    if not path.exists():
        return None
    fields = path.read_text().split()
    return sum(int(word.removeprefix(key)) for word in fields if word.startswith(key))


_ALL_MEMORY_SHARE = 0.9


class LimitRequest(Struct, frozen=True, kw_only=True):
    """The resources that one trial may use. `memory_mib` includes page cache. `device` is the MAJOR:MINOR of
    the data set's block device (None: unknown). A rate of None means no limit. `processes` is the number of
    computing processes, each with a GPU."""

    vcpus: float
    memory_mib: float
    cpus: tuple[int, ...]
    read_mib_per_second: float | None = None
    read_iops: float | None = None
    device: str | None = None
    processes: int = 1

    @property
    def is_fraction(self) -> bool:
        """True if a quota has to limit the time on the CPUs."""
        return self.vcpus < len(self.cpus)

    @property
    def limits_disk(self) -> bool:
        """True if the disk's rate or IOPS are limited."""
        return self.read_mib_per_second is not None or self.read_iops is not None

    @property
    def wants_whole_machine(self) -> bool:
        """True if it is for all CPUs (or a container's quota), 90 % of the memory, and an unlimited disk."""
        size = machine_size()
        whole = self.vcpus == size.vcpus and self.memory_mib >= _ALL_MEMORY_SHARE * size.memory_mib
        return whole and not self.limits_disk


def request_for(resources: Resources, cpus: tuple[int, ...], device: str | None) -> LimitRequest:
    """The request that limits `cpus` and a device to `resources`."""
    return LimitRequest(
        vcpus=resources.vcpus,
        memory_mib=resources.memory_mib,
        cpus=cpus,
        read_mib_per_second=resources.disk.read_mib_per_second,
        read_iops=resources.disk.read_iops,
        device=device,
        processes=resources.gpu_count,
    )


# Mechanisms that hold a limit: the trial's cgroup, CPU affinity, RLIMIT_DATA (private memory only), or the
# size of the machine.
GROUP, AFFINITY, RLIMIT, MACHINE = "cgroup", "affinity", "rlimit", "machine"
# The mechanism for `vcpus`, `memory` and, if it is limited, `disk`; None: not held.
Held = dict[str, str | None]


class ResourceLimits:
    """Limits on the processes of one trial inside a `with` block. This base class holds no limit, and the
    measurement records that.

    Rules: `add` comes first, and counts the use of a process and all its later children. Libraries and
    network are loaded without a limit. `limit_memory` then reclaims their page cache that does not fit; it
    must come before the data set is read, since the kernel keeps mapped libraries and drops data that was
    read once. `engage` switches the CPU and disk limits on. All may raise OSError, `limit_memory` also
    `MemoryError` (if more is in use than the limit); then nothing is held. No group and no process is left
    after the block."""

    means = LimitedBy.NONE

    def __init__(self, request: LimitRequest) -> None:
        self._request = request

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Do nothing: no group was made."""

    @property
    def held(self) -> Held:
        """The mechanism that holds each limit of the request."""
        return {"vcpus": None, "memory": None}

    @property
    def limited_by(self) -> LimitedBy:
        """The mechanism that holds the limits of the request; `none` if any limit is not held."""
        return LimitedBy.NONE if None in self.held.values() else self.means

    def add(self, pid: int) -> None:
        """Apply the limits to a process and its future children."""

    def limit_memory(self) -> None:
        """Switch the memory limit on."""

    def engage(self) -> None:
        """Switch the CPU and disk limits on."""

    def usage_source(self) -> Mapping[str, Any]:
        """The source from which `usage.read_usage` reads the usage of held processes."""
        return {"kind": PROCESS_TREE}

    def killed_for_memory(self) -> bool:
        """True if the kernel killed a held process for exceeding the memory limit."""
        return False


class Affinity(ResourceLimits):
    """Holds whole vCPUs by CPU affinity and private memory by RLIMIT_DATA, which end with the process.

    Page cache is not limited. With a disk rate, a fraction of a vCPU, several computing processes (whose use
    nothing adds up), or a process that has mapped more memory than its limit, `limited_by` is `none`, and the
    measurement is never fitted."""

    means = LimitedBy.AFFINITY

    def __init__(self, request: LimitRequest) -> None:
        super().__init__(request)
        self._pids: list[int] = []
        self._bears_rlimit = request.processes == 1

    @property
    def held(self) -> Held:
        """What holds each limit; a fraction of a CPU is held only if it is the container's quota."""
        request = self._request
        whole = not request.is_fraction or request.vcpus == machine_size().vcpus
        held: Held = {"vcpus": AFFINITY if whole else None, "memory": RLIMIT if self._bears_rlimit else None}
        return held | {"disk": None} if request.limits_disk else held

    def add(self, pid: int) -> None:
        """Pin the process, before it starts threads, which inherit the affinity."""
        self._pids.append(pid)
        os.sched_setaffinity(pid, self._request.cpus)

    def limit_memory(self) -> None:
        """Limit the private memory of the processes and their later children; beyond it allocations fail.

        The kernel compares RLIMIT_DATA with mapped memory, used or not. If a process has already mapped more
        than the limit, its next allocation would fail whatever it uses, so no limit is set."""
        memory_mib = self._request.memory_mib
        size = int(memory_mib * MIB)
        for pid in self._pids:
            status = read_fields(Path(f"/proc/{pid}/status"))
            if _mib(status, "RssAnon:") > memory_mib:
                raise MemoryError(f"more is in use than its limit of {memory_mib:g} MiB")
            if _mib(status, "VmData:") < memory_mib:
                resource.prlimit(pid, resource.RLIMIT_DATA, (size, size))
            else:
                self._bears_rlimit = False


def _mib(status: Mapping[str, str], name: str) -> float:
    """The MiB in a field like '1234 kB'; 0 for a process that has ended."""
    return int(status.get(name, "0 kB").split()[0]) / 1024


class WholeMachine(ResourceLimits):
    """No limits, for trials that request the whole machine. Under a container's quota the process is pinned:
    eight vCPUs are eight hardware threads, not a twelfth of 96."""

    means = LimitedBy.HOST

    @property
    def held(self) -> Held:
        """The machine holds all limits."""
        return {"vcpus": MACHINE, "memory": MACHINE}

    def add(self, pid: int) -> None:
        """Pin the process if the request has CPUs."""
        if self._request.cpus:
            os.sched_setaffinity(pid, self._request.cpus)
