"""Chooses and reserves the physical cores and GPUs of a trial, by NUMA node.

CPUs are read from sysfs (kernel: ABI/stable/sysfs-devices-system-cpu, -node), GPUs by NVML."""

from __future__ import annotations

import fcntl
import math
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from advisor.errors import MeasuringError
from advisor.sweeps.events import emit
from advisor.sweeps.machine.environment import machine_size, read_cores
from advisor.sweeps.machine.gpu import gpus
from advisor.sweeps.trial.ownership import scratch_parent


class Placement(Struct, frozen=True):
    """The `cpus` and `gpus` of a trial, and the `cores` that are reserved with all their threads."""

    cpus: tuple[int, ...]
    cores: tuple[Core, ...] = ()
    gpus: tuple[GpuDevice, ...] = ()

    @property
    def gpu(self) -> GpuDevice | None:
        """The first GPU."""
        return self.gpus[0] if self.gpus else None

    @property
    def numa_node(self) -> int | None:
        """The NUMA node of all CPUs; None if they are on several, or it is unknown."""
        nodes = {core.numa_node for core in self.cores}
        return nodes.pop() if len(nodes) == 1 else None

    @property
    def gpu_is_near(self) -> bool | None:
        """True if the GPUs belong to the CPUs' NUMA node; None if unknown."""
        near = {gpu.numa_node for gpu in self.gpus}
        nodes = {core.numa_node for core in self.cores}
        return None if not near or None in near | nodes else nodes == near


def wanted_cpus(vcpus: float) -> int:
    """The number of CPUs for some vCPUs; a fraction is a quota on a whole CPU."""
    return max(1, math.ceil(vcpus))


def placement_of(
    vcpus: float, cores: Iterable[Core], gpus: Sequence[GpuDevice] | None = None, gpu_count: int = 1
) -> Placement | None:
    """The choice among free cores, and among free `gpus` if given; None if there are too few.

    It has whole cores, as clouds sell them, preferably of the GPU's NUMA node. The last cores of a node come
    first, since interrupts and other work tend to run on the first ones."""
    wanted, nodes = wanted_cpus(vcpus), defaultdict[int | None, list[Core]](list)
    for core in cores:
        nodes[core.numa_node].append(core)
    threads = {node: sum(len(core.cpus) for core in has) for node, has in nodes.items()}
    if sum(threads.values()) < wanted or (gpus is not None and len(gpus) < gpu_count):
        return None

    def room(gpu: GpuDevice) -> int:
        return min(threads.get(gpu.numa_node, 0), wanted)

    # GPUs whose node has most free threads come first; among equals the order stays.
    taken = tuple(sorted(gpus or (), key=room, reverse=True)[:gpu_count])
    chosen = _cores(wanted, nodes, threads, taken[0] if taken else None)
    cpus = [cpu for core in chosen for cpu in core.cpus][:wanted]
    return Placement(tuple(sorted(cpus)), tuple(chosen), taken)


def _cores(
    wanted: int, nodes: dict[int | None, list[Core]], threads: dict[int | None, int], gpu: GpuDevice | None
) -> list[Core]:
    """Cores of the GPU's node; else of the fullest node that has enough; else of as few nodes as possible."""

    def rank(node: int | None) -> tuple[bool, bool, int]:
        holds = threads[node] >= wanted
        near = gpu is not None and node == gpu.numa_node
        return not near, not holds, threads[node] if holds else -threads[node]

    ordered = [
        core
        for node in sorted(nodes, key=rank)
        for core in sorted(nodes[node], key=lambda core: core.number, reverse=True)
    ]
    chosen: list[Core] = []
    while sum(len(core.cpus) for core in chosen) < wanted:
        chosen.append(ordered[len(chosen)])
    return chosen


VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
_CPUS = Path("/sys/devices/system/cpu")


class Core(Struct, frozen=True):
    """A physical core with the hardware threads that may be used. `number` is its first thread on the host;
    `numa_node` is None if the kernel names none."""

    number: int
    cpus: tuple[int, ...]
    numa_node: int | None = None


class GpuDevice(Struct, frozen=True):
    """A GPU or MIG slice; its UUID has the form that CUDA_VISIBLE_DEVICES takes."""

    uuid: str
    numa_node: int | None = None


class Node(Struct, frozen=True):
    """The resources of a node for trials; GPUs in the driver's order."""

    cores: tuple[Core, ...]
    gpus: tuple[GpuDevice, ...] = ()
    memory_mib: float = math.inf


