"""Measures one network for some minutes: batch sizes, loader, operations. Needs torch."""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct, field

from advisor.domain import AUGMENTED, SERVED, Precision, Status, Task
from advisor.domain.results import mean_step_seconds, stall_share
from advisor.errors import AdvisorError, MeasuringError, UsageError
from advisor.models.zoo.capture import capture_operations
from advisor.models.zoo.opening import Runnable, open_network
from advisor.sweeps.datasets.opening import open_dataset
from advisor.sweeps.hook import Profile
from advisor.sweeps.machine.environment import machine_size
from advisor.sweeps.machine.gpu import GpuSampler, busy_percent
from advisor.sweeps.measure.document import LOADER, SYNTHETIC, Run, best_run, document, goes_on, measured_runs
from advisor.sweeps.planning.plan import PREFETCH_FACTOR, loader_workers
from advisor.sweeps.probe.session import missing, need_cuda
from advisor.sweeps.quality.rates import count_warmup_steps
from advisor.sweeps.trial.child import lacks_memory
from advisor.sweeps.worker.engine import (
    Engine,
    TorchEngine,
    forget_peaks,
    free_memory,
    gpu_uuid,
    peaks,
    torch_facts,
)
from advisor.sweeps.worker.timed_run import QUEUE_DEPTH, StepRunner, TimeBox, timed_steps, warm_up

if TYPE_CHECKING:
    from advisor.sweeps.worker.inputs import Batches


class AnchorSession(Struct):
    """Settings and results of one measurement of a network. `ends_at` is in time.monotonic() seconds; `keep`
    gets the document after each run that has a rate."""

    network: Runnable
    device: str
    device_facts: Mapping[str, Any]
    precision: Precision
    data: Path | None
    ends_at: float
    report: Callable[[str], None]
    keep: Callable[[dict[str, Any]], None]
    begun: float = field(default_factory=time.monotonic)
    runs: list[Run] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    operators: dict[str, Any] = field(default_factory=dict)
    stage_rates: dict[str, dict[str, float]] = field(default_factory=dict)

    def bare_run(self, task: Task, source: str, batch_size: int) -> Run:
        """A run on batches from `source` without results yet."""
        return {
            "task": task.value,
            "precision": self.precision.value,
            "input": source,
            "batch_size": batch_size,
            "status": Status.OK.value,
            "samples_per_second": None,
            "step_seconds": [],
            "warmup_step_seconds": [],
            "gpu_peak_allocated_mib": None,
            "gpu_peak_reserved_mib": None,
            "reason": "",
        }

    def timed_run(
        self,
        task: Task,
        source: str,
        size: int,
        runner: StepRunner,
        batches: Iterator[Any],
        box: TimeBox,
        drained: int = 0,
    ) -> Run:
        """The run of `steps_on` with batches from `source`; its rate is in the network's samples."""
        forget_peaks(self.device)
        with GpuSampler(gpu_uuid() if self.device == "cuda" else None) as sampler:
            steps = steps_on(runner, batches, box, drained)
        samples, memory, period = size * self.network.info.samples_per_row, peaks(self.device), box.period
        warmup = count_warmup_steps(steps, period)
        counted = list(steps[warmup:])
        return self.bare_run(task, source, size) | {
            "samples_per_second": samples / mean_step_seconds(counted),
            "stall_share": stall_share(counted, period),
            "step_seconds": counted,
            "warmup_step_seconds": list(steps[:warmup]),
            "gpu_peak_allocated_mib": memory.get("gpu_peak_allocated_mib"),
            "gpu_peak_reserved_mib": memory.get("gpu_peak_reserved_mib"),
            "gpu_state": sampler.environment,
        }

    def add(self, run: Run) -> None:
        """Add a run, and pass the document on if it has a rate."""
        self.runs.append(run)
        if run["samples_per_second"] is not None:
            self.keep(self.document())

    def document(self, **more: Any) -> dict[str, Any]:
        """The document of the results so far."""
        info = self.network.info
        return document(
            what={
                "kind": "network",
                "name": info.name,
                "fingerprint": self.network.fingerprint,
                "input_shape": list(info.input_shape),
                "unit": info.unit,
                "samples_per_row": info.samples_per_row,
            },
            device=self.device_facts,
            runs=self.runs,
            seconds=time.monotonic() - self.begun,
            warnings=self.warnings,
            stage_rates=self.stage_rates,
            operators=self.operators,
            **more,
        )


def device_facts(device: str) -> dict[str, Any]:
    """Facts of the device, and its load from other processes. Read them first: a failed GPU reports nothing,
    and one that has just computed looks busy."""
    facts = {"kind": device, "gpu": None, **torch_facts(device)}
    busy = busy_percent(gpu_uuid()) if device == "cuda" else None
    return facts if busy is None else facts | {"gpu_utilization_before_percent": busy}


_LEAST_STEPS = 4


