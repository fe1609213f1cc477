"""Measures one trial in this process; the worker's main module. Needs torch.

It loads everything, prepares the page cache, waits for the limits, measures end to end, and then measures
each stage separately."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.domain import (
    MIB,
    SHUFFLED,
    AcceleratorKind,
    CacheState,
    LimitedBy,
    Measurement,
    Stack,
    Stage,
    Status,
    Task,
    Trial,
)
from advisor.domain.gpu_names import is_card
from advisor.errors import DataError, MeasuringError
from advisor.models.zoo.opening import Runnable, open_network
from advisor.models.zoo.torchvision_operators import substituted_operators
from advisor.sweeps.datasets.opening import open_dataset
from advisor.sweeps.datasets.source import LatencyInjected, SampleSource
from advisor.sweeps.events import emit
from advisor.sweeps.machine.environment import describe_machine, describe_versions
from advisor.sweeps.machine.processes import Contention
from advisor.sweeps.planning.plan import CPU_CLOCK, compute_threads, is_synthetic
from advisor.sweeps.quality.issues import is_gpu_shared
from advisor.sweeps.quality.rates import is_steady
from advisor.sweeps.trial.child import LOADED, READY
from advisor.sweeps.trial.limits import MemoryPeak
from advisor.sweeps.worker.engine import (
    EmulatedGpu,
    Engine,
    TorchEngine,
    forget_peaks,
    gpu_uuid,
    peaks,
    present_gpu,
    torch_facts,
)
from advisor.sweeps.worker.group import CommonRun, Group, common_timed_run, exchanges_gradients, joined_group
from advisor.sweeps.worker.inputs import (
    Batches,
    EndlessOrder,
    cached_share,
    device_batch,
    evict,
    fill,
    open_batches,
)
from advisor.sweeps.worker.stages import stage_results
from advisor.sweeps.worker.timed_run import QUEUE_DEPTH, StepRunner, TimedRun, timed_run

# The cache of compiled kernels, which outlives a trial's scratch folder.
_COMPILED = Path("~/.cache/instance-sizing-advisor/compiled")


def runner_of(trial: Trial, opened: Runnable) -> StepRunner:
    """The runner of a trial's steps, compiled if the trial's stack is.

    A GPU has two steps in flight, as in a plain training loop, unless the trial synchronises each step; a CPU
    has none. Raises `MeasuringError` if the trial names another GPU than the present one."""
    ahead = not trial.accelerator.is_cpu
    synchronised = bool(trial.plan.get("synchronise_each_step"))
    runner = StepRunner(_engine(trial, opened), depth=QUEUE_DEPTH if ahead and not synchronised else 0)
    if isinstance(runner.engine, TorchEngine) and trial.workload.stack is Stack.COMPILE:
        runner.submit(*runner.engine.batch(trial.workload.batch_size))
        runner.restart()
    return runner


def _engine(trial: Trial, opened: Runnable) -> Engine:
    workload = trial.workload
    if workload.task is Task.PREPROCESSING:
        return Engine()
    if trial.emulated_step_seconds is not None:
        return EmulatedGpu(trial.emulated_step_seconds)
    if workload.stack is Stack.COMPILE:
        with suppress(RuntimeError):  # no home folder: kernels are compiled each time
            os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(_COMPILED.expanduser()))
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(compute_threads(trial.resources.vcpus))
    if trial.accelerator.gpu:
        _refuse_another_gpu(trial.accelerator.gpu)
    torch.backends.cudnn.benchmark = bool(trial.plan.get("cudnn_benchmark"))
    return TorchEngine(
        opened,
        parallel=exchanges_gradients(trial),
        device=trial.accelerator.kind.value,
        task=workload.task,
        precision=workload.precision,
        memory_format=workload.memory_format,
        stack=workload.stack,
        clock=time.process_time if trial.plan.get("clock") == CPU_CLOCK else time.perf_counter,
    )


def _refuse_another_gpu(requested: str) -> None:
    from advisor.catalog import load_catalog  # only trials that name their GPU

    sheets = load_catalog().gpus
    present = present_gpu(sheets)
    if is_card(requested, present, sheets):
        return
    is_here = present.gpu
    if present.is_slice:
        is_here = f"a slice of a card ({torch.cuda.get_device_name()}, {present.memory_mib:,.0f} MiB)"
    raise MeasuringError(
        f"{requested} was requested, but the GPU of this node is: {is_here}",
        hint="correct the node's resources, or measure what it is with --accelerator cuda",
    )


Indices = NDArray[np.intp]  # of files
_LOOKED_AT_FILES = 500
# Far more than a trial reads in its minutes.
_MOST_READ_FILES = 2**18
_MORE_THAN_FITS = 1.5  # sizes of files differ
# Above this share of its limit, a disk or an emulated GPU counts as fully used.
_AT_LIMIT = 0.97


def measure(
    trial: Trial,
    job: Mapping[str, Any],
    get_set: Callable[[str], None] = lambda _stage: None,
    keep: Callable[[Measurement], None] = lambda _measurement: None,
) -> Measurement:
    """Measure the trial. `get_set` returns when the limits of a stage (`LOADED`, then `READY`) are on. `keep`
    gets the end-to-end measurement before the stages run, as a failing stage may end this process."""
    started_at = datetime.now(UTC).isoformat()
    group = joined_group(trial, job)
    opened, runner, source = _loaded(trial)
    group.wait()
    files: Sequence[Path] = source.files if source else ()
    emit("loaded", trial_id=trial.trial_id, files=len(files))
    get_set(LOADED)
    peak = MemoryPeak(job["usage_source"])
    read = _read_first(trial, files)
    _prepare_cache(trial, files, read, bool(job.get("shares_disk")))
    shares = {"cached_share_before": _cached_share(files, read), "cached_share_after": None}
    emit("cache_prepared", trial_id=trial.trial_id, cached_share=shares["cached_share_before"])
    get_set(READY)
    group.wait()
    forget_peaks(_device(trial))
    gpu = gpu_uuid() if _device(trial) == AcceleratorKind.CUDA else None
    with closing(_batches(trial, opened, runner, source, group)) as batches:
        if group.size > 1:
            window = common_timed_run(trial, job, CommonRun(trial, runner, batches, group), group, gpu)
        else:
            window = timed_run(trial, job, runner, batches, gpu)
    _emit_steps(trial, window)
    with suppress(DataError):  # files removed meanwhile do not spoil the measurement
        shares["cached_share_after"] = _cached_share(files, read)
    measured = _measurement(trial, job, window, runner, shares)
    measured = replace(measured, peak_memory_mib=peak.read(), started_at=started_at)
    if is_synthetic(trial.plan):
        group.leave()
        rate = trial.samples_per_step / fmean(measured.step_seconds)
        return replace(measured, stage_rates={Stage.ACCELERATOR.value: rate})
    keep(measured)
    stages = stage_results(trial, job, opened, runner, source)
    group.wait()
    group.leave()
    environment = {**measured.environment, **stages.environment}
    return replace(measured, stage_rates=stages.rates, environment=environment)


def accompany(trial: Trial, job: Mapping[str, Any], rank: int) -> None:
    """Run another rank of the trial: the same steps on another GPU and share of the data."""
    group = joined_group(trial, job, rank)
    opened, runner, source = _loaded(trial)
    group.wait()
    # Waits while the first rank prepares the page cache.
    group.wait()
    with closing(_batches(trial, opened, runner, source, group)) as batches:
        run = CommonRun(trial, runner, batches, group)
        run.prepare()
        run.timed()
    if not is_synthetic(trial.plan):
        # Waits while the first rank measures its GPU alone.
        group.wait()
    group.leave()


def _loaded(trial: Trial) -> tuple[Runnable, StepRunner, SampleSource | None]:
    torch.set_num_threads(compute_threads(trial.resources.vcpus / trial.processes))
    torch.manual_seed(0)
    opened = open_network(trial.workload.network)
    if opened.fingerprint != trial.plan.get("network_fingerprint", ""):
        raise MeasuringError(
            f"{trial.workload.network} is no longer the file that was planned", hint="plan again"
        )
    runner = runner_of(trial, opened)
    if opened.makes_batches or is_synthetic(trial.plan):
        return opened, runner, None
    source, latency = open_dataset(Path(trial.dataset_path)), trial.resources.disk.read_latency_seconds
    # A mounted disk has its real latency; for another one, that of its type is emulated.
    if latency is not None and not trial.on_mounted_disk:
        source = LatencyInjected(source, latency)
    return opened, runner, source


def _emit_steps(trial: Trial, window: TimedRun) -> None:
    emit(
        "steady" if is_steady(window.step_seconds, trial.loader_period) else "not_steady",
        trial_id=trial.trial_id,
        warmup_steps=len(window.warmup_seconds),
        warmup_seconds=round(sum(window.warmup_seconds), 3),
        steps=len(window.step_seconds),
        seconds=round(window.wall_seconds, 3),
    )


def _measurement(
    trial: Trial, job: Mapping[str, Any], window: TimedRun, runner: StepRunner, shares: Mapping[str, Any]
) -> Measurement:
    contention, used = _contention(trial, job, window), window.used
    interfered = contention.interfered and trial.plan.get("clock") != CPU_CLOCK
    spoiled = interfered or is_gpu_shared(window.machine)
    return Measurement(
        trial=trial,
        status=Status.CONTAMINATED if spoiled else Status.OK,
        limited_by=LimitedBy.HOST,
        step_seconds=tuple(window.step_seconds),
        warmup_step_seconds=tuple(window.warmup_seconds),
        cpu_seconds=used.cpu_seconds,
        wall_seconds=window.wall_seconds,
        read_bytes=used.read_bytes,
        environment={
            **describe_machine(),
            "versions": describe_versions("torch", "torchvision", "numpy", "Pillow"),
            "gpu": None,
            **torch_facts(_device(trial)),
            **peaks(_device(trial), window.machine.get("gpu_process_memory_mib")),
            "anonymous_memory_mib": used.anonymous_memory_mib,
            "steady": is_steady(window.step_seconds, trial.loader_period),
            "substituted_operators": list(substituted_operators()),
            "read_operations": used.read_operations,
            "own_cores": contention.own_cores,
            "other_cores": contention.other_cores,
            "waited_cores": contention.waited_cores,
            "sibling_cores": contention.sibling_cores,
            "pressure": {name: some / window.wall_seconds for name, some in used.pressure.items()},
            **shares,
            **window.machine,
            **runner.engine.environment,
        },
    )


def _contention(trial: Trial, job: Mapping[str, Any], window: TimedRun) -> Contention:
    """The use of the trial's CPUs by other processes. If an emulated GPU never waits for a batch, or the disk
    runs at its limit, that bounds the trial, and others' CPU use does not matter."""
    seconds, disk, used = window.wall_seconds, trial.resources.disk, window.used
    paced, waited = trial.emulated_step_seconds, used.waited_seconds
    read = (used.read_bytes or 0) / MIB / seconds
    at_limit = bool(
        (paced and window.step_seconds and fmean(window.step_seconds) <= paced / _AT_LIMIT)
        or (disk.read_mib_per_second and read >= _AT_LIMIT * disk.read_mib_per_second)
        or (disk.read_iops and (used.read_operations or 0) / seconds >= _AT_LIMIT * disk.read_iops)
    )
    return Contention(
        own_cores=used.cpu_seconds / seconds,
        busy_cores=window.busy_seconds / seconds,
        cpus=len(job["cpus"]),
        vcpus=trial.resources.vcpus,
        waited_cores=None if waited is None else waited / seconds,
        sibling_cores=window.sibling_seconds / seconds,
        at_limit=at_limit,
    )