def read_node(*, with_gpus: bool = True) -> Node:
    """The part of this machine that this process may use. Raises the errors of `read_gpus`."""
    size = machine_size()
    return Node(cores_of(size.cpus), read_gpus() if with_gpus else (), size.memory_mib)


def cores_of(cpus: Iterable[int], root: Path = _CPUS) -> tuple[Core, ...]:
    """The physical cores of the CPUs."""
    threads: dict[int, list[int]] = {}
    for cpu, (_, first) in read_cores(cpus, root).items():
        threads.setdefault(first, []).append(cpu)
    nodes = {
        first: int(node.name[4:]) for first in threads for node in (root / f"cpu{first}").glob("node[0-9]*")
    }
    return tuple(Core(first, tuple(sorted(members)), nodes.get(first)) for first, members in threads.items())


def read_gpus() -> tuple[GpuDevice, ...]:
    """The GPUs that CUDA can use; a GPU in MIG mode is replaced by its slices.

    CUDA_VISIBLE_DEVICES limits them (Ray sets it for a task, or a user). As in the CUDA programming guide,
    its first invalid entry ends the list. Numbers in it count in the order of PCI addresses. Raises
    `MeasuringError` if CUDA would count in another order."""
    try:
        known = gpus()
    except MeasuringError:
        return ()
    # Devices without a UUID cannot be named, and are left out.
    of_card = [
        [
            GpuDevice(part["uuid"], card["numa_node"])
            for part in (card["mig_slices"] if card["mig_mode"] == "Enabled" else [card])
            if part["uuid"]
        ]
        for card in known
    ]
    every = [device for devices in of_card for device in devices]
    if VISIBLE_GPUS not in os.environ:
        return tuple(every)
    visible: list[GpuDevice] = []
    for entry in map(str.strip, os.environ[VISIBLE_GPUS].split(",")):
        if entry.isdecimal():
            _refuse_other_order({facts["name"] for facts in known})
            cards = next(iter(of_card[int(entry) :]), [])
        else:
            cards = [card for card in every if entry and card.uuid.startswith(entry)]
        if len(cards) != 1 or cards[0] in visible:
            break
        visible += cards
    return tuple(visible)


def _refuse_other_order(models: Collection[str]) -> None:
    """Raise `MeasuringError` for several models in CUDA's default order, which is by speed, not address."""
    if len(models) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        raise MeasuringError(
            "CUDA_VISIBLE_DEVICES has numbers, and the GPUs of this machine differ",
            hint="set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPUs by UUID",
        )


PATIENCE_SECONDS = 600.0
# Each attempt locks every free core for a moment, which takes some milliseconds on a large machine.
_LOOK_EVERY_SECONDS = 0.25
# On some systems only root can write to /run/lock.
_PARENTS = (Path("/run/lock"), Path("/dev/shm"), Path("/tmp"))
_OPEN_TO_ALL = 0o1777
T = TypeVar("T")
K = TypeVar("K")


