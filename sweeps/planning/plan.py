"""Lists the trials of a sweep: a pure function of the request."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import (
    AUGMENTED,
    MOUNTED,
    ON_CPU,
    SERVED,
    Accelerator,
    CacheState,
    Cpu,
    DiskRate,
    Measurement,
    MemoryFormat,
    Precision,
    Resources,
    Stack,
    Status,
    Task,
    Trial,
    Workload,
)
from advisor.errors import UsageError
from advisor.sweeps.datasets.opening import dataset_on_mount
from advisor.sweeps.datasets.transforming import PILLOW
from advisor.sweeps.formats import run_facts
from advisor.sweeps.planning.networks import PlannedNetwork, SweepData, network_of_zoo


def wanted_runs(trial: Trial) -> int:
    """The number of runs that a trial should have."""
    return int(trial.plan.get("repeats", 1))


def rounds(
    trials: Sequence[Trial], done: Mapping[str, int], runs_of: Callable[[Trial], int] = wanted_runs
) -> list[list[Trial]]:
    """The runs that are left to measure, in rounds with at most one run of each trial. `done` has the number
    of existing runs, by trial_id.

    Each round has another random order (the same in every sweep). All other trials run between two runs of
    one trial, so that a slow drift of the machine shows as a spread of repeats."""
    named = [(trial, trial.trial_id) for trial in trials]
    left = {name: runs_of(trial) - done.get(name, 0) for trial, name in named}
    number, all_rounds = 0, []
    while chosen := [(trial, name) for trial, name in named if left[name] > 0]:
        for _, name in chosen:
            left[name] -= 1
        if number:
            random.Random(number).shuffle(chosen)
        all_rounds.append([trial for trial, _ in chosen])
        number += 1
    return all_rounds


def runs_made(row: Measurement) -> int:
    """The number of good runs in a trial's row, including those on another CPU."""
    return 1 + len(row.repeats) + len([run for run in row.attempts if run["status"] == Status.OK.value])


def merged(row: Measurement | None, fresh: Measurement) -> Measurement:
    """The trial's row after a further run: good runs become repeats, others attempts. A good run on another
    CPU than the first one's is an attempt too, since a spread of repeats must be that of one machine."""
    if row is None:
        return fresh
    if fresh.status is not Status.OK or (row.status is Status.OK and _cpu_model(row) != _cpu_model(fresh)):
        return replace(row, attempts=(*row.attempts, *fresh.attempts, run_facts(fresh)))
    if row.status is not Status.OK:
        return replace(fresh, attempts=(*row.attempts, run_facts(row), *fresh.attempts))
    return replace(row, repeats=(*row.repeats, run_facts(fresh)), attempts=(*row.attempts, *fresh.attempts))


def _cpu_model(row: Measurement) -> str:
    return str(row.environment.get("cpu_model", ""))


def by_turns(trials: Sequence[Trial]) -> list[Trial]:
    """The trials with their accelerators in turn, so that nodes of every kind have work at once."""
    queues = defaultdict(list)
    for trial in trials:
        queues[trial.accelerator].append(trial)
    return [trial for turn in zip_longest(*queues.values()) for trial in turn if trial]


# Settings of a plan that its worker reads.
# `"input": "synthetic"` in a plan: one batch on the device, without a data set or input pipeline.
SYNTHETIC = "synthetic"
# `"clock": "cpu_seconds"` in a plan: steps are timed in CPU seconds of their one thread, which other load
# does not change.
CPU_CLOCK = "cpu_seconds"
PREFETCH_FACTOR = 2  # batches that each loader process prepares ahead; torch's default
# Longest measurement of the GPU alone after the main run; a shorter main run shortens it.
_GPU_ALONE_SECONDS = 10.0


def is_synthetic(plan: Mapping[str, Any]) -> bool:
    """Return whether a trial measures its network without an input pipeline."""
    return plan.get("input") == SYNTHETIC


def gpu_alone_seconds(plan: Mapping[str, Any]) -> float:
    """Seconds for which a trial on a GPU times the network alone, after its main run."""
    if is_synthetic(plan):
        return 0.0
    return min(_GPU_ALONE_SECONDS, float(plan.get("measure_seconds", _GPU_ALONE_SECONDS)))


def loader_workers(vcpus: float) -> int:
    """The number of loader processes: one for each vCPU, at least one.

    Even below one vCPU a separate process can decode while the accelerator is fed; more processes than vCPUs
    only cost memory and context switches."""
    return max(1, math.floor(vcpus))


def compute_threads(vcpus: float) -> int:
    """The number of threads of an operation in the main process: one for each vCPU, like torch's default."""
    return max(1, math.floor(vcpus))


