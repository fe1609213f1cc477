"""What computes a trial's steps: a GPU, this CPU, an emulated GPU, or nothing. Needs torch."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

import torch

from advisor.domain import Stack, Task, Trial
from advisor.errors import MeasuringError
from models.zoo.opening import Runnable
from sweeps.worker.pipeline.policy import CPU_CLOCK, compute_threads
from sweeps.worker.step_runner import QUEUE_DEPTH, EmulatedGpu, Engine, HostEngine, StepRunner
from sweeps.worker.torch_engine import TorchEngine

_COMPILED = Path("~/.cache/instance-sizing-advisor/compiled")


def runner_of(trial: Trial, opened: Runnable) -> StepRunner:
    """The runner of a trial's steps, compiled where the trial asks for that.

    A GPU has two steps in flight, as in a plain training loop, unless the trial synchronises each
    step; a CPU computes in the foreground. Raises `MeasuringError` where another GPU is here
    than was asked for.
    """
    ahead = not trial.accelerator.is_cpu
    synchronised = bool(trial.plan.get("synchronise_each_step"))
    runner = StepRunner(
        _engine(trial, opened), depth=QUEUE_DEPTH if ahead and not synchronised else 0
    )
    if isinstance(runner.engine, TorchEngine) and trial.workload.stack is Stack.COMPILE:
        runner.submit(*runner.engine.batch(trial.workload.batch_size))
        runner.restart()
    return runner


def _engine(trial: Trial, opened: Runnable) -> Engine:
    workload = trial.workload
    if workload.task is Task.PREPROCESSING:
        return HostEngine()
    if trial.emulated_step_seconds is not None:
        return EmulatedGpu(trial.emulated_step_seconds)
    if workload.stack is Stack.COMPILE:
        _prepare_compiler(trial)
    torch.backends.cudnn.benchmark = bool(trial.plan.get("cudnn_benchmark"))
    return TorchEngine(
        opened,
        device=_device(trial),
        task=workload.task,
        precision=workload.precision,
        memory_format=workload.memory_format,
        stack=workload.stack,
        clock=time.process_time if trial.plan.get("clock") == CPU_CLOCK else time.perf_counter,
    )


def _prepare_compiler(trial: Trial) -> None:
    """Compiled kernels outlive the trial's scratch folder; no more compile jobs than vCPUs."""
    with suppress(RuntimeError):  # no home folder: they are compiled each time
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(_COMPILED.expanduser()))
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(compute_threads(trial.resources.vcpus))


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


def is_named(device: str, requested: str) -> bool:
    """Whether a GPU that the driver calls `device` ('NVIDIA A100-SXM4-40GB') is the one that Ray
    or a catalogue calls `requested` ('A100', 'A100-40G')."""
    there = re.split(r"[\s-]+", device.upper())
    return all(
        part in there or f"{part}B" in there for part in re.split(r"[\s-]+", requested.upper())
    )
