"""Plans and executes sweeps: joins the grid, the data, the pace of emulated GPUs, executor and store."""

from __future__ import annotations

import logging
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.catalog.prices import OfferQuery
from advisor.domain import (
    ON_ANY_GPU,
    ON_CPU,
    Accelerator,
    CacheState,
    DiskChoice,
    DiskRate,
    Market,
    Precision,
    Stack,
    Status,
    Task,
    Trial,
    Workload,
)
from advisor.errors import MeasuringError, UsageError
from advisor.messages import FieldName, Message
from advisor.models.performance import published_step_seconds
from advisor.questions.fields import error_in
from advisor.runs.probing import kept_fingerprints
from advisor.runs.sweep_questions import PlannedSweep, SweepGrid, SweepRun
from advisor.sweeps.datasets.transforming import decoder
from advisor.sweeps.machine.environment import local_cpu, machine_size
from advisor.sweeps.machine.processes import busy_share
from advisor.sweeps.measurement_store import MeasurementStore
from advisor.sweeps.planning.disks import parse_named_rate
from advisor.sweeps.planning.networks import SweepData, planned_network
from advisor.sweeps.planning.plan import Machine, SweepRequest, by_turns, plan_trials, rounds
from advisor.sweeps.run.ray.cluster import trials_at_a_time
from advisor.sweeps.run.runner import (
    RETRIED,
    Executor,
    InlineExecutor,
    Outcome,
    ProcessExecutor,
    Progress,
    run_sweep,
    stored_runs,
)
from advisor.sweeps.trial.ownership import owning
from advisor.sweeps.trial.trial_process import BUSY_SHARE, measure_trial

_LOG = logging.getLogger(__name__)
_VCPUS = (0.5, 1.0, 2.0)
# The first size holds the worker and about half of the data set (1 GB), the second all of both. In 800 MiB
# AlexNet on two vCPUs is sometimes killed.
_MEMORY_MIB = (880.0, 3072.0)
# The slow disk binds where the data set does not fit in memory. It is a named rate, not a type such as st1,
# since at st1's 20 IOPS for half a TiB a handful of steps would take minutes.
_DISKS = ("slow=12MiB/s", "gp3")
_TOO_LITTLE_MEMORY_MIB = 160.0
_MAX_SECONDS = 8.0
_EMULATED_T4 = Accelerator.parse("emulated:T4")


def requests_of_preset(data: SweepData, disk_rate: Callable[[str], DiskRate]) -> list[SweepRequest]:
    """The preset `small`: trials to which a model can be fitted, in less than ten minutes on 2 cores.

    They vary vCPUs and memory on an emulated T4 and on the CPU, and include a slow disk with data larger than
    memory, a network bound by its accelerator, the input pipeline alone, and a trial that runs out of
    memory."""
    slow, fast = (disk_rate(text) for text in _DISKS)
    googlenet = SweepRequest(
        networks=("googlenet",),
        tasks=(Task.INFERENCE,),
        vcpus=_VCPUS,
        memory_mib=_MEMORY_MIB,
        disks=(fast,),
        accelerator=_EMULATED_T4,
        data=data,
        batch_sizes=(_BATCH_SIZE,),
        max_seconds=_MAX_SECONDS,
    )
    ample, both = _MEMORY_MIB[1:], (Task.TRAINING, Task.INFERENCE)
    alexnet = replace(googlenet, networks=("alexnet",), accelerator=ON_CPU, batch_sizes=(16,))
    return [
        googlenet,
        replace(googlenet, memory_mib=_MEMORY_MIB[:1], disks=(slow,)),
        alexnet,
        replace(googlenet, networks=("resnet50",), tasks=both, memory_mib=ample),
        replace(googlenet, tasks=(Task.PREPROCESSING,), disks=(slow,)),
        replace(alexnet, tasks=(Task.TRAINING,), vcpus=(2.0,), memory_mib=ample),
        replace(googlenet, vcpus=(1.0,), memory_mib=(_TOO_LITTLE_MEMORY_MIB,)),
    ]


DEFAULT_SAMPLES = 10_000
_BATCH_SIZE = 32
_DEFAULT_DISK_GIB = 500.0
# For a cluster, Ray checks the nodes when it places a trial; this machine's size does not matter.
_ANY_MACHINE = Machine(cpus=4096, physical_cores=4096, memory_mib=2**30, cpu=None)


