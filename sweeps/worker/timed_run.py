"""The end-to-end run of a trial: batches into the accelerator, each step timed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from advisor.domain import CacheState, Trial
from advisor.errors import MeasuringError
from sweeps.machine.processes import busy_seconds
from sweeps.quality.statistics import measured_enough
from sweeps.quality.timing import count_warmup_steps, pace
from sweeps.trial.limits.usage import Usage, read_usage
from sweeps.worker.accelerators import EMULATED_QUEUE_DEPTH, Accelerator
from sweeps.worker.machine_state import changes, machine_state

# Looking costs about a millisecond: seldom enough to be no part of the measurement.
_LOOK_AFTER_MORE_STEPS = 1.1
_LOOK_EVERY_SECONDS = 0.25
_DEFAULT_REL_ERROR = 0.02
_SETTLING_SECONDS = 3.0
_WARMING_STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRun:
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
        if self.after.read_bytes is None or self.before.read_bytes is None:
            return None
        return self.after.read_bytes - self.before.read_bytes


def timed_run(
    trial: Trial,
    job: Mapping[str, Any],
    accelerator: Accelerator,
    batches: Iterator[Any],
    gpu_uuid: str | None = None,
) -> TimedRun:
    """Drain what was prepared ahead, then time steps until enough are known (`timed_steps`)."""
    ahead = int(trial.plan["loader_workers"] * trial.plan["prefetch_factor"])
    # Batches made while nothing consumed them would make the first steps look fast.
    drained = ahead + EMULATED_QUEUE_DEPTH
    # An idle GPU has low clocks: it works before they are read.
    warming = _WARMING_STEPS if gpu_uuid else 0
    _submit(warming, accelerator, batches)
    state = machine_state(job["cpus"], gpu_uuid)
    _submit(drained, accelerator, batches)
    settling = _settle(trial, accelerator, batches)
    before, busy = read_usage(job["usage_source"]), busy_seconds(job["cpus"])
    start = time.perf_counter()
    most = _most_steps(trial, warming + drained + settling + ahead)
    steps = timed_steps(batches, accelerator, trial, most)
    wall_seconds = time.perf_counter() - start
    after, busy = read_usage(job["usage_source"]), busy_seconds(job["cpus"]) - busy
    machine = changes(state, machine_state(job["cpus"], gpu_uuid), len(job["cpus"]))
    _refuse_broken_clock(steps)
    warmup = count_warmup_steps(steps, trial.loader_period)
    return TimedRun(
        warmup_seconds=steps[:warmup],
        step_seconds=steps[warmup:],
        wall_seconds=wall_seconds,
        before=before,
        after=after,
        busy_seconds=busy,
        machine=machine | _pace(trial, steps),
    )


def _settle(trial: Trial, accelerator: Accelerator, batches: Iterator[Any]) -> int:
    """Where memory cannot hold the data set, loading takes page cache at first, which only then
    finds its level: some seconds that are not counted. Returns the batches that they took."""
    if trial.cache is CacheState.COLD or not trial.overflows_memory:
        return 0
    count, end = 0, time.perf_counter() + _SETTLING_SECONDS
    while time.perf_counter() < end:
        _submit(1, accelerator, batches)
        count += 1
    return count


def _submit(count: int, accelerator: Accelerator, batches: Iterator[Any]) -> None:
    for _ in range(count):
        accelerator.submit(*next(batches))


def _pace(trial: Trial, steps: list[float]) -> dict[str, Any]:
    result = pace(steps, trial.samples_per_step, trial.loader_period)
    return {"pace": result} if result else {}


def _refuse_broken_clock(steps: list[float]) -> None:
    """A virtual machine's counters may jump when it is moved: no rate is known then."""
    if min(steps) <= 0:
        raise MeasuringError(
            "the clock that times steps went backwards (a step of {steps:g} s)",
            hint="measure again, on a machine with a steady clock source",
            steps=min(steps),
        )


def timed_steps(
    batches: Iterator[Any], accelerator: Accelerator, trial: Trial, most_steps: float = math.inf
) -> list[float]:
    """Seconds from one batch accepted to the next.

    Ends once `measure_seconds` and `min_steps` are over and the interval of the steady steps
    is within `rel_error`; never starts a step after `max_seconds` or beyond `most_steps`. A plan
    with `iterations` takes exactly so many, however long they last.
    """
    plan = trial.plan
    iterations = plan.get("iterations")
    longest = math.inf if iterations else plan["max_seconds"]
    most = min(most_steps, iterations or math.inf)
    look = _Look(trial)
    steps: list[float] = []
    start = previous = time.perf_counter()
    while True:
        accelerator.submit(*next(batches))
        now = time.perf_counter()
        steps.append(now - previous)
        previous, elapsed = now, now - start
        if len(steps) >= most or elapsed >= longest:
            return steps
        if not iterations and look.says_enough(steps, elapsed):
            return steps


class _Look:
    """Looks at the steps from time to time, and says whether they are enough."""

    def __init__(self, trial: Trial) -> None:
        plan = trial.plan
        self._rel_error = plan.get("rel_error", _DEFAULT_REL_ERROR)
        self._min_steps = plan["min_steps"]
        self._period = trial.loader_period
        self._next_steps: float = plan["min_steps"]
        self._next_seconds: float = plan["measure_seconds"]

    def says_enough(self, steps: list[float], elapsed: float) -> bool:
        if elapsed < self._next_seconds or len(steps) < self._next_steps:
            return False
        self._next_seconds = elapsed + _LOOK_EVERY_SECONDS
        self._next_steps = len(steps) * _LOOK_AFTER_MORE_STEPS
        return measured_enough(
            steps, rel_error=self._rel_error, min_steps=self._min_steps, period=self._period
        )


def _most_steps(trial: Trial, outside: int) -> float:
    """A cold trial ends with its first epoch: what is read again is not cold. `outside` counts
    the batches drained before and prepared ahead."""
    if trial.cache is CacheState.WARM:
        return math.inf
    batches = trial.workload.dataset.samples // trial.workload.batch_size
    return float(max(1, batches - outside))