MAX_TRIALS = 10_000
# Seconds that one step of a workload takes on an emulated GPU.
StepSeconds = Callable[[Workload, str], float]
# A GPU's clocks take up to a minute to settle under heat and power cap: the first minute does not count, the
# second one does.
GPU_SECONDS, USUAL_SECONDS = 60.0, 4.0
_LEAST_MAX_SECONDS = 20.0
# A trial's time besides its window: start-up, page cache, drained batches, stages.
_OVERHEAD_SECONDS = 11.0
_SIXTEEN_BITS = (Precision.AMP, Precision.BF16)


class Machine(Struct, frozen=True, kw_only=True):
    """The machine that trials share; a CPU quota makes fractions. `cpu` is None for unknown nodes."""

    cpus: float
    physical_cores: float
    memory_mib: float
    cpu: Cpu | None


class SweepRequest(Struct, frozen=True, kw_only=True):
    """A grid of trials.

    Each trial runs until its rate is known to `rel_error`, for at least `measure_seconds` of steady state
    (None: a minute on a GPU, else 4 s) and at most `max_seconds` (None: 20 s, or twice the least); or for
    exactly `iterations` steps. On a GPU, a warm trial of a minute or more follows a minute that does not
    count. `repeats` is the number of runs of each trial. `disk_paths` has the mount of a disk by type; data
    sets were copied there. With a `gpu_count` each GPU has a process and a batch; vCPUs, memory and disk are
    the total of all processes.

    `memory_formats` and `stacks` apply to networks that are computed, on the CPU or a GPU. Without
    `memory_formats`, networks for images run in both formats on a GPU in 16 bits, where the difference is
    large because tensor cores take channels last."""

    networks: tuple[str, ...]
    tasks: tuple[Task, ...]
    vcpus: tuple[float, ...]
    memory_mib: tuple[float, ...]
    disks: tuple[DiskRate, ...]
    accelerator: Accelerator
    data: SweepData
    batch_sizes: tuple[int, ...] = (32,)
    caches: tuple[CacheState, ...] = (CacheState.WARM,)
    precision: Precision = Precision.FP32
    memory_formats: tuple[MemoryFormat, ...] = ()
    stacks: tuple[Stack, ...] = (Stack.EAGER,)
    cudnn_benchmark: bool = False
    synchronise_each_step: bool = False
    measure_seconds: float | None = None
    max_seconds: float | None = None
    min_steps: int = 20
    rel_error: float = 0.02
    iterations: int | None = None
    repeats: int = 1
    decoder: str = PILLOW
    disk_paths: Mapping[str, str] = field(default_factory=dict)
    gpu_count: int = 1


def plan_trials(
    requests: Iterable[SweepRequest],
    machine: Machine,
    step_seconds: StepSeconds,
    describe: Callable[[str], PlannedNetwork] = network_of_zoo,
) -> list[Trial]:
    """One trial for each distinct cell of the grids.

    The order is random but always the same, so that a slow drift of the machine does not affect one resource
    alone. Raises `UsageError` if the machine is too small, or for more than 10,000 trials."""
    trials: dict[str, Trial] = {}
    for request in requests:
        _refuse_bad_size(request)
        _refuse_impossible(request, machine)
        for trial in _trials_of(request, machine, step_seconds, describe):
            trials.setdefault(trial.trial_id, trial)
    return [trials[trial_id] for trial_id in sorted(trials)]


def _trials_of(
    request: SweepRequest,
    machine: Machine,
    step_seconds: StepSeconds,
    describe: Callable[[str], PlannedNetwork],
) -> Iterable[Trial]:
    for name, task, batch_size in itertools.product(request.networks, request.tasks, request.batch_sizes):
        network = describe(name)
        network.refuse_impossible(task, batch_size)
        stored = request.data.for_network(network)
        # Preprocessing ends before the accelerator: none is used or emulated.
        accelerator = ON_CPU if task is Task.PREPROCESSING else request.accelerator
        processes = 1 if task is Task.PREPROCESSING else request.gpu_count
        plain = Workload(
            network=name,
            task=task,
            batch_size=batch_size,
            precision=request.precision,
            dataset=stored.profile,
        )
        axes = (request.vcpus, request.memory_mib, request.disks, request.caches)
        workloads = _workloads(request, network, plain)
        for workload, vcpus, memory_mib, disk, cache in itertools.product(workloads, *axes):
            emulated, mount = accelerator.is_emulated, request.disk_paths.get(disk.type, "")
            on_mount = mount and stored.path
            yield Trial(
                workload=workload,
                resources=replace(_resources(vcpus, memory_mib, disk, machine), gpu_count=processes),
                accelerator=accelerator,
                emulated_step_seconds=step_seconds(workload, accelerator.gpu) if emulated else None,
                cache=cache,
                dataset_path=str(dataset_on_mount(Path(mount), stored.path)) if on_mount else stored.path,
                plan=_trial_settings(request, network, accelerator, vcpus / processes, disk, cache, task),
            )