def measure_with_loader(
    session: AnchorSession, runner: StepRunner, task: Task, batch_size: int, seconds: float
) -> None:
    """Add the run with the loader, and the rate of the loader alone (`host`), in `seconds`.

    The disk is not measured, as files usually come from the page cache. Raises `UsageError` for too few JPEG
    files."""
    workers = loader_workers(machine_size().vcpus)
    drained = workers * PREFETCH_FACTOR
    box = TimeBox(seconds=seconds / 4, min_steps=_LEAST_STEPS, max_seconds=seconds / 2, period=workers)
    session.report(f"{task} batch {batch_size} with {workers} loader processes")
    with closing(_batches(session, task, batch_size, workers)) as batches:
        session.add(session.timed_run(task, LOADER, batch_size, runner, batches, box, drained))
    if "host" not in session.stage_rates[task.value]:
        with closing(_batches(session, task, batch_size, workers)) as batches:
            alone = steps_on(StepRunner(Engine(), depth=0), batches, box, drained)
        rate = batch_size / mean_step_seconds(alone[count_warmup_steps(alone, workers) :])
        session.stage_rates[task.value]["host"] = rate


def steps_on(runner: StepRunner, batches: Iterator[Any], box: TimeBox, drained: int = 0) -> list[float]:
    """Seconds of steps on the batches, after a warm-up that consumes `drained` prefetched batches."""
    runner.restart()
    # Batches made while nothing consumed them would make the first steps look fast.
    warm_up(runner, batches, 1 + drained + runner.depth)
    return timed_steps(runner, batches, box)


def _batches(session: AnchorSession, task: Task, batch_size: int, workers: int) -> Batches:
    """Endless batches of images for the network; the targets are made at no cost to the loader."""
    try:
        from advisor.sweeps.worker.inputs import make_loader, with_targets
    except ModuleNotFoundError as error:
        raise missing(error.name or "Pillow") from error
    assert session.data is not None
    source = open_dataset(session.data)
    if len(source) < batch_size:
        raise UsageError(
            f"'{session.data}' has {len(source)} images, a batch takes {batch_size}",
            hint="name a data set with more of them with --data",
        )
    loader = make_loader(
        source,
        pixels=session.network.info.input_pixels,
        batch_size=batch_size,
        workers=workers,
        prefetch_factor=PREFETCH_FACTOR,
        pin_memory=session.device == "cuda",
        transform=SERVED if task is Task.INFERENCE else AUGMENTED,
    )
    return with_targets(iter(loader), session.network)