def _batches(
    trial: Trial, opened: Runnable, runner: StepRunner, source: SampleSource | None, group: Group
) -> Batches:
    if is_synthetic(trial.plan) and isinstance(runner.engine, TorchEngine):
        return device_batch(trial, runner.engine)
    return open_batches(trial, opened, source, (group.rank, group.size))


def _device(trial: Trial) -> str:
    """torch's name of the device that computes; a trial without a GPU never touches one."""
    uses_gpu = trial.accelerator.is_gpu and trial.workload.task is not Task.PREPROCESSING
    return AcceleratorKind.CUDA if uses_gpu else "cpu"


def _read_first(trial: Trial, files: Sequence[Path]) -> Indices:
    """The indices of files that the trial may read: all, or the first ones in its loader's order."""
    if len(files) <= _MOST_READ_FILES:
        return np.arange(len(files))
    order = EndlessOrder(len(files), trial.plan.get("order", SHUFFLED))
    return np.fromiter(order, np.intp, _MOST_READ_FILES)


def _prepare_cache(trial: Trial, files: Sequence[Path], read: Indices, shared: bool) -> None:
    """Drop the files from the page cache, so that no page is charged to another cgroup (unless other trials
    share them). Then, for a warm trial, read the data set once in random order, like a previous epoch."""
    if not shared:
        evict(_selected(files, read))
    if trial.cache is CacheState.COLD:
        return
    limit_bytes, dataset = trial.resources.memory_mib * MIB, trial.workload.dataset
    order = np.random.default_rng(0).permutation(len(files))
    if len(read) < len(files):
        order = order[: math.ceil(_MORE_THAN_FITS * limit_bytes / dataset.bytes_per_sample)]
        if not shared:
            evict(_selected(files, order))
    fill(_selected(files, order), limit_bytes=limit_bytes)


def _selected(files: Sequence[Path], which: Indices) -> Iterator[Path]:
    return (files[index] for index in which.tolist())


def _cached_share(files: Sequence[Path], read: Indices) -> float | None:
    looked_at = np.random.default_rng(1).permutation(read)[:_LOOKED_AT_FILES]
    return cached_share(list(_selected(files, looked_at)))