def plan_sweep(grid: SweepGrid, data: SweepData, *, anywhere: bool = False) -> list[Trial]:
    """The trials of a sweep, in order; with `anywhere` for a machine without limits, not this one."""
    grid.require_trials()
    types = {disk_rate(text).type for text in grid.disks}
    for disk_type, _ in grid.disk_path:
        if not grid.preset and disk_type not in types:
            raise error_in(
                "disk_path",
                "{field} {disk_type}=.. is given, but no {disks} {disk_type}",
                disk_type=disk_type,
            )
    elsewhere = anywhere or bool(grid.ray_address)
    requests = requests_of_preset(data, disk_rate) if grid.preset else _requests(grid, data, elsewhere)
    machine = _ANY_MACHINE if elsewhere else local_machine()
    # How to measure (precision, repeats, mounts) applies to presets, too.
    requests = [
        replace(
            request,
            rel_error=grid.rel_error,
            measure_seconds=grid.measure_seconds or request.measure_seconds,
            repeats=grid.repeats,
            iterations=grid.iterations,
            decoder=grid.decoder,
            disk_paths={
                disk_type: str(mount)
                for disk_type, mount in grid.disk_path
                if disk_type in {disk.type for disk in request.disks}
            },
        )
        for request in requests
    ]
    trials = plan_trials(requests, machine, step_seconds, planned_network)
    _refuse_unused_settings(grid, trials)
    return trials


def execute_sweep(
    trials: Sequence[Trial],
    sweep: SweepRun,
    store: MeasurementStore,
    *,
    on_progress: Callable[[Progress], None],
    since: datetime | None = None,
    executor: Callable[[], Executor] | None = None,
) -> Outcome:
    """Measure the trials that are missing or older than `since`, by `executor` or the one that the question
    names; `MeasuringError` if this machine cannot measure now."""
    if sweep.ray_address:
        trials = by_turns(trials)
    again: frozenset[Status] = RETRIED if sweep.retry_failed else frozenset()
    if not rounds(trials, stored_runs(trials, store, again, since=since)[0]):
        return Outcome()
    with measuring_here(trials, sweep, executor) as chosen:
        machine = probed_machine(sweep)
        return run_sweep(
            trials, chosen, store, on_progress=on_progress, again=again, since=since, machine=machine
        )


def probed_machine(sweep: SweepRun | None = None) -> dict[str, Any]:
    """Facts of this machine to add to a row's environment; empty for a cluster, whose nodes add theirs."""
    kept = () if sweep and sweep.ray_address else kept_fingerprints()
    return {"fingerprint": kept[0]} if kept else {}


def step_seconds(workload: Workload, gpu: str) -> float:
    """Seconds that a GPU takes for one batch, from published measurements."""
    return published_step_seconds(
        workload.network, workload.task, workload.precision, workload.batch_size, gpu
    )


def disk_rate(text: str) -> DiskRate:
    """The rate of `slow=20MiB/s`, `unlimited`, or an AWS disk (`st1:250GiB`; `gp3` means 500 GiB)."""
    named = parse_named_rate(text)
    if named:
        return named
    disks = load_catalog().disks
    try:
        disk_type, size_gib = disks.parse(text)
    except UsageError as error:
        if error.code == "unknown_name":
            near = str(error.hint).rstrip("?")
            error.hint = f"{near}, or a rate of your own: slow=20MiB/s,500iops"
        raise
    return disks.rate(DiskChoice(type=disk_type, size_gib=size_gib or _DEFAULT_DISK_GIB))


def local_machine() -> Machine:
    """This machine, as far as this process may use it: in a container, its CPU quota and memory limit."""
    size = machine_size()
    return Machine(
        cpus=size.vcpus, physical_cores=size.physical_cores, memory_mib=size.memory_mib, cpu=local_cpu()
    )


