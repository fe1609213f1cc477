"""Measures one trial in this process: the worker's heart. Needs torch.

The order: load everything, bring the page cache into the asked state, wait for the limits,
measure end to end, then each stage by itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from advisor.domain import CacheState, LimitedBy, Measurement, Status, Task, Trial
from advisor.errors import MeasuringError
from models.zoo.opening import Runnable, open_network
from models.zoo.torchvision_operators import substituted_operators
from sweeps.datasets.opening import open_dataset
from sweeps.datasets.source import LatencyInjected, SampleSource
from sweeps.events import emit
from sweeps.machine.environment import describe_machine, describe_versions
from sweeps.machine.processes import Contention, judge
from sweeps.quality.timing import is_steady
from sweeps.worker.accelerators import (
    Accelerator,
    EmulatedAccelerator,
    NoAccelerator,
    TorchAccelerator,
    is_named,
)
from sweeps.worker.inputs import open_batches
from sweeps.worker.page_cache import cached_share, evict, fill
from sweeps.worker.pipeline.policy import compute_threads
from sweeps.worker.stages import stage_rates
from sweeps.worker.stepping import Stepper
from sweeps.worker.timed_run import TimedRun, timed_run

_LOOKED_AT_FILES = 500


def measure(
    trial: Trial, job: Mapping[str, Any], get_set: Callable[[], None] | None
) -> Measurement:
    """Measure the trial; `get_set` returns when its limits are on (None: no limits follow)."""
    started_at = datetime.now(UTC).isoformat()
    torch.set_num_threads(compute_threads(trial.resources.vcpus))
    torch.manual_seed(0)
    opened = _opened(trial)
    accelerator = _accelerator(trial, opened)
    source = None if opened.makes_batches else _source(trial)
    files = list(source.files) if source else []
    emit("loaded", trial_id=trial.trial_id, files=len(files))
    shares = {"cached_share_before": _prepare_cache(trial, files)}
    emit("cache_prepared", trial_id=trial.trial_id, cached_share=shares["cached_share_before"])
    if get_set:
        get_set()
    batches = open_batches(trial, opened, source)
    window = timed_run(trial, job, accelerator, batches, _gpu_uuid(trial))
    batches.close()
    _emit_timed_run(trial, window)
    shares["cached_share_after"] = _cached_share(files)
    contention = _contention(trial, window, len(job["cpus"]))
    return Measurement(
        trial=trial,
        status=Status.CONTAMINATED if contention.interfered else Status.OK,
        limited_by=LimitedBy.HOST,
        step_seconds=tuple(window.step_seconds),
        warmup_step_seconds=tuple(window.warmup_seconds),
        stage_rates=stage_rates(trial, opened, accelerator, source),
        cpu_seconds=window.cpu_seconds,
        wall_seconds=window.wall_seconds,
        peak_memory_mib=window.after.peak_memory_mib,
        read_bytes=window.read_bytes,
        environment={
            **_surroundings(trial, window),
            "own_cores": contention.own_cores,
            "other_cores": contention.other_cores,
            **shares,
            **window.machine,
            **accelerator.environment,
        },
        started_at=started_at,
    )


def _contention(trial: Trial, window: TimedRun, cpus: int) -> Contention:
    return judge(
        busy=window.busy_seconds,
        own=window.cpu_seconds,
        wall_seconds=window.wall_seconds,
        cpus=cpus,
        vcpus=trial.resources.vcpus,
    )


def _emit_timed_run(trial: Trial, window: TimedRun) -> None:
    emit(
        "steady" if is_steady(window.step_seconds, trial.loader_period) else "not_steady",
        trial_id=trial.trial_id,
        warmup_steps=len(window.warmup_seconds),
        warmup_seconds=round(sum(window.warmup_seconds), 3),
        steps=len(window.step_seconds),
        seconds=round(window.wall_seconds, 3),
    )


def _surroundings(trial: Trial, window: TimedRun) -> dict[str, Any]:
    """The machine, the versions, and what this run used of them."""
    return {
        **describe_machine(),
        "versions": describe_versions("torch", "torchvision", "numpy", "Pillow"),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
        "anonymous_memory_mib": window.after.anonymous_memory_mib,
        "steady": is_steady(window.step_seconds, trial.loader_period),
        "substituted_operators": list(substituted_operators()),
    }


def _opened(trial: Trial) -> Runnable:
    """The network, in the version that was planned."""
    opened = open_network(trial.workload.network)
    planned = trial.plan.get("network_fingerprint", "")
    if opened.fingerprint != planned:
        raise MeasuringError(
            "{network} is no longer the file that was planned",
            hint="plan again",
            network=trial.workload.network,
        )
    return opened


def _accelerator(trial: Trial, opened: Runnable) -> Accelerator:
    if trial.workload.task is Task.PREPROCESSING:
        return NoAccelerator()
    if trial.emulated_step_seconds is not None:
        return EmulatedAccelerator(trial.emulated_step_seconds)
    workload = trial.workload
    return TorchAccelerator(
        Stepper(opened, device=_device(trial), task=workload.task, precision=workload.precision)
    )


def _device(trial: Trial) -> str:
    """torch's name of it; `MeasuringError` where another GPU is here than was asked for."""
    requested = trial.accelerator.gpu
    if requested and not is_named(torch.cuda.get_device_name(), requested):
        raise MeasuringError(
            "{requested} asked for, but the GPU of this node is a {present}",
            hint="correct the node's resources",
            requested=requested,
            present=torch.cuda.get_device_name(),
        )
    return trial.accelerator.kind.value


def _source(trial: Trial) -> SampleSource:
    """The stored images; a mounted disk has its own latency, another one that of its type."""
    source = open_dataset(Path(trial.dataset_path))
    latency = trial.resources.disk.read_latency_seconds
    if latency is None or trial.on_mounted_disk:
        return source
    return LatencyInjected(source, latency)


def _gpu_uuid(trial: Trial) -> str | None:
    """Which GPU nvidia-smi is to be asked about; None where none is measured."""
    if not trial.accelerator.is_gpu or trial.workload.task is Task.PREPROCESSING:
        return None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return str(getattr(properties, "uuid", "")) or "not told"


def _prepare_cache(trial: Trial, files: list[Path]) -> float | None:
    """Empty the cache, so that no page is charged to somebody else; then, for a warm trial,
    read the data set once in random order, as an epoch before this one would have."""
    evict(files)
    if trial.cache is CacheState.WARM:
        order = random.Random(0).sample(files, len(files))
        fill(order, limit_bytes=trial.resources.memory_mib * 2**20)
    return _cached_share(files)


def _cached_share(files: list[Path]) -> float | None:
    return cached_share(random.Random(1).sample(files, min(_LOOKED_AT_FILES, len(files))))
