"""The physical cores and GPUs of a node, each with its NUMA node, and the choice of a trial's.

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
    """`cpus` are the CPUs of a trial, `cores` all whose threads it keeps from others."""

    cpus: tuple[int, ...]
    cores: tuple[Core, ...] = ()
    gpus: tuple[GpuDevice, ...] = ()

    @property
    def gpu(self) -> GpuDevice | None:
        """The first one."""
        return self.gpus[0] if self.gpus else None

    @property
    def numa_node(self) -> int | None:
        """The one NUMA node of all CPUs; None where they are of several, or it is not known."""
        nodes = {core.numa_node for core in self.cores}
        return nodes.pop() if len(nodes) == 1 else None

    @property
    def gpu_is_near(self) -> bool | None:
        """Whether the GPUs hang on the CPUs' NUMA node; None where that is not known."""
        near = {gpu.numa_node for gpu in self.gpus}
        nodes = {core.numa_node for core in self.cores}
        return None if not near or None in near | nodes else nodes == near


def wanted_cpus(vcpus: float) -> int:
    """CPUs that carry so many vCPUs: a fraction of one is a quota on a whole one."""
    return max(1, math.ceil(vcpus))


def placement_of(
    vcpus: float, cores: Iterable[Core], gpus: Sequence[GpuDevice] | None = None, gpu_count: int = 1
) -> Placement | None:
    """CPUs, and so many of `gpus` where given, of what is free; None where that is not enough.

    Whole cores, the threads of one together, as clouds sell them; those of the GPU's NUMA node first. The
    last cores of a node come first: interrupts and other people's work tend to sit on the first ones."""
    wanted, nodes = wanted_cpus(vcpus), defaultdict[int | None, list[Core]](list)
    for core in cores:
        nodes[core.numa_node].append(core)
    threads = {node: sum(len(core.cpus) for core in has) for node, has in nodes.items()}
    if sum(threads.values()) < wanted or (gpus is not None and len(gpus) < gpu_count):
        return None

    def room(gpu: GpuDevice) -> int:
        return min(threads.get(gpu.numa_node, 0), wanted)

    # GPUs whose own node has room; of several those with most room, then the first.
    taken = tuple(sorted(gpus or (), key=room, reverse=True)[:gpu_count])
    chosen = _cores(wanted, nodes, threads, taken[0] if taken else None)
    cpus = [cpu for core in chosen for cpu in core.cpus][:wanted]
    return Placement(tuple(sorted(cpus)), tuple(chosen), taken)


def _cores(
    wanted: int, nodes: dict[int | None, list[Core]], threads: dict[int | None, int], gpu: GpuDevice | None
) -> list[Core]:
    """The GPU's node; else the fullest one that holds all; else as few nodes as will do."""

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
    """A physical core: the hardware threads of it that may be used. `number` is its first thread
    on the host; `numa_node` is None where the kernel names none."""

    number: int
    cpus: tuple[int, ...]
    numa_node: int | None = None


class GpuDevice(Struct, frozen=True):
    """A GPU, or a MIG slice of one, by the name that CUDA_VISIBLE_DEVICES takes."""

    uuid: str
    numa_node: int | None = None


class Node(Struct, frozen=True):
    """The resources of a node on which trials may be placed; GPUs in the driver's order."""

    cores: tuple[Core, ...]
    gpus: tuple[GpuDevice, ...] = ()
    memory_mib: float = math.inf


def read_node(*, with_gpus: bool = True) -> Node:
    """This machine, as far as this process may use it; `MeasuringError` as `read_gpus`."""
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
    """GPUs, and in place of one that is cut the slices of it (MIG): CUDA computes on these alone.

    Those that CUDA_VISIBLE_DEVICES leaves (Ray sets it for a task; a user may). As the CUDA programming guide
    has it, the first entry that names nothing ends the list. Numbers are those of PCI addresses;
    `MeasuringError` where CUDA would count another way."""
    try:
        known = gpus()
    except MeasuringError:
        return ()
    # Those without a UUID to name them by are left out.
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
    """CUDA numbers GPUs by speed unless it is set otherwise; by address where all are alike."""
    if len(models) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        raise MeasuringError(
            "CUDA_VISIBLE_DEVICES has numbers, and the GPUs of this machine differ",
            hint="set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPUs by UUID",
        )


