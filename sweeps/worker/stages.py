"""Each stage by itself, after the main run and under the same limits, for a second or so each.

As DS-Analyzer does (Mohan et al., VLDB 2021, section 3.3): the accelerator on one synthetic
batch that lies on it; the host on files that are cached, with nothing that computes; the storage
by reading files that are not cached, as the pipeline reads them, without decoding.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from advisor.domain import Stage, Trial
from models.zoo.opening import Runnable
from sweeps.datasets.source import Sample, SampleSource
from sweeps.worker.inputs import DeviceBatch, PhotographBatches
from sweeps.worker.page_cache import cached_share, evict
from sweeps.worker.step_runner import QUEUE_DEPTH, StepRunner
from sweeps.worker.timed_steps import TimeBox, timed_steps, warm_up
from sweeps.worker.torch_engine import TorchEngine

_SECONDS = 1.0
_FEWEST_STEPS = 3
_LONGEST_SECONDS = 4 * _SECONDS
_SAMPLES = 256
_HOST_BATCH = 8  # small, so that a slow host delivers several in the time
_STILL_CACHED = 0.2
_BOX = TimeBox(
    seconds=_SECONDS, min_steps=_FEWEST_STEPS, max_seconds=_LONGEST_SECONDS, rel_error=1.0
)


def stage_rates(
    trial: Trial, opened: Runnable, runner: StepRunner, source: SampleSource | None
) -> dict[str, float]:
    """Samples per second of every stage that the trial has and that can be measured by itself."""
    rates: dict[str, float | None] = {Stage.ACCELERATOR.value: _accelerator_rate(trial, runner)}
    if source is not None:
        some = _Some(source, _SAMPLES)
        # In this order: the read samples are cached then, as the host's run needs them.
        rates[Stage.STORAGE.value] = _storage_rate(trial, some)
        rates[Stage.HOST.value] = _host_rate(trial, opened, some)
    return {stage: rate for stage, rate in rates.items() if rate}


def _accelerator_rate(trial: Trial, runner: StepRunner) -> float | None:
    """Known when emulated; none for preprocessing; else on one batch that lies on the device."""
    if trial.emulated_step_seconds is not None:
        return trial.samples_per_step / trial.emulated_step_seconds
    if not isinstance(runner.engine, TorchEngine):
        return None
    batches = DeviceBatch(trial, runner.engine)
    warm_up(runner, batches, QUEUE_DEPTH + 1)
    return trial.samples_per_step / statistics.fmean(timed_steps(runner, batches, _BOX))


def _host_rate(trial: Trial, opened: Runnable, some: _Some) -> float:
    """Decoding, augmenting and collating of cached samples, by all loader processes."""
    for index in range(len(some)):
        some.read(index)
    size = min(_HOST_BATCH, trial.workload.batch_size, len(some))
    batches = PhotographBatches(trial, opened, some, batch_size=size)
    try:
        for _ in range(trial.plan["loader_workers"] * trial.plan["prefetch_factor"]):
            next(batches)
        seconds = _timed(lambda: next(batches))
    finally:
        batches.close()
    return size * len(seconds) / sum(seconds)


def _storage_rate(trial: Trial, some: _Some) -> float | None:
    """Samples as they are stored, in random order, as many at once as there are loader
    processes.

    Bytes are counted and divided by the data set's bytes a sample (which include a container's
    padding: up to 2 % more than a sample's own in an LMDB). None where the files do not
    leave the page cache (tmpfs, or somebody maps them).
    """
    evict(some.files)
    left = cached_share(some.files)
    if left is not None and left > _STILL_CACHED:
        return None
    workers = max(1, trial.plan["loader_workers"])
    start = time.perf_counter()
    # The first opens what a process opens once, before several threads would.
    sizes = [len(some.read(0).content)]
    with ThreadPoolExecutor(workers) as pool:
        sizes += pool.map(lambda index: _read_before(some, index, start + _SECONDS), some.others)
    elapsed = time.perf_counter() - start
    return sum(sizes) / trial.workload.dataset.bytes_per_sample / elapsed


def _read_before(some: _Some, index: int, deadline: float) -> int:
    return len(some.read(index).content) if time.perf_counter() < deadline else 0


class _Some:
    """A random part of a data set: a `SampleSource` of its own."""

    def __init__(self, source: SampleSource, samples: int) -> None:
        count = min(samples, len(source))
        self._source = source
        self._indices = random.Random(2).sample(range(len(source)), count)
        self.storage_format = source.storage_format
        # Files of one sample each are emptied one by one; larger ones as a whole.
        alone = len(source.files) == len(source)
        self.files = [source.files[i] for i in self._indices] if alone else source.files

    def __len__(self) -> int:
        return len(self._indices)

    @property
    def others(self) -> range:
        """All numbers but the first."""
        return range(1, len(self))

    def read(self, index: int) -> Sample:
        """See `SampleSource`."""
        return self._source.read(self._indices[index])

    def name(self, index: int) -> str:
        """See `SampleSource`."""
        return self._source.name(self._indices[index])


def _timed(step: Callable[[], Any]) -> list[float]:
    """Seconds of each step, for a second and three steps, at most for 4 s."""
    return list(_steps(step))


def _steps(step: Callable[[], Any]) -> Iterator[float]:
    count, total = 0, 0.0
    while (count < _FEWEST_STEPS or total < _SECONDS) and total < _LONGEST_SECONDS:
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        count, total = count + 1, total + seconds
        yield seconds
