"""Measures each stage separately, for about a second, after the main run and under the same limits.

The method is DS-Analyzer's (Mohan et al., VLDB 2021, section 3.3). Accelerator: steps on one synthetic batch
in its memory. Storage: reading uncached samples like the pipeline, without decoding. Host: loading cached
samples while nothing computes. Transfer: copies of one pinned batch. The accelerator comes first, still warm
from the main run, and a GPU runs for ten seconds, since answers rest on that figure. A failing stage loses
only its figure, never the main run; a persistent CUDA fault also loses the later stages."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import repeat
from statistics import fmean
from typing import Any, NamedTuple

import torch
from msgspec import Struct, field
from torch.utils._pytree import tree_map

from advisor.domain import MIB, AcceleratorKind, Stage, Trial
from advisor.errors import MeasuringError
from advisor.models.zoo.capture import to_device
from advisor.models.zoo.kernels import tensors_in
from advisor.models.zoo.opening import Runnable
from advisor.sweeps.datasets.source import Sample, SampleSource
from advisor.sweeps.machine.environment import allowed_cpus, last_level_cache_mib
from advisor.sweeps.machine.gpu import GpuSampler
from advisor.sweeps.planning.plan import gpu_alone_seconds
from advisor.sweeps.quality.rates import count_warmup_steps
from advisor.sweeps.trial.child import ending_of
from advisor.sweeps.trial.limits import read_usage
from advisor.sweeps.worker.engine import CudaCompletion, Engine, TorchEngine, gpu_uuid
from advisor.sweeps.worker.inputs import cached_share, device_batch, evict, photograph_batches
from advisor.sweeps.worker.timed_run import QUEUE_DEPTH, StepRunner, TimeBox, timed_steps, warm_up

_STILL_CACHED = 0.2
_LOOKED_AT_FILES = 500
_MOST_SAMPLES = 65_536  # gigabytes of photographs; a data set may have millions


class Reading(NamedTuple):
    """The number of samples read, their bytes, and the seconds."""

    samples: int
    size: int
    seconds: float


class StoredPart:
    """About `mib` MiB of random samples of a source; a smaller part is the start of a larger one."""

    def __init__(self, source: SampleSource, mib: float, bytes_per_sample: float) -> None:
        wanted = max(1, math.ceil(mib * MIB / bytes_per_sample))
        drawn = random.Random(2).sample(range(len(source)), min(_MOST_SAMPLES, len(source)))
        self._indices = drawn[:wanted]
        self._source = source
        self.storage_format = source.storage_format
        # Files with one sample each are evicted one by one, others as a whole.
        alone = len(source.files) == len(source)
        self.files = [source.files[index] for index in self._indices] if alone else source.files

    def __len__(self) -> int:
        return len(self._indices)

    def read(self, index: int) -> Sample:
        return self._source.read(self._indices[index])

    def name(self, index: int) -> str:
        return self._source.name(self._indices[index])

    def evict(self) -> None:
        """Drop the part from the page cache. Raises `MeasuringError` if it stays there."""
        evict(self.files)
        looked_at = random.Random(1).sample(self.files, min(_LOOKED_AT_FILES, len(self.files)))
        if (cached_share(looked_at) or 0.0) > _STILL_CACHED:
            raise MeasuringError(
                "the samples stay in the page cache: they lie in memory (tmpfs), or somebody uses them"
            )

    def keep(self, count: int) -> None:
        """Reduce the part to its first samples."""
        del self._indices[count:]


def read_for(seconds: float, part: StoredPart, *, workers: int) -> Reading:
    """Read each sample of the part once, with `workers` threads, for at most `seconds`."""
    start = time.perf_counter()
    # The first read opens files and databases, before several threads could do so at once.
    first = len(part.read(0).content)
    coming = iter(range(1, len(part)))  # shared: each sample is read by one thread

    def read() -> list[int]:
        sizes = []
        while time.perf_counter() < start + seconds and (index := next(coming, None)) is not None:
            sizes.append(len(part.read(index).content))
        return sizes

    with ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(read) for _ in range(workers)]
        sizes = [first, *(size for job in jobs for size in job.result())]
    return Reading(len(sizes), sum(sizes), time.perf_counter() - start)


SECONDS = 1.0
_FEWEST_STEPS = 3
_LONGEST_FACTOR = 4  # the factor by which a measurement lasts longer if steps are not steady
_CACHE_MULTIPLE = 2  # data as a multiple of the last-level cache, so that the next sample is rarely in it
_NVME_MIB_PER_SECOND = 2048.0
_CACHE_MIB = 32.0  # if sysfs has none
_MEMORY_SHARE = 0.5  # of the trial's memory, for samples in the page cache


class StageResults(Struct):
    """By stage: samples per second, facts of its run, and the reason of a failure."""

    rates: dict[str, float] = field(default_factory=dict)
    runs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, Any]:
        """The stages' facts for a measurement's environment."""
        failures = {"stage_failures": self.failures} if self.failures else {}
        return {"stage_runs": self.runs, **failures}


_Run = tuple[float, Mapping[str, Any]]  # samples per second, and facts of the run


def stage_results(
    trial: Trial, job: Mapping[str, Any], opened: Runnable, runner: StepRunner, source: SampleSource | None
) -> StageResults:
    """The rates of all stages that can be measured separately. With the job's `shares_disk`, storage is left
    out, as it would empty the page cache of other trials. Of several GPUs only one is measured, without
    gradient exchange, while the others wait; its rate represents each of them."""
    results = StageResults()
    for stage, measure in _stages(trial, job, opened, runner, source).items():
        try:
            results.rates[stage.value], facts = measure()
        except Exception as error:  # whatever it is, the main run must not be lost
            results.failures[stage.value] = ending_of(error, trial.dataset_path).reason
        else:
            results.runs |= {stage.value: facts} if facts else {}
    return results


def _stages(
    trial: Trial, job: Mapping[str, Any], opened: Runnable, runner: StepRunner, source: SampleSource | None
) -> dict[Stage, Callable[[], _Run]]:
    engine, stages = runner.engine, dict[Stage, Callable[[], _Run]]()
    if (seconds := trial.emulated_step_seconds) is not None:
        stages[Stage.ACCELERATOR] = lambda: (trial.samples_per_step / seconds, {})
    elif isinstance(engine, TorchEngine):
        engine.leave_group()
        stages[Stage.ACCELERATOR] = lambda: _accelerator(trial, runner, engine)
    if trial.processes > 1:
        return stages
    if source is not None:
        storage = {Stage.STORAGE: lambda: _storage(trial, job, source)}
        stages |= {} if job.get("shares_disk") else storage
        stages[Stage.HOST] = lambda: _host(trial, opened, source)
    if isinstance(engine, TorchEngine) and engine.device.type == AcceleratorKind.CUDA:
        stages[Stage.TRANSFER] = lambda: _transfer(trial, opened, engine.device)
    return stages


def _storage(trial: Trial, job: Mapping[str, Any], source: SampleSource) -> _Run:
    """The rate of reading uncached samples, each once. It is the bytes read over the data set's bytes per
    sample (which include a container's padding, up to 2 % in an LMDB)."""
    size = trial.workload.dataset.bytes_per_sample
    # More data than the disk can read in the time, at its limit or else at the rate of fast NVMe.
    rate = None if trial.on_mounted_disk else trial.resources.disk.read_mib_per_second
    part = StoredPart(source, 2 * SECONDS * (rate or _NVME_MIB_PER_SECOND), size)
    part.evict()
    before = read_usage(job["usage_source"])
    read = read_for(SECONDS, part, workers=max(1, trial.plan["loader_workers"]))
    facts = {
        "samples": read.samples,
        "seconds": read.seconds,
        "operations": read_usage(job["usage_source"]).since(before).read_operations,
        "mib_per_second": read.size / MIB / read.seconds,
        # If so, the run may be shorter than a second, and a throttle may have passed a part at once.
        "whole_data_set": read.samples == len(part) == len(source),
    }
    return read.size / size / read.seconds, facts


def _host(trial: Trial, opened: Runnable, source: SampleSource) -> _Run:
    """The rate at which all loader processes decode, augment and collate cached samples, in batches of the
    trial's size, from more data than the last-level cache holds."""
    plan, bytes_each = trial.plan, trial.workload.dataset.bytes_per_sample
    cache_mib = last_level_cache_mib(allowed_cpus()) or _CACHE_MIB
    wanted = min(_CACHE_MULTIPLE * cache_mib, _MEMORY_SHARE * trial.resources.memory_mib)
    part = StoredPart(source, max(wanted, trial.workload.batch_size * bytes_each / MIB), bytes_each)
    # From a slow disk, only as many as can be read in time.
    part.keep(read_for(_LONGEST_FACTOR * SECONDS, part, workers=plan["loader_workers"] or 1).samples)
    size = min(trial.workload.batch_size, len(part))
    with closing(photograph_batches(trial, opened, part, batch_size=size)) as batches:
        warming = plan["loader_workers"] * plan["prefetch_factor"]
        steps = _steps(StepRunner(Engine(), depth=0), batches, warming, trial.loader_period)
    mib = len(part) * bytes_each / MIB
    facts = {"batch_size": size, "stored_mib": mib, "last_level_cache_mib": cache_mib}
    return size / fmean(steps), facts


def _accelerator(trial: Trial, runner: StepRunner, engine: TorchEngine) -> _Run:
    """The rate of steps on a batch on the device; all step times are kept, for the error of the rate."""
    batches, on_gpu = device_batch(trial, engine), engine.device.type == AcceleratorKind.CUDA
    seconds = gpu_alone_seconds(trial.plan) if on_gpu else SECONDS
    with GpuSampler(gpu_uuid() if on_gpu else None) as sampler:
        steps = _steps(runner, batches, QUEUE_DEPTH + 1, seconds=seconds)
    return trial.samples_per_step / fmean(steps), {"step_seconds": steps, **sampler.environment}


def _transfer(trial: Trial, opened: Runnable, device: torch.device) -> _Run:
    """The rate of copying a batch's inputs, pinned like the loader's, while nothing else uses the bus."""
    batch = opened.synthetic_batch(trial.workload.batch_size)[0]
    inputs = tree_map(lambda leaf: leaf.pin_memory() if hasattr(leaf, "pin_memory") else leaf, batch)
    runner = StepRunner(_Copying(device))
    seconds = fmean(_steps(runner, repeat((inputs, None)), QUEUE_DEPTH + 1))
    mib = sum(tensor.nbytes for tensor in tensors_in(inputs)) / MIB
    return trial.samples_per_step / seconds, {"mib_per_second": mib / seconds}


def _steps(
    runner: StepRunner, batches: Iterator[Any], warming: int, period: int = 1, seconds: float = SECONDS
) -> list[float]:
    box = TimeBox(
        seconds=seconds,
        min_steps=_FEWEST_STEPS,
        max_seconds=_LONGEST_FACTOR * seconds,
        rel_error=1.0,
        period=period,
    )
    warm_up(runner, batches, warming)
    steps = timed_steps(runner, batches, box)
    return steps[count_warmup_steps(steps, period) :]


class _Copying(Engine):
    """Copies batches to the GPU without computing."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def mark(self) -> Any:
        return CudaCompletion(self._device)

    def launch(self, inputs: Any, targets: Any) -> Any:  # noqa: ARG002
        to_device(inputs, self._device)
        return CudaCompletion(self._device, inputs)