PATIENCE_SECONDS = 600.0
# Looking locks every free core for a moment; on a large machine that takes some milliseconds.
_LOOK_EVERY_SECONDS = 0.25
# Some systems have /run/lock for root alone.
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
    """CPUs, and GPUs where `on_gpu` and the driver shows any, that nobody else has meanwhile.

    Of the memory so much is taken that all trials together have no more than the machine; who needs more than
    that takes all. The disk (MAJOR:MINOR) is taken whole, or together with others that share it, too. Waits
    while others have what is needed; those who wait take turns, so that small trials do not pass a large one
    for ever. `MeasuringError` where the machine has too few CPUs or GPUs, or where others left too little for
    `patience_seconds`."""
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
            waiting.for_any(lambda: _try(turn, folder / "turn"))
            if disk:
                waiting.for_any(lambda: _try(held, folder / f"disk-{disk}", shares_disk))
            memory = min(memory_mib, node.memory_mib)
            waiting.for_any(lambda: _take_memory(held, folder, memory, node.memory_mib))
            chosen = waiting.for_any(lambda: _take(held, folder, vcpus, node, gpus, gpu_count))
        yield chosen


def lock_folder() -> Path:
    """One for all users of the machine; made if need be, and open to all of them."""
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
    """Until `deadline`, a time.monotonic() moment; that it waits is reported once."""

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


def _take(
    held: ExitStack, folder: Path, vcpus: float, node: Node, gpus: Sequence[GpuDevice] | None, count: int
) -> Placement | None:
    """Lock all that is free, decide, and keep what was chosen. Only who has the turn looks."""
    with ExitStack() as rest:
        cores = _locked(rest, {core: f"core-{core.number}" for core in node.cores}, folder)
        devices = _locked(rest, {gpu: f"gpu-{gpu.uuid}" for gpu in gpus or ()}, folder)
        chosen = placement_of(vcpus, cores, None if gpus is None else list(devices), count)
        if chosen is None:
            return None
        for core in chosen.cores:
            held.enter_context(cores[core].pop_all())
        for gpu in chosen.gpus:
            held.enter_context(devices[gpu].pop_all())
        return chosen


def _take_memory(held: ExitStack, folder: Path, wanted_mib: float, total_mib: float) -> bool:
    """Add a file to those that others hold, each with its MiB in its name, unless all together
    would be more than there is. Only who has the turn looks and adds."""
    if not wanted_mib:
        return True
    taken = sum(_held_mib(path) for path in folder.glob("memory-*"))
    if taken and taken + wanted_mib > total_mib:
        return False
    file, name = tempfile.mkstemp(prefix=f"memory-{wanted_mib:.1f}-", dir=folder)
    os.fchmod(file, 0o644)
    fcntl.flock(file, fcntl.LOCK_EX)
    held.callback(os.close, file)
    held.callback(Path(name).unlink, missing_ok=True)
    return True


def _held_mib(path: Path) -> float:
    """0 of one whose process has gone, which is removed where its user lets us."""
    with ExitStack() as mine, suppress(FileNotFoundError, PermissionError):
        if not _try(mine, path):
            return float(path.name.split("-")[1])
        path.unlink()
    return 0.0


def _locked(rest: ExitStack, names: dict[K, str], folder: Path) -> dict[K, ExitStack]:
    """The keys whose files nobody else has, each with what gives it back."""
    free = {}
    for key, name in names.items():
        # An old name of a MIG slice has slashes.
        if _try(attempt := rest.enter_context(ExitStack()), folder / name.replace("/", "-")):
            free[key] = attempt
    return free


def _try(held: ExitStack, path: Path, shared: bool = False) -> bool:
    """Lock the file until `held` is left; False where somebody else has it."""
    file = _opened(path)
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    held.callback(os.close, file)
    return True


def _opened(path: Path) -> int:
    """Reading is enough for a lock, so that every user may take part."""
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with suppress(FileExistsError):
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            os.fchmod(file, 0o644)
            os.close(file)
