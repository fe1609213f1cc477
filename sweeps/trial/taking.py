"""Reserves a trial's cores, GPU, memory and disk among all processes that measure on this machine.

One file each, held by `flock`: the kernel gives it back with the process that held it, however
that ends. `ADVISOR_SWEEP_LOCK` names another folder, for hosts that stand for several machines;
containers of one host see each other where they share the folder's parent.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from advisor.errors import MeasuringError
from advisor.sweeps.events import emit
from advisor.sweeps.trial.node import GpuDevice, Node, Placement, placement_of, read_node
from advisor.sweeps.trial.ownership import scratch_parent

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

    Of the memory so much is taken that all trials together have no more than the machine; who
    needs more than that takes all. The disk (MAJOR:MINOR) is taken whole, or together with others
    that share it, too. Waits while others have what is needed; those who wait take turns, so that
    small trials do not pass a large one for ever. `MeasuringError` where the machine has too few
    CPUs or GPUs, or where others left too little for `patience_seconds`.
    """
    node, folder = node or read_node(with_gpus=on_gpu), folder or lock_folder()
    gpus = node.gpus if on_gpu and node.gpus else None
    if gpus is not None and len(gpus) < gpu_count:
        raise MeasuringError(
            "{wanted} GPUs requested, but this machine has {gpus}", wanted=gpu_count, gpus=len(gpus)
        )
    if placement_of(vcpus, node.cores, gpus, gpu_count) is None:
        cpus = sum(len(core.cpus) for core in node.cores)
        raise MeasuringError("{vcpus:g} vCPUs requested, but this machine has {cpus}", vcpus=vcpus, cpus=cpus)
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
        """Waits until `look` finds anything, and returns it."""
        while not (taken := look()):
            if time.monotonic() > self.deadline:
                raise MeasuringError(
                    "other trials on this machine left too few free cores, GPUs or disks, or too "
                    "little memory, for {vcpus:g} vCPUs for too long",
                    hint="run one sweep at a time, or ask for less",
                    vcpus=self.vcpus,
                )
            if not self.reported:
                emit("waits_for_placement", trial_id=self.trial_id, vcpus=self.vcpus)
            self.reported = True
            time.sleep(_LOOK_EVERY_SECONDS)
        return taken


def _take(
    held: ExitStack,
    folder: Path,
    vcpus: float,
    node: Node,
    gpus: tuple[GpuDevice, ...] | None,
    gpu_count: int,
) -> Placement | None:
    """Lock all that is free, decide, and keep what was chosen. Only who has the turn looks."""
    with ExitStack() as rest:
        cores = _locked(rest, {core: f"core-{core.number}" for core in node.cores}, folder)
        devices = _locked(rest, {gpu: f"gpu-{gpu.uuid}" for gpu in gpus or ()}, folder)
        chosen = placement_of(vcpus, cores, None if gpus is None else list(devices), gpu_count)
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
