"""Judges a verifying trial: its machine, its verdict and caveats, and the spec to take now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.domain import (
    ON_ANY_GPU,
    ON_CPU,
    Accelerator,
    AcceleratorKind,
    CacheState,
    Disk,
    DiskRate,
    Gpu,
    InstancePrediction,
    InstanceType,
    LimitedBy,
    Measurement,
    Prediction,
    Recommendation,
    Spec,
    Status,
    Task,
    Verdict,
    Verification,
)
from advisor.domain.gpu_names import identified, is_card
from advisor.errors import MeasuringError, UsageError
from advisor.messages import format_mib, format_rate, format_target, format_usd
from advisor.questions.network import NetworkQuestion
from advisor.runs.questions import AUTO
from advisor.runs.sweeps.sweeping import accelerator_named
from advisor.sweeps.machine.gpu import driver_gpus
from advisor.sweeps.planning.disks import UNLIMITED
from advisor.sweeps.planning.plan import Machine
from advisor.sweeps.quality.issues import quality_issues
from advisor.sweeps.quality.rates import RateInterval, rate_interval

# The share of an instance's memory that is visible at least: firmware and kernel keep some.
_VISIBLE_MEMORY = 0.9


class VerifiedMachine(Struct, frozen=True, kw_only=True):
    """The machine of a trial. `instance` None: this machine as it is; `is_here`: this machine is one."""

    instance: InstanceType | None
    is_here: bool
    accelerator: Accelerator
    vcpus: float
    memory_mib: float

    @property
    def emulated_gpu(self) -> str | None:
        """The emulated GPU; None for a real one, and on a CPU."""
        return self.accelerator.gpu if self.accelerator.is_emulated else None

    def disk_rate(self, disk: Disk | None) -> DiskRate:
        """The limit on reads: none without a disk; on an instance of the type itself only the disk's
        sustained rate, without bursts."""
        if disk is None:
            return UNLIMITED
        if not self.is_here:
            return disk.rate
        if disk.is_local:  # NVMe: the catalogue only knows a lower bound, so set no limit
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
    """The machine on which to verify an instance type, or this machine (`auto`); `UsageError` if it cannot
    run here. `here` is this machine's instance type by its firmware."""
    instance = None
    if name != AUTO:
        instance = catalog.instance(name)
    elif here is not None:
        with suppress(UsageError):  # a type that the catalogue lacks
            instance = catalog.instance(here)
        if instance and task is not Task.PREPROCESSING and instance.gpu_name is None:
            instance = None  # types without a GPU are only predicted for preprocessing
    is_here = instance is not None and instance.name == here
    chosen = ON_CPU
    if task is not Task.PREPROCESSING:
        chosen = _accelerator(task, accelerator, instance, gpus_here, catalog.gpus)
    vcpus, memory_mib = float(machine.cpus), machine.memory_mib
    if instance is not None:
        if machine.cpus < instance.vcpus or machine.memory_mib < _VISIBLE_MEMORY * instance.memory_mib:
            raise UsageError(
                f"{instance.name} has {instance.vcpus} vCPUs and {instance.memory_mib / 1024:g} "
                f"GiB, this machine {machine.cpus:g} and {machine.memory_mib / 1024:.3g} GiB",
                hint=f"run this on a {instance.name} or a larger machine, or rent one: --on aws",
            )
        vcpus, memory_mib = float(instance.vcpus), min(memory_mib, float(instance.memory_mib))
    return VerifiedMachine(
        instance=instance, is_here=is_here, accelerator=chosen, vcpus=vcpus, memory_mib=memory_mib
    )


def require_gpus(machine: VerifiedMachine, wanted: int, gpus_here: Sequence[str]) -> None:
    """Raise `UsageError` if the trial needs more real GPUs than this machine has."""
    if machine.accelerator.is_gpu and wanted > len(gpus_here):
        name = machine.instance.name if machine.instance else "it"
        raise UsageError(
            f"{name} is verified on {wanted} GPUs, and this machine has {len(gpus_here)}",
            hint="run this on that instance, or say how many of its GPUs work with --max-gpus",
        )


