"""The engines that compute a trial's steps: a GPU, this CPU, an emulated GPU, or none. Needs torch."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import torch

from advisor.domain import Stack, Task, Trial
from advisor.domain.gpu_identity import is_card
from advisor.errors import MeasuringError
from advisor.messages import Message
from advisor.models.zoo.opening import Runnable
from advisor.sweeps.worker.group import exchanges_gradients
from advisor.sweeps.worker.host_engine import EmulatedGpu, Engine, HostEngine
from advisor.sweeps.worker.policy import CPU_CLOCK, compute_threads
from advisor.sweeps.worker.timed_run import QUEUE_DEPTH, StepRunner
from advisor.sweeps.worker.torch_engine import TorchEngine, present_gpu

# They outlive the trial's scratch folder.
_COMPILED = Path("~/.cache/instance-sizing-advisor/compiled")


def runner_of(trial: Trial, opened: Runnable) -> StepRunner:
    """The runner of a trial's steps, compiled where the trial asks for that.

    A GPU has two steps in flight, as in a plain training loop, unless the trial synchronises each step; a CPU
    computes in the foreground. Raises `MeasuringError` where another GPU is here than was asked for.
    """
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
        return HostEngine()
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
    if present.is_slice:
        raise MeasuringError(
            "{requested} was requested, but the GPU of this node is a slice of a card ({name}, "
            "{memory_mib:,.0f} MiB, {sm_count} multiprocessors)",
            hint="measure on a whole card; --accelerator cuda measures the slice, and no fit or "
            "anchor takes it for a card",
            requested=requested,
            name=torch.cuda.get_device_name(),
            memory_mib=present.memory_mib,
            sm_count=present.sm_count,
        )
    raise MeasuringError(
        "{requested} was requested, but the GPU of this node is: {present}",
        hint=Message(
            "correct the node's resources, or use --accelerator cuda:{present}", present=present.gpu
        ),
        requested=requested,
        present=present.gpu,
    )
