"""Facts of a machine that decide whether two measurements may be compared: CPUs, memory, disks, cgroups.

Kernel documentation: admin-guide/cgroup-v2.rst (cpu.max, memory.max), scheduler/sched-bwc.rst and
cgroup-v1/memory.rst. Cpusets are not read, since they already narrow the affinity of their processes."""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec import Struct

from advisor.domain import MIB, Cpu

_MOUNTINFO = Path("/proc/self/mountinfo")
MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})


class Mount(Struct, frozen=True):
    """One line of /proc/self/mountinfo: `root` of the `device` (MAJOR:MINOR) is mounted at `point`."""

    device: str
    root: str
    point: Path
    kind: str
    source: str
    options: str


def mounts_here(mountinfo: Path = _MOUNTINFO) -> list[Mount]:
    """The mounts of this mount namespace; empty if the system does not list them."""
    return parse_mountinfo(text_of(mountinfo))


def parse_mountinfo(text: str) -> list[Mount]:
    """The mounts in the text of mountinfo, in order; blanks in paths are escaped there as \\040."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, source, options) = before.split(), (*after.split(), "", "", "")[:3]
        if len(fields) > 4 and source:
            point = Path(_unescaped(fields[4]))
            mounts.append(Mount(fields[2], fields[3], point, kind, _unescaped(source), options))
    return mounts


def mount_of(folder: Path, mounts: list[Mount]) -> Mount | None:
    """The mount of a resolved folder: the deepest one, and the last if several share that mount point."""
    holding = [mount for mount in mounts if folder.is_relative_to(mount.point)]
    return max(reversed(holding), key=lambda mount: len(mount.point.parts), default=None)


def describe_disk(folder: Path) -> dict[str, object]:
    """Facts of the file system, device and queue of an existing folder; unknown ones are left out."""
    facts: dict[str, object] = {"path": str(folder.resolve())}
    if mount := mount_of(folder.resolve(), mounts_here()):
        facts |= {"mount_point": str(mount.point), "source": mount.source, "file_system": mount.kind}
    if number := block_device(folder):
        device = Path("/sys/dev/block", number)
        rotational, sectors = text_of(device / "queue" / "rotational"), text_of(device / "size")
        scheduler = re.search(r"\[([^\]]+)\]", text_of(device / "queue" / "scheduler"))  # mq-deadline [none]
        facts |= {
            "device": device.resolve().name,
            "device_model": text_of(device / "device" / "model") or None,
            "rotational": rotational == "1" if rotational else None,
            "scheduler": scheduler[1] if scheduler else None,
            "device_gib": int(sectors) * 512 / 2**30 if sectors else None,
        }
    space = os.statvfs(folder)
    facts["free_mib"] = space.f_bavail * space.f_frsize / 2**20
    return {name: value for name, value in facts.items() if value is not None}


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def text_of(path: Path) -> str:
    """The content of a kernel file without surrounding blanks; "" if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def block_device(path: Path) -> str | None:
    """MAJOR:MINOR of the whole disk that stores `path`; None for overlay, tmpfs and network file systems."""
    entry = Path("/sys/dev/block", device_number(path))
    if not entry.exists():
        return None
    # Disk limits apply to whole disks: the parent directory of a partition is its disk.
    disk = entry.resolve().parent if (entry / "partition").exists() else entry
    return (disk / "dev").read_text().strip()


def device_number(path: Path) -> str:
    """MAJOR:MINOR of the file system that stores `path`."""
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


V1_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "blkio")
PROC = Path("/proc/self")


class UnifiedGroup(Struct, frozen=True):
    """This process's cgroup of version 2: its directory, and the hierarchy's mount point."""

    directory: Path
    mount_point: Path


def v1_groups(proc: Path = PROC) -> dict[str, Path]:
    """The directory of this process's cgroup in each mounted hierarchy of version 1, by controller."""
    own, groups = _own_paths(proc), {}
    for mount in _hierarchies(proc, "cgroup"):
        for controller in set(V1_CONTROLLERS) & set(mount.options.split(",")):
            groups[controller] = _directory_of(mount, own.get(controller, "/"))
    return groups