def has_cuda() -> bool:
    """True if an NVIDIA driver is loaded; it avoids torch, which takes a second to load."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def _refuse_unused_settings(grid: SweepGrid, trials: Sequence[Trial]) -> None:
    """Raise `UsageError` for a setting that applies to no trial."""
    for name in ("memory_format", "stack"):
        if not {getattr(trial.workload, name) for trial in trials}.issuperset(getattr(grid, name)):
            raise error_in(
                name,
                "{field}: no trial here computes with that",
                hint="it needs a network on a real GPU or CPU, and a layout needs images",
            )
    for name in ("cudnn_benchmark", "synchronise_each_step"):
        if getattr(grid, name) and not any(trial.plan.get(name) for trial in trials):
            raise error_in(name, "{field}: no trial here computes on such a GPU", hint="leave it out")


def _requests(grid: SweepGrid, data: SweepData, elsewhere: bool) -> list[SweepRequest]:
    """One request for each accelerator."""
    decoder(grid.decoder)  # raises now, not during the sweep, if it is not installed
    return [
        SweepRequest(
            networks=tuple(planned_network(name).info.name for name in grid.networks),
            tasks=grid.tasks,
            vcpus=grid.vcpus,
            memory_mib=grid.memory,
            disks=tuple(disk_rate(text) for text in grid.disks),
            accelerator=accelerator_named(accelerator, elsewhere),
            data=data,
            batch_sizes=grid.batch_sizes or (_BATCH_SIZE,),
            caches=grid.cache or (CacheState.WARM,),
            precision=grid.precision or Precision.FP32,
            memory_formats=grid.memory_format,
            stacks=grid.stack or (Stack.EAGER,),
            cudnn_benchmark=grid.cudnn_benchmark,
            synchronise_each_step=grid.synchronise_each_step,
        )
        for accelerator in grid.accelerator or (None,)
    ]


def accelerator_named(text: str | None, elsewhere: bool) -> Accelerator:
    """The accelerator for `cuda`, `cuda:<GPU>`, `cpu` or `emulated:<GPU>`; `UsageError` for `cuda` on a
    machine without a GPU, unless trials run `elsewhere`."""
    if text is None:
        return ON_ANY_GPU if has_cuda() and not elsewhere else Accelerator.parse("emulated:T4")
    kind, colon, gpu = text.partition(":")
    try:
        accelerator = Accelerator.parse(f"{kind.lower()}{colon}{gpu}")
    except ValueError as error:
        raise UsageError(
            "no accelerator '{value}'",
            value=text,
            field="accelerator",
            hint="known: cuda, cpu, cuda:T4 (that card), emulated:T4 (its known step times)",
        ) from error
    if accelerator.is_gpu and not elsewhere and not has_cuda():
        raise error_in(
            "accelerator",
            "no NVIDIA GPU here",
            hint="use {accelerator} emulated:T4 or cpu, or name a cluster with --ray-address",
        )
    # Ray and the data sheets write GPU names in upper case.
    return replace(accelerator, gpu=gpu.upper()) if accelerator.is_gpu else accelerator


@contextmanager
def measuring_here(
    trials: Sequence[Trial], sweep: SweepRun, executor: Callable[[], Executor] | None = None
) -> Iterator[Executor]:
    """The executor for the trials, while this process holds the machine's sweep lock. `MeasuringError`,
    before anything is measured, if another sweep has the lock, or some trials can never run."""
    with (
        only_sweep_here(bool(sweep.ray_address)),
        closing(executor() if executor else _executor(trials, sweep)) as chosen,
    ):
        chosen.refuse_impossible(trials)
        if not sweep.ray_address and (share := busy_share()) > BUSY_SHARE:
            _LOG.warning(
                "others keep this machine busy (tasks waited for a CPU in %.0f %% of the last 10 s); "
                "of trials that they spoil: %s (--when-busy)",
                100 * share,
                sweep.when_busy,
            )
        yield chosen


def executor_name(name: str | None, ray_address: str | None, trials: Sequence[Trial]) -> str:
    """The executor's name; by default Ray for a cluster or several GPUs, else `process`, since Ray on one
    machine would only take CPU time."""
    return name or ("ray" if ray_address or trials_at_a_time(trials) > 1 else "process")


def _executor(trials: Sequence[Trial], sweep: SweepRun) -> Executor:
    name = executor_name(sweep.executor, sweep.ray_address, trials)
    if name == "ray":
        from advisor.sweeps.run.ray.executor import RayExecutor

        slots = 1 if sweep.ray_address else trials_at_a_time(trials)
        return RayExecutor(sweep.ray_address, slots=slots, when_busy=sweep.when_busy)
    if name == "inline":
        return InlineExecutor()
    return ProcessExecutor(partial(measure_trial, when_busy=sweep.when_busy))


def _lock_name() -> str:
    """Name of the machine's sweep lock; `ADVISOR_SWEEP_LOCK` changes it on hosts that act as several."""
    return f"instance-sizing-advisor/{os.environ.get('ADVISOR_SWEEP_LOCK', 'sweep')[-80:]}"


def sweep_runs_here() -> bool:
    """True if a process has the machine's sweep lock; taking it to find out could stop a sweep's start."""
    try:
        return f"@{_lock_name()}" in Path("/proc/net/unix").read_text().split()
    except OSError:
        return False


@contextmanager
def only_sweep_here(elsewhere: bool) -> Iterator[None]:
    """Hold the machine's sweep lock during the block, since two sweeps would spoil each other's results. It
    is an abstract socket, which ends with its process. `MeasuringError` if another sweep has it."""
    with socket.socket(socket.AF_UNIX) as lock, owning():
        try:
            if not elsewhere:
                lock.bind(f"\0{_lock_name()}")
        except OSError as error:
            raise MeasuringError(
                "another sweep runs on this machine, and two would spoil each other",
                hint="wait for it to end",
            ) from error
        yield


def host_usd_per_hour(sweep: PlannedSweep) -> float | None:
    """The price of this host: as given, or the lowest on-demand price of its type; None if neither is given.
    `UsageError` for an unknown type, or one without a price."""
    if not sweep.instance:
        return sweep.usd_per_hour
    catalog = load_catalog()
    instance = catalog.instance(sweep.instance[0])
    query = OfferQuery(cloud=instance.cloud, market=Market.ON_DEMAND, instances=(instance.name,))
    prices = [offer.price.usd_per_hour for offer in catalog.offers(query)]
    if not prices:
        raise UsageError(
            "{instance} has no price in the catalogue",
            instance=instance.name,
            field="instance",
            hint=Message("give {price}", price=FieldName("usd_per_hour")),
        )
    return min(prices)
