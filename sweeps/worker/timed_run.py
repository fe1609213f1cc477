"""The end-to-end run of a trial: batches into the step runner, and what is used meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from advisor.domain import CacheState, Trial
from advisor.sweeps.machine.gpu_sampling import GpuSampler
from advisor.sweeps.machine.processes import busy_seconds
from advisor.sweeps.quality.rates import sustained_rate
from advisor.sweeps.quality.timing import count_warmup_steps
from advisor.sweeps.trial.limits.usage import Usage, grown, read_usage
from advisor.sweeps.worker.machine_state import State, changes, machine_state
from advisor.sweeps.worker.step_runner import QUEUE_DEPTH, StepRunner
from advisor.sweeps.worker.timed_steps import REL_ERROR, TimeBox, timed_steps, warm_up

SETTLING_SECONDS = 3.0
WARMING_STEPS = 3


class TimedRun(Struct, frozen=True, kw_only=True):
    """Raw steps, and what was used while they ran."""

    warmup_seconds: list[float]
    step_seconds: list[float]
    wall_seconds: float
    before: Usage
    after: Usage
    busy_seconds: float
    machine: Mapping[str, Any]

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the trial's own processes."""
        return self.after.cpu_seconds - self.before.cpu_seconds

    @property
    def read_bytes(self) -> int | None:
        """Read from the disk; None where nothing counts that."""
        return grown(self.before.read_bytes, self.after.read_bytes)

    @property
    def read_operations(self) -> int | None:
        """In so many requests of the disk; None where nothing counts that."""
        return grown(self.before.read_operations, self.after.read_operations)


def timed_run(
    trial: Trial,
    job: Mapping[str, Any],
    runner: StepRunner,
    batches: Iterator[Any],
    gpu_uuid: str | None = None,
) -> TimedRun:
    """Drain what was prepared ahead, run for the `warmup_seconds` of the plan, then time steps
    until enough are known (`timed_steps`)."""
    # An idle GPU has low clocks: it works before they are read.
    taken = warm_up(runner, batches, WARMING_STEPS) if gpu_uuid else 0
    state = machine_state(job["cpus"])
    # Batches made while nothing consumed them would make the first steps look fast.
    taken += warm_up(runner, batches, prepared_ahead(trial) + QUEUE_DEPTH)
    taken += _settle(trial, runner, batches)
    first_minute = _first_minute(trial, runner, batches)
    box = _time_box(trial, taken)
    return watched_run(trial, job, state, gpu_uuid, first_minute, lambda: timed_steps(runner, batches, box))


def watched_run(
    trial: Trial,
    job: Mapping[str, Any],
    state: State,
    gpu_uuid: str | None,
    first_minute: list[float],
    timed: Callable[[], list[float]],
) -> TimedRun:
    """The steps that count, and what was used meanwhile; `state` is that of the machine before."""
    before, busy = read_usage(job["usage_source"]), busy_seconds(job["cpus"])
    with GpuSampler(gpu_uuid) as sampler:
        start = time.perf_counter()
        steps = timed()
        wall_seconds = time.perf_counter() - start
    after, busy = read_usage(job["usage_source"]), busy_seconds(job["cpus"]) - busy
    machine = changes(state, machine_state(job["cpus"]), len(job["cpus"]))
    warmup = count_warmup_steps(steps, trial.loader_period)
    return TimedRun(
        warmup_seconds=first_minute + steps[:warmup],
        step_seconds=steps[warmup:],
        wall_seconds=wall_seconds,
        before=before,
        after=after,
        busy_seconds=busy,
        machine=machine | sampler.environment | _pace_facts(trial, first_minute, steps),
    )


def prepared_ahead(trial: Trial) -> int:
    """Batches that loader processes hold ready."""
    return int(trial.plan.get("loader_workers", 0) * trial.plan.get("prefetch_factor", 0))


def _settle(trial: Trial, runner: StepRunner, batches: Iterator[Any]) -> int:
    """Waits, uncounted, until the page cache finds its level where memory cannot hold the data set: some
    seconds. Returns the batches that this took."""
    if not settles(trial):
        return 0
    count, end = 0, time.perf_counter() + SETTLING_SECONDS
    while time.perf_counter() < end:
        count += warm_up(runner, batches, 1)
    return count


def settles(trial: Trial) -> bool:
    """Whether the page cache has to find its level."""
    return trial.cache is not CacheState.COLD and trial.overflows_memory


def _first_minute(trial: Trial, runner: StepRunner, batches: Iterator[Any]) -> list[float]:
    """Steps that bring a GPU to the clocks which it sustains; none where the plan has no time."""
    seconds = trial.plan.get("warmup_seconds", 0.0)
    if not seconds:
        return []
    steps = timed_steps(runner, batches, TimeBox(seconds=seconds, min_steps=1, max_seconds=seconds))
    # It ended with an empty queue; what counts begins with a full one.
    warm_up(runner, batches, QUEUE_DEPTH)
    return steps


def _pace_facts(trial: Trial, first_minute: list[float], steps: list[float]) -> dict[str, Any]:
    rates = sustained_rate(steps, trial.samples_per_step, first_minute)
    return {"pace": rates} if rates else {}


def _time_box(trial: Trial, taken: int) -> TimeBox:
    """The planned time box; `taken` counts the batches that were used up before."""
    plan = trial.plan
    return TimeBox(
        seconds=plan["measure_seconds"],
        min_steps=plan["min_steps"],
        max_seconds=plan["max_seconds"],
        rel_error=plan.get("rel_error", REL_ERROR),
        iterations=plan.get("iterations"),
        most_steps=most_steps(trial, taken + prepared_ahead(trial)),
        period=trial.loader_period,
    )


def most_steps(trial: Trial, outside: int) -> float:
    """A cold trial ends with its first epoch: what is read again is not cold. `outside` counts
    the batches drained before and prepared ahead."""
    if trial.cache is CacheState.WARM:
        return math.inf
    batches = trial.workload.dataset.samples // (trial.processes * trial.workload.batch_size)
    return float(max(1, batches - outside))
