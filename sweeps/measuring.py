"""Measures one trial in this process: the worker's heart. Needs torch.

The order: load everything, bring the page cache into the asked state, wait for the limits,
measure end to end, then the accelerator alone on a synthetic batch.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from advisor.domain import CacheState, LimitedBy, Measurement, Stage, Status, Task, Trial
from models.zoo import build, network_info
from sweeps.accelerators import (
    EMULATED_QUEUE_DEPTH,
    Accelerator,
    EmulatedAccelerator,
    NoAccelerator,
    TorchAccelerator,
)
from sweeps.contention import busy_seconds, judge
from sweeps.datasets.decoding import PILLOW
from sweeps.datasets.opening import open_dataset
from sweeps.datasets.source import SampleSource
from sweeps.environment import describe_machine, describe_versions
from sweeps.limits.usage import Usage, read_usage
from sweeps.page_cache import cached_share, evict, fill
from sweeps.pipeline.loading import make_loader
from sweeps.pipeline.policy import compute_threads
from sweeps.timing import count_warmup_steps, is_steady

_ACCELERATOR_RUN_SECONDS = 1.5
_ACCELERATOR_RUN_STEPS = 3
_LOOKED_AT_FILES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """Raw steps, and what was used while the counted ones ran."""

    warmup_seconds: list[float]
    step_seconds: list[float]
    wall_seconds: float
    before: Usage
    after: Usage
    busy_seconds: float


def measure(
    trial: Trial, job: Mapping[str, Any], get_set: Callable[[], None] | None
) -> Measurement:
    """Measure the trial; `get_set` returns when its limits are on (None: no limits follow)."""
    started_at = datetime.now(UTC).isoformat()
    torch.set_num_threads(compute_threads(trial.resources.vcpus))
    torch.manual_seed(0)
    accelerator = _accelerator(trial)
    source = open_dataset(Path(trial.dataset_path))
    files = list(source.files)
    shares = {"cached_share_before": _prepare_cache(trial, files)}
    if get_set:
        get_set()
    window = _end_to_end(trial, job, accelerator, source)
    shares["cached_share_after"] = _cached_share(files)
    contention = judge(
        busy=window.busy_seconds,
        own=window.after.cpu_seconds - window.before.cpu_seconds,
        wall_seconds=window.wall_seconds,
        cpus=len(job["cpus"]),
        vcpus=trial.resources.vcpus,
    )
    return Measurement(
        trial=trial,
        status=Status.CONTAMINATED if contention.spoiled else Status.OK,
        limited_by=LimitedBy.HOST,
        step_seconds=tuple(window.step_seconds),
        warmup_step_seconds=tuple(window.warmup_seconds),
        stage_rates=_stage_rates(trial, accelerator),
        cpu_seconds=window.after.cpu_seconds - window.before.cpu_seconds,
        wall_seconds=window.wall_seconds,
        peak_memory_mib=window.after.peak_memory_mib,
        read_bytes=_difference(window.after.read_bytes, window.before.read_bytes),
        environment={
            **describe_machine(),
            "versions": describe_versions("torch", "torchvision", "numpy", "Pillow"),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "threads": torch.get_num_threads(),
            "anonymous_memory_mib": window.after.anonymous_memory_mib,
            "own_cores": contention.own_cores,
            "other_cores": contention.other_cores,
            "steady": is_steady(window.step_seconds),
            **shares,
        },
        started_at=started_at,
    )


def _accelerator(trial: Trial) -> Accelerator:
    if trial.workload.task is Task.PREPROCESSING:
        return NoAccelerator()
    if trial.emulated_step_seconds is not None:
        return EmulatedAccelerator(trial.emulated_step_seconds)
    return TorchAccelerator(
        build(trial.workload.network),
        device=trial.accelerator,
        task=trial.workload.task,
        precision=trial.workload.precision,
    )


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


def _end_to_end(
    trial: Trial, job: Mapping[str, Any], accelerator: Accelerator, source: SampleSource
) -> _Window:
    plan, cpus = trial.plan, job["cpus"]
    batches = iter(
        make_loader(
            source,
            pixels=network_info(trial.workload.network).input_pixels,
            batch_size=trial.workload.batch_size,
            workers=plan["loader_workers"],
            prefetch_factor=plan["prefetch_factor"],
            pin_memory=trial.accelerator == "cuda",
            decoder_name=plan.get("decoder", PILLOW),
        )
    )
    # Batches made while nothing consumed them would make the first steps look fast.
    drained = plan["loader_workers"] * plan["prefetch_factor"] + EMULATED_QUEUE_DEPTH
    for _ in range(drained):
        accelerator.submit(*next(batches))
    before, busy = read_usage(job["usage_source"]), busy_seconds(cpus)
    start = time.perf_counter()
    steps = _timed_steps(batches, accelerator, plan, _most_steps(trial, drained))
    wall_seconds = time.perf_counter() - start
    after, busy = read_usage(job["usage_source"]), busy_seconds(cpus) - busy
    warmup = count_warmup_steps(steps)
    return _Window(
        warmup_seconds=steps[:warmup],
        step_seconds=steps[warmup:],
        wall_seconds=wall_seconds,
        before=before,
        after=after,
        busy_seconds=busy,
    )


def _most_steps(trial: Trial, drained: int) -> float:
    """A cold trial ends with its first epoch: what is read again is not cold."""
    if trial.cache is CacheState.WARM:
        return math.inf
    ahead = int(trial.plan["loader_workers"] * trial.plan["prefetch_factor"])
    batches = trial.workload.dataset.samples // trial.workload.batch_size
    return float(max(1, batches - drained - ahead))


def _timed_steps(
    batches: Any, accelerator: Accelerator, plan: Mapping[str, Any], most_steps: float
) -> list[float]:
    """Seconds from one batch accepted to the next, until enough of them are steady.

    Runs for `measure_seconds` and at least `min_steps`, longer while the steps drift, and
    never starts one after `max_seconds` or beyond `most_steps`.
    """
    steps: list[float] = []
    start = previous = time.perf_counter()
    while True:
        accelerator.submit(*next(batches))
        now = time.perf_counter()
        steps.append(now - previous)
        previous, elapsed = now, now - start
        enough = elapsed >= plan["measure_seconds"] and len(steps) >= plan["min_steps"]
        steady = enough and is_steady(steps[len(steps) // 2 :])
        if steady or elapsed >= plan["max_seconds"] or len(steps) >= most_steps:
            return steps


def _stage_rates(trial: Trial, accelerator: Accelerator) -> dict[str, float]:
    """What the accelerator alone reaches: known when emulated, else from a synthetic batch."""
    workload = trial.workload
    if trial.emulated_step_seconds is not None:
        return {Stage.ACCELERATOR.value: workload.batch_size / trial.emulated_step_seconds}
    if workload.task is Task.PREPROCESSING:
        return {}
    pixels = network_info(workload.network).input_pixels
    images = torch.rand(workload.batch_size, 3, pixels, pixels, device=trial.accelerator)
    labels = torch.randint(0, 1000, (workload.batch_size,), device=trial.accelerator)
    steps: list[float] = []
    while len(steps) < _ACCELERATOR_RUN_STEPS or sum(steps) < _ACCELERATOR_RUN_SECONDS:
        start = time.perf_counter()
        accelerator.submit(images, labels)
        accelerator.drain()
        steps.append(time.perf_counter() - start)
        if sum(steps) > 4 * _ACCELERATOR_RUN_SECONDS:
            break
    return {Stage.ACCELERATOR.value: workload.batch_size / sorted(steps)[len(steps) // 2]}


def _difference(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before