def v2_group(proc: Path = PROC) -> UnifiedGroup | None:
    """This process's cgroup of version 2; None if that hierarchy is not mounted."""
    for mount in _hierarchies(proc, "cgroup2"):
        return UnifiedGroup(_directory_of(mount, _own_paths(proc).get("", "/")), mount.point)
    return None


def limiting_groups(controller: str, proc: Path) -> Iterator[Path]:
    """This process's cgroups for `controller` and their ancestors; the tightest of their limits applies."""
    unified, v1 = v2_group(proc), v1_groups(proc).get(controller)
    for group in [*([unified.directory] if unified else ()), *([v1] if v1 else ())]:
        yield group
        yield from (above for above in group.parents if (above / "cgroup.procs").exists())


def mount_points() -> list[Path]:
    """The root of every cgroup hierarchy that is mounted."""
    return [mount.point for kind in ("cgroup", "cgroup2") for mount in _hierarchies(PROC, kind)]


def _hierarchies(proc: Path, kind: str) -> list[Mount]:
    return [mount for mount in mounts_here(proc / "mountinfo") if mount.kind == kind]


def _own_paths(proc: Path) -> dict[str, str]:
    """The path of this process's cgroup by controller ("" for version 2), from /proc/self/cgroup."""
    paths: dict[str, str] = {}
    with suppress(OSError):  # systems that have no such file
        for line in (proc / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            paths |= dict.fromkeys(controllers.split(","), path)
    return paths


def _directory_of(mount: Mount, path: str) -> Path:
    """The directory of a cgroup. A container may see only its cgroup, mounted as the root; then `path` is the
    host's path, which lies below the mount's root or is not visible."""
    root = "" if mount.root == "/" else mount.root
    inside = path.removeprefix(root) if f"{path}/".startswith(f"{root}/") else path
    nested = mount.point / inside.lstrip("/")
    return nested if nested.is_dir() else mount.point


_KIB_PER_UNIT = {"K": 1, "M": 1024, "G": 1024**2}

_CPUS = Path("/sys/devices/system/cpu")


class Cache(Struct, frozen=True):
    """One cache; `shared_by` are the CPUs that share it."""

    level: int
    kind: str
    size_kib: int
    shared_by: tuple[int, ...]


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """'0-2,8' -> (0, 1, 2, 8); '' -> (). ValueError for anything else."""
    cpus: list[int] = []
    for span in filter(None, text.strip().split(",")):
        first, _, last = span.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return tuple(cpus)


def parse_size_kib(text: str) -> int:
    """'32K' -> 32, '16M' -> 16384. ValueError for anything else."""
    number, unit = text.strip()[:-1], text.strip()[-1:]
    if unit not in _KIB_PER_UNIT:
        raise ValueError(f"'{text}' is not a size of a cache")
    return int(number) * _KIB_PER_UNIT[unit]


def read_caches(cpu: int, root: Path = _CPUS) -> list[Cache]:
    """The caches of one CPU, without those that sysfs describes only in part."""
    caches = []
    for index in sorted((root / f"cpu{cpu}" / "cache").glob("index[0-9]*")):
        try:
            files = ("level", "type", "size", "shared_cpu_list")
            level, kind, size, cpus = ((index / name).read_text().strip() for name in files)
            caches.append(Cache(int(level), kind.lower(), parse_size_kib(size), parse_cpu_list(cpus)))
        except (OSError, ValueError):
            continue
    return caches


def last_level_cache_mib(cpus: Iterable[int], root: Path = _CPUS) -> float:
    """The total size of the CPUs' last-level caches; 0.0 if sysfs has none."""
    return sum(cache.size_kib for cache in _last_caches(cpus, root)) / 1024


def carved_from(cpus: Iterable[int], root: Path = _CPUS) -> dict[str, Any]:
    """Facts of the machine around a trial on these CPUs: its CPUs and memory, and the last-level caches that
    the trial can fill, with the number of CPUs that share them (a rented machine of the trial's size has less
    of the cache). Without caches in sysfs these facts are left out."""
    caches = _last_caches(cpus, root)
    facts = {"cpus": os.cpu_count(), "memory_mib": total_memory_mib()}
    if not caches:
        return facts
    return facts | {
        "last_level_cache_mib": sum(cache.size_kib for cache in caches) / 1024,
        "last_level_cache_cpus": len({cpu for cache in caches for cpu in cache.shared_by}),
    }


def _last_caches(cpus: Iterable[int], root: Path) -> list[Cache]:
    seen = {cache for cpu in cpus for cache in read_caches(cpu, root)}
    last = max((cache.level for cache in seen), default=0)
    return [cache for cache in seen if cache.level == last]


_MEMINFO = Path("/proc/meminfo")
# Version 1 writes "no limit" as the pages that fit in 63 bits.
_NO_LIMIT_BYTES = 2**60


class MachineSize(Struct, frozen=True, kw_only=True):
    """The resources that this process may use: the `cpus` of its affinity, and the tightest `cpu_quota` (CPUs
    on average) and `memory_limit_mib` of its cgroups, None without one."""

    cpus: tuple[int, ...]
    host_memory_mib: float
    cpu_quota: float | None = None
    memory_limit_mib: float | None = None

    @property
    def vcpus(self) -> float:
        """The vCPUs that this process may use; a quota of 1.5 CPUs makes 1.5 vCPUs."""
        return min(float(len(self.cpus)), self.cpu_quota or math.inf)

    @property
    def memory_mib(self) -> float:
        """The host's memory, or less if a cgroup limits it."""
        return min(self.host_memory_mib, self.memory_limit_mib or math.inf)

    @property
    def physical_cores(self) -> float:
        """Physical cores of the vCPUs; a quota reduces cores and hardware threads by the same share."""
        return physical_cores(self.cpus) * self.vcpus / len(self.cpus)


def machine_size(proc: Path = PROC) -> MachineSize:
    """The part of this machine that this process may use."""
    quota, limit = cpu_quota(proc), min((most for most, _ in _memory_limits(proc)), default=math.inf)
    return MachineSize(
        cpus=tuple(allowed_cpus()),
        host_memory_mib=total_memory_mib(),
        cpu_quota=quota if math.isfinite(quota) else None,
        memory_limit_mib=limit / MIB if math.isfinite(limit) else None,
    )


def allowed_cpus() -> list[int]:
    """The CPUs this process may run on."""
    return sorted(os.sched_getaffinity(0))


def physical_cores(cpus: Iterable[int] | None = None) -> int:
    """The number of distinct cores of these CPUs, by default of all that the kernel lists."""
    every = (int(folder.name.removeprefix("cpu")) for folder in _CPUS.glob("cpu[0-9]*"))
    return len(set(read_cores(every if cpus is None else cpus).values())) or 1


def read_cores(cpus: Iterable[int], root: Path = _CPUS) -> dict[int, tuple[str, int]]:
    """The physical core (its package and first thread) of each CPU, from sysfs; without sysfs each CPU counts
    as a core. (`core_id` is not unique in a package of several dies.)"""
    cores: dict[int, tuple[str, int]] = {}
    for cpu in cpus:
        topology = root / f"cpu{cpu}" / "topology"
        try:
            package = (topology / "physical_package_id").read_text().strip()
            siblings = (topology / "thread_siblings_list").read_text()
            cores[cpu] = (package, int(re.split("[,-]", siblings)[0]))
        except (OSError, ValueError):
            cores[cpu] = ("", cpu)
    return cores


def sibling_cpus(cpus: Iterable[int], root: Path = _CPUS) -> list[int]:
    """The other hardware threads of these CPUs' cores."""
    own, siblings = set(cpus), set[int]()
    for cpu in own:
        with suppress(OSError, ValueError):
            text = (root / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
            siblings.update(parse_cpu_list(text))
    return sorted(siblings - own)


def total_memory_mib() -> float:
    """Physical memory of the host."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MIB


def cpu_quota(proc: Path = PROC) -> float:
    """CPUs that the cgroups of this process may use on average; inf without a limit."""
    quotas = []
    for group in limiting_groups("cpu", proc):
        quota, period = text_of(group / "cpu.cfs_quota_us"), text_of(group / "cpu.cfs_period_us")
        if text := text_of(group / "cpu.max"):
            quota, _, period = text.partition(" ")
        if quota:
            quotas.append(parse_quota(quota, period))
    return min(quotas, default=math.inf)


def free_memory_bytes(proc: Path = PROC, meminfo: Path = _MEMINFO) -> float:
    """Bytes that may still be allocated: available on the machine, and within the cgroups' limits."""
    rooms = [most - used for most, used in _memory_limits(proc)]
    rooms += [1024.0 * int(kib) for kib in re.findall(r"MemAvailable:\s+(\d+) kB", text_of(meminfo))]
    return min([total_memory_mib() * MIB, *rooms])


def parse_quota(quota: str, period: str) -> float:
    """CPUs that a quota and its period in microseconds allow: '150000', '100000' -> 1.5; 'max', '-1' ->
    inf."""
    return math.inf if quota == "max" or int(quota) <= 0 else int(quota) / int(period or 100_000)


def parse_memory_limit(text: str) -> float:
    """Bytes that memory.max or memory.limit_in_bytes allows; inf for no limit."""
    value = math.inf if text.strip() == "max" else float(text)
    return math.inf if value >= _NO_LIMIT_BYTES else value


def _memory_limits(proc: Path) -> list[tuple[float, float]]:
    """(limit, usage) in bytes of each cgroup of this process that has a limit."""
    files = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    pairs = [
        (text_of(group / limit), text_of(group / usage))
        for group in limiting_groups("memory", proc)
        for limit, usage in files
    ]
    return [(parse_memory_limit(most), float(used)) for most, used in pairs if most and used]


_DMI = Path("/sys/devices/virtual/dmi/id")
_INDICATIVE_FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "neon", "sve")


def describe_machine() -> dict[str, Any]:
    """CPU, memory, kernel and Python of this machine, and a container's limits; needs no package."""
    info = _cpuinfo()
    return {
        "cpu_model": cpu_model(),
        "cpu_family": info.get("cpu family", ""),
        "cpu_flags": [flag for flag in _INDICATIVE_FLAGS if flag in info.get("flags", "").split()],
        "architecture": platform.machine(),
        "cpus": os.cpu_count(),
        "physical_cores": physical_cores(),
        "memory_mib": total_memory_mib(),
        **describe_container(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "host": platform.node(),
        **({"instance_type": name} if (name := instance_type()) else {}),
    }


def describe_container() -> dict[str, Any]:
    """The CPUs and limits of this process's cgroups; None for no quota or no limit."""
    size = machine_size()
    return {
        "usable_cpus": len(size.cpus),
        "cpu_quota": size.cpu_quota,
        "memory_limit_mib": size.memory_limit_mib,
    }


def instance_type(dmi: Path = _DMI) -> str | None:
    """The instance type in an EC2 (Nitro) machine's firmware; None elsewhere."""
    return text_of(dmi / "product_name") or None if text_of(dmi / "sys_vendor") == "Amazon EC2" else None


def describe_versions(*packages: str) -> dict[str, str]:
    """Versions of those of the packages that are installed."""
    versions = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def local_cpu() -> Cpu:
    """This machine's CPU as a record, by which trials of different machines differ."""
    return Cpu(model=cpu_model(), architecture=platform.machine())


def cpu_model() -> str:
    """The CPU's name as the kernel reports it."""
    return _cpuinfo().get("model name") or platform.processor() or platform.machine()


def _cpuinfo() -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo; empty on other systems."""
    lines = text_of(Path("/proc/cpuinfo")).split("\n\n", 1)[0].splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