def _profiled_operators(
    session: AnchorSession, engine: TorchEngine, size: int, ends_at: float
) -> list[dict[str, Any]]:
    """The table of `Profile` for a few steps, in half of the remaining time."""
    session.report("operation profile")
    try:
        batch, runner = engine.batch(size), StepRunner(engine, depth=0)
        runner.submit(*batch)
        seconds = max(0.5, (ends_at - time.monotonic()) / 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the profiler's advice to its own users
            profile, is_over = Profile(time.monotonic, session.device == "cuda", seconds), False
            while not is_over:
                runner.submit(*batch)
                is_over = profile.is_over(time.monotonic())
            result = profile.operators()
        if "operators" in result:
            return list(result["operators"])
        reason = result["no_profile"]
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    session.warnings.append(f"no operation profile: {reason}")
    return []


def captured_operations(network: Runnable, task: Task) -> dict[str, dict[str, float]] | None:
    """Kernels, FLOPs and bytes of a sample by class of operation; None for a network that cannot be captured
    (it takes no square images, or does not run on the meta device)."""
    shape = network.info.input_shape
    if not network.info.takes_images or shape[1] != shape[2]:
        return None
    try:
        with torch.device("meta"):
            module = network.build()
        operations = capture_operations(module, shape[-1], training=task is Task.TRAINING)
    except Exception:
        return None  # outputs that are no logits, sizes that depend on data
    result: dict[str, dict[str, float]] = defaultdict(
        lambda: {"count": 0, "flops_per_sample": 0.0, "bytes_per_sample": 0.0, "fixed_bytes": 0.0}
    )
    for operation in operations:
        row = result[operation.kind]
        row["count"] += 1
        row["flops_per_sample"] += operation.flops
        row["bytes_per_sample"] += operation.sample_bytes
        row["fixed_bytes"] += operation.fixed_bytes
    return dict(result)


_MOST_POWER = 16
# The share of a task's time for its series of batch sizes; the rest is for loader and profile.
_LADDER_SHARE = 0.6
_BATCHES_EXPECTED = 7


def open_session(
    reference: str,
    device: str | None,
    precision: Precision,
    ends_at: float,
    *,
    report: Callable[[str], None],
    data: Path | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda _document: None,
) -> AnchorSession:
    """A session for a network until `ends_at`; `device` is by default CUDA if torch sees one."""
    network = open_network(reference)
    if device == "cuda":
        need_cuda()
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if data is not None and not network.info.takes_images:
        raise UsageError(f"{reference} takes no images", hint="leave --data out")
    return AnchorSession(network, device, device_facts(device), precision, data, ends_at, report, keep)


def measure(
    session: AnchorSession, tasks: Sequence[Task], batches: Mapping[Task, int] | None, profile: bool
) -> dict[str, Any]:
    """Measure the tasks; returns the document of `advisor.sweeps.measure.measure_network`."""
    if session.device == "cpu":
        session.warnings.append("measured on this CPU, not on a GPU: no answer takes it for an anchor")
        if not batches:  # the first process says so, before it takes minutes
            session.report(f"Warning: {session.warnings[-1]}")
    torch.manual_seed(0)
    for number, task in enumerate(tasks):
        seconds = (session.ends_at - time.monotonic()) / (len(tasks) - number)
        try:
            if batches:  # repeats one size, in a process that measures nothing else
                engine, box = _engine(session, task), _time_box(_LADDER_SHARE * seconds)
                _synthetic_run(session, _runner(engine), engine, task, batches[task], box)
            else:
                _measure_task(session, task, seconds, profile)
        except _GpuLost:
            break
    if not measured_runs(session.runs):
        reasons = {run["reason"] for run in session.runs if run["reason"]}
        why = "; ".join(sorted(reasons)) or "no time for a single batch: give more --minutes"
        raise MeasuringError(f"nothing could be measured: {why}")
    every = {} if batches else {task.value: captured_operations(session.network, task) for task in tasks}
    return session.document(captured={name: operations for name, operations in every.items() if operations})


class _GpuLost(Exception):
    """A fault after which CUDA cannot compute in this process any more."""


def _measure_task(session: AnchorSession, task: Task, seconds: float, profile: bool) -> None:
    ends_at = time.monotonic() + seconds
    engine = _engine(session, task)
    runner = _runner(engine)
    runs: list[Run] = []
    least = session.network.info.min_training_batch if task is Task.TRAINING else 1
    box = _time_box(_LADDER_SHARE * seconds / _BATCHES_EXPECTED)
    for size in (1 << power for power in range(_MOST_POWER)):
        left = ends_at - time.monotonic() - (1 - _LADDER_SHARE) * seconds
        if not goes_on(runs, left, _LEAST_STEPS):
            break
        if size >= least:
            runs.append(_synthetic_run(session, runner, engine, task, size, box))
    if best := best_run(runs):
        session.stage_rates[task.value] = {"accelerator": best["samples_per_second"]}
        if session.data is not None:
            # The profile gets a quarter of the remaining time.
            left = 0.75 * (ends_at - time.monotonic())
            measure_with_loader(session, runner, task, best["batch_size"], max(1.0, left))
        if profile:
            session.operators[task.value] = _profiled_operators(session, engine, best["batch_size"], ends_at)
    del runner, engine
    free_memory(session.device)


def _time_box(seconds: float) -> TimeBox:
    return TimeBox(seconds=max(0.05, seconds), min_steps=_LEAST_STEPS, max_seconds=max(0.1, 2 * seconds))


def _engine(session: AnchorSession, task: Task) -> TorchEngine:
    session.report(f"{session.network.info.name}: {task} on {session.device}")
    engine = TorchEngine(session.network, device=session.device, task=task, precision=session.precision)
    for name, value in engine.environment.items():
        session.warnings.append(f"{task}: {name.replace('_', ' ')} are {value}")
    return engine


def _runner(engine: TorchEngine) -> StepRunner:
    return StepRunner(engine, depth=QUEUE_DEPTH if engine.device.type == "cuda" else 0)


def _synthetic_run(
    session: AnchorSession, runner: StepRunner, engine: TorchEngine, task: Task, size: int, box: TimeBox
) -> Run:
    try:
        run = session.timed_run(task, SYNTHETIC, size, runner, repeat(engine.batch(size)), box)
        session.report(f"{task} batch {size}: {run['samples_per_second']:.4g} {session.network.info.unit}s/s")
    except AdvisorError:
        raise
    except Exception as error:
        status = Status.OUT_OF_MEMORY if lacks_memory(error) else Status.FAILED
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
        session.report(f"{task} batch {size}: {status.value.replace('_', ' ')}")
        run = session.bare_run(task, SYNTHETIC, size) | {"status": status.value, "reason": reason}
    session.add(run)
    if run["status"] != Status.OK and session.device == "cuda":
        try:  # a fault in the run may have made the GPU unusable for this process
            torch.ones(1, device=session.device).add_(1)
            torch.cuda.synchronize()
        except RuntimeError as error:
            session.warnings.append(
                f"the GPU stopped computing in {task.value} at batch {size}; what was measured before is kept"
            )
            raise _GpuLost from error
    # Here, not above: the error's traceback held tensors until the `except` block ended.
    free_memory(session.device)
    return run
