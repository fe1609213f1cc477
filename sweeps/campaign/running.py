"""Runs a campaign's cells one after the other, until they or the minutes are used up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

import torch

from advisor.domain import LimitedBy, Measurement, Stage, Status, Trial
from advisor.domain.steps import mean_step_seconds
from advisor.errors import AdvisorError, MeasuringError
from models.zoo.opening import Runnable
from sweeps.campaign.cells import BatchRange, BenchmarkBudget, Machine, next_batch, synthetic_trial
from sweeps.campaign.records import Records
from sweeps.machine.gpu_sampling import gpu_states
from sweeps.machine.processes import busy_seconds, judge
from sweeps.machine.size import allowed_cpus
from sweeps.quality.timing import count_warmup_steps
from sweeps.trial.faults import lacks_memory
from sweeps.trial.limits.usage import PROCESS_TREE, read_usage
from sweeps.trial.trial_process import run_attempt
from sweeps.worker.step_runner import QUEUE_DEPTH, StepRunner
from sweeps.worker.timed_steps import TimeBox, timed_steps, warm_up
from sweeps.worker.torch_engine import TorchEngine
from sweeps.worker.torch_facts import forget_peaks, free_memory, peaks

Report = Callable[[str], None]
# A cell that could not end in time is better begun in the next run.
_TIME_FOR_A_CELL = 3.0


@dataclass(slots=True, kw_only=True)
class Campaign:
    """What all cells are measured with. `ends_at` is a time.monotonic() moment.

    `by_cpu_time`: steps are timed in the process's CPU seconds, which neighbours cannot take.
    Only one thread's CPU seconds are the seconds of a step.
    """

    machine: Machine
    budget: BenchmarkBudget
    records: Records
    environment: dict[str, Any]
    report: Report
    ends_at: float
    by_cpu_time: bool = False
    measured: int = 0
    skipped: list[str] = field(default_factory=list)

    @property
    def seconds_left(self) -> float:
        """Until nothing new is begun."""
        return self.ends_at - time.monotonic()

    def keep(self, row: Measurement) -> None:
        """On disk first, then reported."""
        self.records.append(row)
        self.measured += 1
        self.report(_line(row))


def run_ladder(campaign: Campaign, batch_range: BatchRange, network: Runnable) -> bool:
    """Measure the ladder's cells that are missing; False when the time was used up.

    Raises `MeasuringError` when the device does not compute any more: the cell is recorded, and
    a new process goes on after it.
    """
    size = next_batch(batch_range, campaign.machine, campaign.budget, campaign.records.done)
    if size is None:
        return True
    engine: TorchEngine | None = None
    environment = campaign.environment | _state(campaign.machine)
    while size is not None:
        if campaign.seconds_left < _TIME_FOR_A_CELL:
            return False
        trial = synthetic_trial(batch_range, size, campaign.machine, campaign.budget)
        try:
            engine = engine or _engine(campaign, batch_range, network)
        except MeasuringError as error:
            campaign.skipped.append(f"{batch_range.info.name}: {error}")
            return True
        except Exception as error:
            campaign.keep(_failure(trial, environment, error))
        else:
            campaign.keep(_measured(trial, engine, campaign, environment))
        free_memory(campaign.machine.accelerator)
        _require_usable(campaign)
        size = next_batch(batch_range, campaign.machine, campaign.budget, campaign.records.done)
    return True


def run_pipeline(campaign: Campaign, trials: Sequence[Trial]) -> bool:
    """Measure the real input pipeline in processes of their own; False when time was used up."""
    free_memory(campaign.machine.accelerator)
    for trial in trials:
        if trial.trial_id in campaign.records.done:
            continue
        if campaign.seconds_left < trial.plan["max_seconds"] + _TIME_FOR_A_CELL:
            return False
        row = run_attempt(trial, timeout_seconds=max(_TIME_FOR_A_CELL, campaign.seconds_left))
        if row.status is Status.TIMED_OUT:
            return False  # the run's end came before the trial's: nothing is known of it
        campaign.keep(replace(row, environment={**campaign.environment, **row.environment}))
    return True


def _engine(campaign: Campaign, batch_range: BatchRange, network: Runnable) -> TorchEngine:
    torch.manual_seed(0)
    return TorchEngine(
        network,
        device=campaign.machine.accelerator,
        task=batch_range.task,
        precision=batch_range.precision,
        clock=time.process_time if campaign.by_cpu_time else time.perf_counter,
    )


def _measured(
    trial: Trial, engine: TorchEngine, campaign: Campaign, environment: dict[str, Any]
) -> Measurement:
    budget = campaign.budget
    box = TimeBox(
        seconds=budget.seconds, min_steps=budget.min_steps, max_seconds=budget.max_seconds
    )
    started_at = datetime.now(UTC).isoformat()
    cpus = allowed_cpus()
    own, busy, start = _own_seconds(), busy_seconds(cpus), time.monotonic()
    try:
        forget_peaks(campaign.machine.accelerator)
        runner = StepRunner(engine, depth=QUEUE_DEPTH if trial.accelerator.is_gpu else 0)
        batches = repeat(engine.batch(trial.workload.batch_size))
        warm_up(runner, batches, 1 + runner.depth)
        steps = timed_steps(runner, batches, box)
    except Exception as error:
        # Without its traceback nothing holds the tensors that did not fit.
        return _failure(trial, environment, error.with_traceback(None), started_at)
    wall = time.monotonic() - start
    contention = judge(
        busy=busy_seconds(cpus) - busy, own=_own_seconds() - own, wall_seconds=wall,
        cpus=len(cpus), vcpus=trial.resources.vcpus,
    )  # fmt: skip
    interfered = contention.interfered and not campaign.by_cpu_time
    warmup = count_warmup_steps(steps)
    facts = (
        engine.environment
        | peaks(campaign.machine.accelerator)
        | {
            "own_cores": contention.own_cores,
            "other_cores": contention.other_cores,
        }
    )
    return Measurement(
        trial=trial,
        status=Status.CONTAMINATED if interfered else Status.OK,
        limited_by=LimitedBy.HOST,
        step_seconds=tuple(steps[warmup:]),
        warmup_step_seconds=tuple(steps[:warmup]),
        stage_rates={Stage.ACCELERATOR.value: _rate(trial, steps[warmup:])},
        cpu_seconds=contention.own_cores * wall,
        wall_seconds=wall,
        environment=environment | facts,
        started_at=started_at,
    )


def _failure(
    trial: Trial, environment: dict[str, Any], error: Exception, started_at: str = ""
) -> Measurement:
    memory = lacks_memory(error)
    text = " ".join(str(error).split())[:500]
    return Measurement(
        trial=trial,
        status=Status.OUT_OF_MEMORY if memory else Status.FAILED,
        limited_by=LimitedBy.HOST,
        environment=environment,
        started_at=started_at or datetime.now(UTC).isoformat(),
        reason=text if isinstance(error, AdvisorError) else f"{type(error).__name__}: {text}",
    )


def _require_usable(campaign: Campaign) -> None:
    if not _is_usable(campaign.machine.accelerator):
        raise MeasuringError(
            "the GPU does not compute any more in this process",
            hint="the cell is recorded as failed, run the same command again to go on after it",
        )


def _is_usable(device: str) -> bool:
    """Whether the device still computes: after some faults a process's CUDA never does again."""
    if device != "cuda":
        return True
    try:
        torch.ones(1, device=device).add_(1)
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def _rate(trial: Trial, steps: Sequence[float]) -> float:
    return trial.workload.batch_size / mean_step_seconds(steps)


def _own_seconds() -> float:
    return read_usage({"kind": PROCESS_TREE}).cpu_seconds


def _state(machine: Machine) -> dict[str, Any]:
    """Clocks, temperature and what else uses the GPU, before a ladder."""
    if machine.accelerator != "cuda":
        return {}
    try:
        return {"gpu_state_before": gpu_states()}
    except MeasuringError:
        return {"gpu_state_before": None}


def _line(row: Measurement) -> str:
    workload, rate = row.trial.workload, row.throughput_samples_per_second
    name = f"{workload.network} {workload.task} {workload.precision} batch {workload.batch_size}"
    if workload.dataset.storage_format != "synthetic":
        name += f", {row.trial.resources.vcpus:g} vCPUs, real input"
    answer = "-" if rate is None else f"{rate:.4g} rows/s"
    memory = row.environment.get("gpu_peak_reserved_mib")
    used = f", {memory:,.0f} MiB" if memory else ""
    ending = "" if row.status is Status.OK else f" {row.status.value.replace('_', ' ')}"
    return f"{name}: {answer}{used}{ending} {row.reason[:100]}".rstrip()
