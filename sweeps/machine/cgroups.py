"""The cgroups of this process and their mount points. Nothing is written here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

V1_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "blkio")
PROC = Path("/proc/self")


class UnifiedGroup(Struct, frozen=True):
    """The own group of version 2: its directory, and that where the hierarchy is mounted."""

    directory: Path
    mount_point: Path


def v1_groups(proc: Path = PROC) -> dict[str, Path]:
    """The own group's directory in each version 1 hierarchy that is mounted."""
    own = _own_paths(proc)
    groups = {}
    for mount in _mounts(proc, "cgroup"):
        for controller in set(V1_CONTROLLERS) & set(mount.options.split(",")):
            groups[controller] = mount.directory_of(own.get(controller, "/"))
    return groups


def v2_group(proc: Path = PROC) -> UnifiedGroup | None:
    """The own group of version 2; None where that is not mounted."""
    for mount in _mounts(proc, "cgroup2"):
        return UnifiedGroup(mount.directory_of(_own_paths(proc).get("", "/")), mount.point)
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
    return [mount.point for mount in (*_mounts(proc, "cgroup"), *_mounts(proc, "cgroup2"))]


def _own_paths(proc: Path) -> dict[str, str]:
    """/proc/self/cgroup: 'ID:controller,controller:/path', with no controller for version 2."""
    paths: dict[str, str] = {}
    for line in _lines(proc / "cgroup"):
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    return paths


class _Mount(Struct, frozen=True):
    """A hierarchy: the group `root` of it lies at `point`."""

    root: str
    point: Path
    options: str

    def directory_of(self, path: str) -> Path:
        """A container may see its own group alone, mounted as if it were the root; then `path` is
        that of the host, and lies beneath `root` or nowhere."""
        root = "" if self.root == "/" else self.root
        inside = path.removeprefix(root) if f"{path}/".startswith(f"{root}/") else path
        nested = self.point / inside.lstrip("/")
        return nested if nested.is_dir() else self.point


def _mounts(proc: Path, kind: str) -> list[_Mount]:
    """The mounts of a file system in /proc/self/mountinfo."""
    mounts = []
    for line in _lines(proc / "mountinfo"):
        before, _, after = line.partition(" - ")
        name, _, options = after.split(" ", 2)
        if name == kind:
            root, point = before.split()[3:5]
            mounts.append(_Mount(root, Path(point), options))
    return mounts


def _lines(path: Path) -> list[str]:
    """None on systems that have no such file."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
