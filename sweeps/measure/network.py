"""Measures one network within some minutes: batches, loader, operations. Needs torch."""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import torch

from advisor.domain import Precision, Status, Task
from advisor.errors import AdvisorError, MeasuringError, UsageError
from advisor.models.zoo.capture import capture_operations
from advisor.models.zoo.opening import Runnable, open_network
from advisor.sweeps.measure.document import SYNTHETIC, Run, best_run, goes_on, measured_runs
from advisor.sweeps.measure.session import AnchorSession, device_facts, measure_with_loader, steps_on
from advisor.sweeps.operators import operator_table
from advisor.sweeps.probe.accelerator import need_cuda
from advisor.sweeps.trial.child import lacks_memory
from advisor.sweeps.worker.timed_run import QUEUE_DEPTH, StepRunner, TimeBox
from advisor.sweeps.worker.torch_engine import TorchEngine, forget_peaks, free_memory

_MOST_STEPS = 5


def profiled_operators(engine: TorchEngine, batch_size: int, seconds: float) -> list[dict[str, Any]]:
    """The table of `operator_table`, of some steps within `seconds`."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = engine.device.type == "cuda"
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    batch, runner = engine.batch(batch_size), StepRunner(engine, depth=0)
    runner.submit(*batch)
    ends_at, steps = time.monotonic() + seconds, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the profiler's advice to its own users
        with profile(activities=activities) as profiled:
            while steps == 0 or (steps < _MOST_STEPS and time.monotonic() < ends_at):
                runner.submit(*batch)
                steps += 1
        averages = profiled.key_averages()
    return operator_table(averages, steps, on_gpu)


def captured_operations(network: Runnable, task: Task) -> dict[str, dict[str, float]] | None:
    """Kernels, FLOPs and bytes a sample by class of operation; None where the network cannot be
    captured (it takes no square images, or does not run on the meta device)."""
    shape = network.info.input_shape
    if not network.info.takes_images or shape[1] != shape[2]:
        return None
    try:
        with torch.device("meta"):
            module = network.build()
        operations = capture_operations(module, shape[-1], training=task is Task.TRAINING)
    except Exception:
        return None  # absent: other outputs than logits, sizes that depend on data
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


_LEAST_STEPS = 4
_MOST_POWER = 16
# Of a task's time, what the ladder of batch sizes gets; the rest is for loader and profile.
_LADDER_SHARE = 0.6
_BATCHES_EXPECTED = 7


def measure(
    reference: str,
    *,
    minutes: float,
    tasks: Sequence[Task],
    precision: Precision,
    data: Path | None,
    device: str | None,
    batches: Mapping[Task, int] | None,
    profile: bool,
    report: Callable[[str], None],
    keep: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """See `advisor.sweeps.measure.measure_network`."""
    network = open_network(reference)
    if device == "cuda":
        need_cuda()
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if data is not None and not network.info.takes_images:
        raise UsageError("{reference} takes no images", hint="leave --data out", reference=reference)
    session = AnchorSession(
        network=network,
        device=kind,
        device_facts=device_facts(kind),
        precision=precision,
        data=data,
        ends_at=time.monotonic() + minutes * 60,
        report=report,
        keep=keep,
    )
    if kind == "cpu":
        session.warnings.append("measured on this CPU, not on a GPU: no answer takes it for an anchor")
    torch.manual_seed(0)
    for number, task in enumerate(tasks):
        seconds = session.seconds_left / (len(tasks) - number)
        try:
            if batches:  # one size, in a process that has measured nothing else
                engine, box = _engine(session, task), _box(_LADDER_SHARE * seconds)
                _synthetic_run(session, _runner(engine), engine, task, batches[task], box)
            else:
                _measure_task(session, task, seconds, profile)
        except _GpuLost:
            break
    if not measured_runs(session.runs):
        reasons = {run["reason"] for run in session.runs if run["reason"]}
        why = "; ".join(sorted(reasons)) or "no time for a single batch: give more --minutes"
        raise MeasuringError("nothing could be measured: {why}", why=why)
    every = {} if batches else {task.value: captured_operations(network, task) for task in tasks}
    return session.document(captured={name: operations for name, operations in every.items() if operations})


class _GpuLost(Exception):
    """After some faults a process's CUDA never computes again."""


def _measure_task(session: AnchorSession, task: Task, seconds: float, profile: bool) -> None:
    ends_at = time.monotonic() + seconds
    engine = _engine(session, task)
    runner = _runner(engine)
    runs: list[Run] = []
    least = session.network.info.min_training_batch if task is Task.TRAINING else 1
    box = _box(_LADDER_SHARE * seconds / _BATCHES_EXPECTED)
    for size in (1 << power for power in range(_MOST_POWER)):
        left = ends_at - time.monotonic() - (1 - _LADDER_SHARE) * seconds
        if not goes_on(runs, left, _LEAST_STEPS):
            break
        if size >= least:
            runs.append(_synthetic_run(session, runner, engine, task, size, box))
    best = best_run(runs)
    if best:
        session.stage_rates[task.value] = {"accelerator": best["samples_per_second"]}
        if session.data is not None:
            # The profile gets a quarter of what is left.
            left = 0.75 * (ends_at - time.monotonic())
            measure_with_loader(session, runner, task, best["batch_size"], max(1.0, left))
        if profile:
            session.operators[task.value] = _profile(session, engine, best["batch_size"], ends_at)
    del runner, engine
    free_memory(session.device)


def _box(seconds: float) -> TimeBox:
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
        forget_peaks(session.device)
        with session.sampler() as sampler:
            steps = steps_on(runner, repeat(engine.batch(size)), box)
        run = session.run_of(task, SYNTHETIC, size, steps, sampler)
        session.report(f"{task} batch {size}: {run['samples_per_second']:.4g} {session.network.info.unit}s/s")
    except AdvisorError:
        raise
    except Exception as error:
        status = Status.OUT_OF_MEMORY if lacks_memory(error) else Status.FAILED
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
        session.report(f"{task} batch {size}: {status.value.replace('_', ' ')}")
        run = _ended(session, task, size, status, reason)
    session.add(run)
    if run["status"] != Status.OK:
        _require_usable(session, run)
    # Only here is the error gone, and with it what its traceback held.
    free_memory(session.device)
    return run


def _require_usable(session: AnchorSession, run: Run) -> None:
    """`_GpuLost` where the fault of a run took the GPU from this process."""
    if session.device != "cuda":
        return
    try:
        torch.ones(1, device=session.device).add_(1)
        torch.cuda.synchronize()
    except RuntimeError as error:
        session.warnings.append(
            f"the GPU stopped computing in {run['task']} at batch {run['batch_size']}; what was "
            "measured before is kept"
        )
        raise _GpuLost from error


def _ended(session: AnchorSession, task: Task, size: int, status: Status, reason: str) -> Run:
    return {
        "task": task.value,
        "precision": session.precision.value,
        "input": SYNTHETIC,
        "batch_size": size,
        "status": status.value,
        "samples_per_second": None,
        "step_seconds": [],
        "warmup_step_seconds": [],
        "gpu_peak_allocated_mib": None,
        "gpu_peak_reserved_mib": None,
        "reason": reason,
    }


def _profile(session: AnchorSession, engine: TorchEngine, size: int, ends_at: float) -> list[dict[str, Any]]:
    session.report("operation profile")
    try:
        seconds = max(0.5, (ends_at - time.monotonic()) / 2)
        return profiled_operators(engine, size, seconds)
    except Exception as error:
        session.warnings.append(f"no operation profile: {type(error).__name__}: {error}")
        return []
