"""The cgroups of this process and their mount points. Nothing is written here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from advisor.sweeps.machine.mounts import Mount, mounts_here

V1_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "blkio")
PROC = Path("/proc/self")


class UnifiedGroup(Struct, frozen=True):
    """The own group of version 2: its directory, and that where the hierarchy is mounted."""

    directory: Path
    mount_point: Path


def v1_groups(proc: Path = PROC) -> dict[str, Path]:
    """The own group's directory in each version 1 hierarchy that is mounted."""
    own, groups = _own_paths(proc), {}
    for mount in _hierarchies(proc, "cgroup"):
        for controller in set(V1_CONTROLLERS) & set(mount.options.split(",")):
            groups[controller] = _directory_of(mount, own.get(controller, "/"))
    return groups


def v2_group(proc: Path = PROC) -> UnifiedGroup | None:
    """The own group of version 2; None where that is not mounted."""
    for mount in _hierarchies(proc, "cgroup2"):
        return UnifiedGroup(_directory_of(mount, _own_paths(proc).get("", "/")), mount.point)
    return None


def limiting_groups(controller: str, proc: Path = PROC) -> Iterator[Path]:
    """The own group of each version and all above it that this process sees: the tightest limit
    of `controller` among them holds."""
    unified = v2_group(proc)
    own = ([unified.directory] if unified else []) + [
        path for name, path in v1_groups(proc).items() if name == controller
    ]
    for group in own:
        yield group
        yield from (above for above in group.parents if (above / "cgroup.procs").exists())


def mount_points(proc: Path = PROC) -> list[Path]:
    """The root of every cgroup hierarchy that is mounted."""
    return [mount.point for kind in ("cgroup", "cgroup2") for mount in _hierarchies(proc, kind)]


def _hierarchies(proc: Path, kind: str) -> list[Mount]:
    return [mount for mount in mounts_here(proc / "mountinfo") if mount.kind == kind]


def _own_paths(proc: Path) -> dict[str, str]:
    """/proc/self/cgroup: 'ID:controller,controller:/path', with no controller for version 2."""
    paths: dict[str, str] = {}
    with suppress(OSError):  # systems that have no such file
        for line in (proc / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            paths |= dict.fromkeys(controllers.split(","), path)
    return paths


def _directory_of(mount: Mount, path: str) -> Path:
    """A container may see its own group alone, mounted as if it were the root; then `path` is
    that of the host, and lies beneath the mount's root or nowhere."""
    root = "" if mount.root == "/" else mount.root
    inside = path.removeprefix(root) if f"{path}/".startswith(f"{root}/") else path
    nested = mount.point / inside.lstrip("/")
    return nested if nested.is_dir() else mount.point