@contextmanager
def placed(
    vcpus: float,
    *,
    memory_mib: float = 0.0,
    on_gpu: bool = False,
    gpu_count: int = 1,
    disk: str = "",
    shares_disk: bool = False,
    trial_id: str = "",
    node: Node | None = None,
    folder: Path | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[Placement]:
    """Reserve CPUs, and with `on_gpu` the driver's GPUs, for one trial inside the block.

    Memory is reserved so that all trials together have at most the machine's; a larger need reserves all of
    it. The disk (MAJOR:MINOR) is reserved exclusively, or shared with trials that also share it. It waits for
    resources of other trials; waiting trials take turns, so that small ones cannot overtake a large one for
    ever. Raises `MeasuringError` if the machine has too few CPUs or GPUs, or after `patience_seconds`."""
    node, folder = node or read_node(with_gpus=on_gpu), folder or lock_folder()
    gpus = node.gpus if on_gpu and node.gpus else None
    if gpus is not None and len(gpus) < gpu_count:
        raise MeasuringError(f"{gpu_count} GPUs requested, but this machine has {len(gpus)}")
    if placement_of(vcpus, node.cores, gpus, gpu_count) is None:
        cpus = sum(len(core.cpus) for core in node.cores)
        raise MeasuringError(f"{vcpus:g} vCPUs requested, but this machine has {cpus}")
    waiting = _Waiting(vcpus, trial_id, time.monotonic() + patience_seconds)
    with ExitStack() as held:
        with ExitStack() as turn:
            waiting.for_any(lambda: _try_lock(turn, folder / "turn"))
            if disk:
                waiting.for_any(lambda: _try_lock(held, folder / f"disk-{disk}", shares_disk))
            memory = min(memory_mib, node.memory_mib)
            waiting.for_any(lambda: _reserve_memory(held, folder, memory, node.memory_mib))
            chosen = waiting.for_any(lambda: _reserve_placement(held, folder, vcpus, node, gpus, gpu_count))
        yield chosen


def lock_folder() -> Path:
    """The folder of lock files for all users of the machine, made if it is missing."""
    writable = (folder for folder in _PARENTS if folder.is_dir() and os.access(folder, os.W_OK))
    parent = next(
        (folder for folder in writable if folder.stat().st_mode & _OPEN_TO_ALL == _OPEN_TO_ALL), None
    )
    parent = parent or scratch_parent()
    name = os.environ.get("ADVISOR_SWEEP_LOCK", "sweep").replace("/", "-")
    folder = parent / f"advisor-placement-{name}"
    with suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(_OPEN_TO_ALL)
    return folder


class _Waiting(Struct):
    """Waits for resources until `deadline` (by time.monotonic()); reports once that it waits."""

    vcpus: float
    trial_id: str
    deadline: float
    reported: bool = False

    def for_any(self, look: Callable[[], T | None]) -> T:
        while not (taken := look()):
            if time.monotonic() > self.deadline:
                raise MeasuringError(
                    "other trials on this machine left too few free cores, GPUs or disks, or too "
                    f"little memory, for {self.vcpus:g} vCPUs for too long",
                    hint="run one sweep at a time, or ask for less",
                )
            if not self.reported:
                emit("waits_for_placement", trial_id=self.trial_id, vcpus=self.vcpus)
            self.reported = True
            time.sleep(_LOOK_EVERY_SECONDS)
        return taken


def _reserve_placement(
    held: ExitStack, folder: Path, vcpus: float, node: Node, gpus: Sequence[GpuDevice] | None, count: int
) -> Placement | None:
    """Lock all free cores and GPUs, choose, and keep only the chosen ones; the caller must have the turn."""
    with ExitStack() as rest:
        cores = _free_locks(rest, {core: f"core-{core.number}" for core in node.cores}, folder)
        devices = _free_locks(rest, {gpu: f"gpu-{gpu.uuid}" for gpu in gpus or ()}, folder)
        chosen = placement_of(vcpus, cores, None if gpus is None else list(devices), count)
        if chosen is None:
            return None
        for core in chosen.cores:
            held.enter_context(cores[core].pop_all())
        for gpu in chosen.gpus:
            held.enter_context(devices[gpu].pop_all())
        return chosen


def _reserve_memory(held: ExitStack, folder: Path, wanted_mib: float, total_mib: float) -> bool:
    """Reserve memory by a locked file with the MiB in its name, unless all such files together would exceed
    the total; the caller must have the turn."""
    if not wanted_mib:
        return True
    taken = sum(_reserved_mib(path) for path in folder.glob("memory-*"))
    if taken and taken + wanted_mib > total_mib:
        return False
    file, name = tempfile.mkstemp(prefix=f"memory-{wanted_mib:.1f}-", dir=folder)
    os.fchmod(file, 0o644)
    fcntl.flock(file, fcntl.LOCK_EX)
    held.callback(os.close, file)
    held.callback(Path(name).unlink, missing_ok=True)
    return True


def _reserved_mib(path: Path) -> float:
    """The MiB that a file reserves; 0 if its process has ended, and then the file is removed if permitted."""
    with ExitStack() as mine, suppress(FileNotFoundError, PermissionError):
        if not _try_lock(mine, path):
            return float(path.name.split("-")[1])
        path.unlink()
    return 0.0


def _free_locks(rest: ExitStack, names: dict[K, str], folder: Path) -> dict[K, ExitStack]:
    """The keys whose files are free and now locked, each with the stack that unlocks it."""
    free = {}
    for key, name in names.items():
        # An old name of a MIG slice has slashes.
        if _try_lock(attempt := rest.enter_context(ExitStack()), folder / name.replace("/", "-")):
            free[key] = attempt
    return free


def _try_lock(held: ExitStack, path: Path, shared: bool = False) -> bool:
    """Lock the file until `held` closes; returns False if another process has locked it."""
    file = _lock_file(path)
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    held.callback(os.close, file)
    return True


def _lock_file(path: Path) -> int:
    """Open a lock file, for reading only, which suffices for a lock, so that every user may use it."""
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with suppress(FileExistsError):
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            os.fchmod(file, 0o644)
            os.close(file)