def gpus_of_this_machine() -> tuple[str, ...]:
    """Names of this machine's NVIDIA GPUs, or of their slices where MIG divides them; empty without any."""
    slices = [gpu["mig_slices"] or [gpu] for gpu in driver_gpus()]
    return tuple(part["name"] for parts in slices for part in parts if part["name"])


def sheet_named(catalog: Catalog, name: str) -> Gpu | None:
    """The data sheet of a GPU; None for an unknown name or a slice of a card."""
    identity = identified(name, catalog.gpus)
    return None if identity.is_slice else catalog.gpus.get(identity.gpu)


def _accelerator(
    task: Task,
    text: str | None,
    instance: InstanceType | None,
    gpus_here: Sequence[str],
    sheets: Mapping[str, Gpu],
) -> Accelerator:
    if instance is None:
        usual = ON_ANY_GPU if gpus_here else ON_CPU
        return accelerator_named(text, False) if text else usual
    gpu = instance.gpu_name
    if gpu is None:
        raise UsageError(
            f"{instance.name} has no GPU, and {task} is predicted on GPUs only",
            hint="leave --instance out to measure this machine as it is",
        )
    emulated = Accelerator(kind=AcceleratorKind.EMULATED, gpu=gpu)
    if text is not None and text.lower().startswith("emulated"):
        chosen = accelerator_named(text, False) if ":" in text else emulated
        if _has_card(instance, chosen.gpu, sheets):
            return chosen
        raise UsageError(f"{instance.name} has a {gpu}", hint=f"use --accelerator {emulated}")
    by_emulation = f"--accelerator {emulated} measures its host and disk side alone"
    if text == "cpu":
        raise UsageError(f"on the CPU nothing is learnt of {instance.name}'s {gpu}", hint=by_emulation)
    if not any(_has_card(instance, name, sheets) for name in gpus_here):
        here = gpus_here[0] if gpus_here else "no NVIDIA GPU"
        raise UsageError(
            f"{instance.name} has a {gpu}, and this machine {here}",
            hint=f"run this on a {instance.name}, or: {by_emulation}",
        )
    return accelerator_named(text, False) if text else ON_ANY_GPU


def _has_card(instance: InstanceType, name: str, sheets: Mapping[str, Gpu]) -> bool:
    """True if `name` is the instance's GPU, and a whole card."""
    return is_card(instance.gpu_name or "", identified(name, sheets), sheets)


# Quality issues that the verdict already takes into account.
_IN_VERDICT = frozenset({"not_limited", "few_steps", "wide_interval", "contaminated"})

_NOTHING_LEFT = "no offer meets the target; `advisor recommend` tells what to relax"


def judged(
    request: NetworkQuestion,
    machine: VerifiedMachine,
    measurement: Measurement,
    named: InstancePrediction | None,
    predicted: Prediction | None,
    after: Recommendation,
) -> Verification:
    """The verification of a target by a measurement, which `after`, the recommendation, knows;
    `MeasuringError` for a failed or late trial."""
    if measurement.status in (Status.FAILED, Status.TIMED_OUT):
        raise MeasuringError(f"the trial failed: {measurement.reason}")
    rate = rate_interval(measurement)
    pessimistic = request.task is Task.TRAINING and measurement.trial.cache is CacheState.COLD
    verdict, reason = verdict_of(request, measurement, rate, pessimistic)
    settles = machine.is_here and machine.emulated_gpu is None
    caveats = _caveats(request, machine, measurement, pessimistic)
    if (latency_ms := request.max_latency_ms) is not None:
        text = f"the trial measures the rate; that a batch stays within {latency_ms:g} ms is predicted"
        caveats.insert(0, text)
    return Verification(
        request=request,
        instance=machine.instance,
        measurement=measurement,
        prediction=predicted,
        lower=rate.lower if rate else None,
        rate=measurement.throughput_samples_per_second,
        upper=rate.upper if rate else None,
        verdict=verdict,
        settles=settles,
        reason=reason,
        caveats=tuple(caveats),
        answer_now=spec_to_take(
            named.instance.name if named else "",
            named.total_usd_per_hour if named else None,
            verdict if settles else Verdict.UNDECIDED,
            [candidate.spec for candidate in after.ranked],
        ),
    )


