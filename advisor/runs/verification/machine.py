"""The machine of a verifying trial: the instance itself, or a machine that stands for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.domain import (
    ON_ANY_GPU,
    ON_CPU,
    Accelerator,
    AcceleratorKind,
    Disk,
    DiskRate,
    Gpu,
    InstanceType,
    Task,
)
from advisor.domain.gpu_names import identified, is_card
from advisor.errors import MeasuringError, UsageError
from advisor.messages import Message
from advisor.runs.sweeps.sweeping import accelerator_named, has_cuda
from advisor.sweeps.machine.gpu import gpus
from advisor.sweeps.planning.disks import UNLIMITED
from advisor.sweeps.planning.plan import Machine

# Firmware and kernel keep some of what an instance is sold with.
_VISIBLE_MEMORY = 0.9
AUTO = "auto"


class VerifiedMachine(Struct, frozen=True, kw_only=True):
    """What a trial is held to. `instance` None: this machine as it is; `is_here`: the machine
    calls itself that type."""

    instance: InstanceType | None
    is_here: bool
    accelerator: Accelerator
    vcpus: float
    memory_mib: float

    @property
    def emulated_gpu(self) -> str | None:
        """The GPU whose known pace stands for a real one."""
        return self.accelerator.gpu if self.accelerator.is_emulated else None

    def disk_rate(self, disk: Disk | None) -> DiskRate:
        """What reads are held to: nothing without a disk; of a disk of this very instance what it
        sustains (bursts would pass for it), with the latency that it has by itself."""
        if disk is None:
            return UNLIMITED
        if not self.is_here:
            return disk.rate
        if disk.price is None:  # local NVMe: the catalogue knows a floor only
            return DiskRate(type=disk.rate.type)
        return replace(disk.rate, read_latency_seconds=None)


def machine_for(
    task: Task,
    name: str,
    accelerator: str | None,
    catalog: Catalog,
    machine: Machine,
    here: str | None,
    gpus_here: Sequence[str],
) -> VerifiedMachine:
    """Where the trial of `--instance name` (or `auto`) runs; `UsageError` where it cannot. `here` is the type
    this machine calls itself, `gpus_here` are the names of its GPUs."""
    instance = _own(catalog, here, task) if name == AUTO else catalog.instance(name)
    is_here = instance is not None and instance.name == here
    chosen = _accelerator(task, accelerator, instance, gpus_here, catalog.gpus)
    vcpus, memory_mib = float(machine.cpus), machine.memory_mib
    if instance is not None:
        if machine.cpus < instance.vcpus or machine.memory_mib < _VISIBLE_MEMORY * instance.memory_mib:
            raise UsageError(
                ("{name} has {vcpus} vCPUs and {value:g} GiB, this machine {cpus:g} and {value_2:.3g} GiB"),
                name=instance.name,
                vcpus=instance.vcpus,
                value=instance.memory_mib / 1024,
                cpus=machine.cpus,
                value_2=machine.memory_mib / 1024,
                hint=Message(
                    "run this on a {name} or a larger machine, or rent one: --on aws", name=instance.name
                ),
            )
        vcpus, memory_mib = float(instance.vcpus), min(memory_mib, float(instance.memory_mib))
    return VerifiedMachine(
        instance=instance, is_here=is_here, accelerator=chosen, vcpus=vcpus, memory_mib=memory_mib
    )


def require_gpus(machine: VerifiedMachine, wanted: int, gpus_here: Sequence[str]) -> None:
    """`UsageError` where the trial takes more real GPUs than are here."""
    if machine.accelerator.is_gpu and wanted > len(gpus_here):
        raise UsageError(
            "{name} is verified on {wanted} GPUs, and this machine has {gpus}",
            name=machine.instance.name if machine.instance else "it",
            wanted=wanted,
            gpus=len(gpus_here),
            hint="run this on that instance, or say how many of its GPUs work with --max-gpus",
        )


def gpus_of_this_machine() -> tuple[str, ...]:
    """Names of the NVIDIA GPUs here, and of the slices of those that are cut; empty without any."""
    if not has_cuda():
        return ()
    try:
        slices = [gpu["mig_slices"] or [gpu] for gpu in gpus()]
    except MeasuringError:
        return ()
    return tuple(part["name"] for parts in slices for part in parts if part["name"])


def sheet_named(catalog: Catalog, name: str) -> Gpu | None:
    """The data sheet of a GPU as its driver or the catalogue names it; None where it has none, and
    for a slice of a card."""
    identity = identified(name, catalog.gpus)
    return None if identity.is_slice else catalog.gpus.get(identity.gpu)


def _own(catalog: Catalog, here: str | None, task: Task) -> InstanceType | None:
    """The type of this machine; None where it is unknown, or not one that is predicted."""
    try:
        instance = catalog.instance(here) if here else None
    except UsageError:
        return None
    needs_gpu = task is not Task.PREPROCESSING
    return None if instance and needs_gpu and instance.gpu_name is None else instance


def _accelerator(
    task: Task,
    text: str | None,
    instance: InstanceType | None,
    gpus_here: Sequence[str],
    sheets: Mapping[str, Gpu],
) -> Accelerator:
    if task is Task.PREPROCESSING:
        return ON_CPU
    if instance is None:
        usual = ON_ANY_GPU if gpus_here else ON_CPU
        return accelerator_named(text, False) if text else usual
    gpu = instance.gpu_name
    if gpu is None:
        raise UsageError(
            "{name} has no GPU, and {task} is predicted on GPUs only",
            name=instance.name,
            task=task,
            hint="leave --instance out to measure this machine as it is",
        )
    chosen = _of_instance(instance, gpu, text, gpus_here, sheets)
    if chosen.is_emulated and not _has_card(instance, chosen.gpu, sheets):
        raise UsageError(
            "{name} has a {gpu}",
            name=instance.name,
            gpu=gpu,
            hint=Message("use --accelerator {emulated}", emulated=_emulated(gpu)),
        )
    return chosen


def _of_instance(
    instance: InstanceType, gpu: str, text: str | None, gpus_here: Sequence[str], sheets: Mapping[str, Gpu]
) -> Accelerator:
    by_emulation = f"--accelerator {_emulated(gpu)} measures its host and disk side alone"
    if text == "cpu":
        raise UsageError(
            "on the CPU nothing is learnt of {name}'s {gpu}",
            name=instance.name,
            gpu=gpu,
            hint=Message("{by_emulation}", by_emulation=by_emulation),
        )
    if text is not None and text.lower().startswith("emulated"):
        return _emulated(gpu) if ":" not in text else accelerator_named(text, False)
    if not gpus_here:
        raise UsageError(
            "no NVIDIA GPU here, and {name} has a {gpu}",
            name=instance.name,
            gpu=gpu,
            hint=Message("run this on one, or: {by_emulation}", by_emulation=by_emulation),
        )
    if not any(_has_card(instance, name, sheets) for name in gpus_here):
        raise UsageError(
            "this machine has a {gpus_here} and {name} a {gpu}",
            gpus_here=gpus_here[0],
            name=instance.name,
            gpu=gpu,
            hint=Message(
                "run this on a {name}, or: {by_emulation}", name=instance.name, by_emulation=by_emulation
            ),
        )
    return accelerator_named(text, False) if text else ON_ANY_GPU


def _emulated(gpu: str) -> Accelerator:
    return Accelerator(kind=AcceleratorKind.EMULATED, gpu=gpu)


def _has_card(instance: InstanceType, name: str, sheets: Mapping[str, Gpu]) -> bool:
    """Whether `name` is the card of the instance, a whole one."""
    return is_card(instance.gpu_name or "", identified(name, sheets), sheets)