def _workloads(request: SweepRequest, network: PlannedNetwork, plain: Workload) -> list[Workload]:
    """The workload in each memory format and stack that affects its computation."""
    if plain.task is Task.PREPROCESSING or request.accelerator.is_emulated:
        return [plain]
    both = request.accelerator.is_gpu and request.precision in _SIXTEEN_BITS
    formats = request.memory_formats or (tuple(MemoryFormat) if both else (MemoryFormat.CONTIGUOUS,))
    if not network.info.takes_images:
        formats = (MemoryFormat.CONTIGUOUS,)
    pairs = itertools.product(formats, request.stacks)
    return [replace(plain, memory_format=images, stack=stack) for images, stack in pairs]


def _resources(vcpus: float, memory_mib: float, disk: DiskRate, machine: Machine) -> Resources:
    threads_per_core = max(1, int(machine.cpus / machine.physical_cores + 1e-9))
    cores = -(-vcpus // threads_per_core)
    return Resources(
        vcpus=vcpus, physical_cores=min(vcpus, cores), memory_mib=memory_mib, disk=disk, cpu=machine.cpu
    )


def _trial_settings(
    request: SweepRequest,
    network: PlannedNetwork,
    accelerator: Accelerator,
    vcpus: float,
    disk: DiskRate,
    cache: CacheState,
    task: Task,
) -> dict[str, Any]:
    """The settings of the measurement. Usual values are left out, so that trial ids do not change."""
    least = request.measure_seconds or (GPU_SECONDS if accelerator.is_gpu else USUAL_SECONDS)
    # A cold epoch is read only once, so it has no steps to spare for warming up.
    heats = accelerator.is_gpu and least >= GPU_SECONDS and cache is CacheState.WARM
    unusual = {
        "warmup_seconds": (GPU_SECONDS if heats else 0.0, 0.0),
        "iterations": (request.iterations, None),
        "repeats": (request.repeats, 1),
        "samples_per_row": (network.info.samples_per_row, 1),
        "network_fingerprint": (network.fingerprint, ""),
        "decoder": (request.decoder if network.photographs else PILLOW, PILLOW),
        "transform": (SERVED if network.photographs and task is Task.INFERENCE else AUGMENTED, AUGMENTED),
        "disk_source": (MOUNTED if disk.type in request.disk_paths else "", ""),
        "cudnn_benchmark": (request.cudnn_benchmark and accelerator.is_gpu, False),
        # A CPU computes each step before the next one anyway.
        "synchronise_each_step": (request.synchronise_each_step and not accelerator.is_cpu, False),
    }
    return {
        "measure_seconds": least,
        "min_steps": request.min_steps,
        "max_seconds": request.max_seconds or max(_LEAST_MAX_SECONDS, 2 * least),
        "rel_error": request.rel_error,
        "loader_workers": loader_workers(vcpus) if network.photographs else 0,
        "prefetch_factor": PREFETCH_FACTOR,
        **{name: value for name, (value, usual) in unusual.items() if value != usual},
    }


def usual_seconds(*trials: Trial) -> float:
    """The mean seconds that one run of such trials takes, estimated before any was measured."""
    windows = [
        trial.plan.get("warmup_seconds", 0.0)
        + trial.plan.get("measure_seconds", USUAL_SECONDS)
        + (gpu_alone_seconds(trial.plan) if trial.accelerator.is_gpu else 0.0)
        for trial in trials
    ]
    return float(_OVERHEAD_SECONDS + fmean(windows or [USUAL_SECONDS]))


def _refuse_bad_size(request: SweepRequest) -> None:
    axes = ("networks", "tasks", "batch_sizes", "vcpus", "memory_mib", "disks", "caches")
    count = math.prod(len(getattr(request, axis)) for axis in axes)
    if not count:
        raise UsageError("a sweep needs at least one network, task, vCPU, memory and disk")
    if count > MAX_TRIALS:
        raise UsageError(
            f"{count:,} trials are more than the {MAX_TRIALS:,} a sweep may have", hint="ask for fewer values"
        )


def _refuse_impossible(request: SweepRequest, machine: Machine) -> None:
    if max(request.vcpus) > machine.cpus:
        raise UsageError(
            f"{max(request.vcpus):g} vCPUs asked for, but this machine has {machine.cpus:g}",
            hint=f"ask for at most {machine.cpus:g}, or for a larger machine: --ray-address, or "
            "`advisor sweep run .. --on aws --dry-run`",
        )
    if max(request.memory_mib) > machine.memory_mib:
        raise UsageError(
            f"{max(request.memory_mib):,.0f} MiB of memory asked for, but this machine has "
            f"{machine.memory_mib:,.0f} MiB",
            hint="ask for less",
        )
    if min(request.vcpus) < 0.1:
        raise UsageError("a trial needs at least 0.1 vCPUs")