def verdict_of(
    request: NetworkQuestion, measurement: Measurement, rate: RateInterval | None, pessimistic: bool
) -> tuple[Verdict, str]:
    """The verdict and its reason. A missing limit only makes a trial faster, so a miss still counts; other
    processes only make it slower, so a pass still counts."""
    target = request.target_throughput or 0.0
    if measurement.status is Status.OUT_OF_MEMORY:
        return Verdict.MISSED, f"it does not fit: {measurement.reason}"
    if rate is None:
        return Verdict.UNDECIDED, (
            "too few steps were measured; give it more --samples or --minutes, or a smaller --batch-size"
        )
    wanted, reached = format_target(target), format_rate(rate.rate)
    if rate.lower >= target:
        if measurement.limited_by is LimitedBy.NONE:
            return Verdict.UNDECIDED, "its limits could not be held here; run it as root"
        return Verdict.PASS, f"it reaches {reached}/s, {wanted} are asked for"
    if rate.upper >= target:
        low, high = format_rate(rate.lower), format_rate(rate.upper)
        return Verdict.UNDECIDED, (
            f"{wanted}/s lies within the interval of what was measured ({low} to {high}); give it "
            "more --minutes and --samples"
        )
    if measurement.status is Status.CONTAMINATED:
        return Verdict.UNDECIDED, f"it was too slow, but {measurement.reason}"
    if pessimistic:
        return Verdict.UNDECIDED, (
            f"it reaches {reached}/s reading all from the disk, and the page cache will hold a "
            "part; name the real data with --data"
        )
    return Verdict.MISSED, f"it reaches {reached}/s, not {wanted}"


def _caveats(
    request: NetworkQuestion, machine: VerifiedMachine, measurement: Measurement, pessimistic: bool
) -> list[str]:
    environment, instance, gpu = measurement.environment, machine.instance, machine.emulated_gpu
    caveats = []
    if gpu is not None:
        caveats.append(
            f"the {gpu} was emulated at its known pace: the host and disk side was measured, and "
            "no GPU was verified"
        )
    if gpu is not None and measurement.trial.processes > 1:
        caveats.append(
            f"{measurement.trial.processes} of them exchanged no gradients: what they lose by each "
            "other is in that pace, as published"
        )
    if instance is not None and not machine.is_here:
        resources = measurement.trial.resources
        caveats.append(
            f"this machine ({environment.get('cpu_model', 'unknown CPU')}, "
            f"{resources.physical_cores:g} cores) was held to the {instance.vcpus} vCPUs, "
            f"{format_mib(resources.memory_mib)} and disk of {instance.name}, whose CPU is another "
            f"({instance.cpu.model}, {instance.physical_cores} cores)"
        )
    if instance is None and measurement.trial.resources.disk == UNLIMITED:
        caveats.append("the data lay on this machine's own disk, which the prediction leaves out")
    if pessimistic:
        caveats.append("all was read from the disk, where a later epoch finds a part in memory")
    if measurement.status is Status.CONTAMINATED:
        caveats.append(f"slower than it could be: {measurement.reason}")
    data = measurement.trial.workload.dataset
    if data.name != request.dataset.name and data.storage_format != "synthetic":
        caveats.append(
            f"{data.samples:,} {data.name} of {data.bytes_per_sample / 1000:.0f} kB stood for "
            f"{request.dataset.name}"
        )
    weak = [issue for issue in quality_issues(measurement) if issue.code not in _IN_VERDICT]
    return [*caveats, *(f"{issue.code.replace('_', ' ')}: {issue.detail}" for issue in weak)]


def spec_to_take(name: str, usd: float | None, verdict: Verdict, ranked: Sequence[Spec]) -> str:
    """Advice after the named instance passed or missed: take it, or the best of `ranked`, the answer with
    the measurement."""
    if usd is not None and verdict is Verdict.PASS and not (ranked and ranked[0].total_usd_per_hour < usd):
        return f"take {name} at {format_usd(usd)}/h"
    missed = name if verdict is Verdict.MISSED else ""
    spec = next((spec for spec in ranked if spec.offer.instance.name != missed), None)
    return f"{spec.name} at {format_usd(spec.total_usd_per_hour)}/h is recommended" if spec else _NOTHING_LEFT
