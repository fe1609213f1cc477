"""Times steps from completion to completion, at most two in flight, and a run with the resources it uses.

A training loop submits the next batch while the device still computes: loading, copy and launch of step i+1
take place during step i. `StepRunner` is that loop's queue, the same for a GPU, an emulated GPU and this CPU;
only the `Completion` of a step differs."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from advisor.domain import CacheState, Trial
from advisor.errors import MeasuringError
from advisor.sweeps.machine.environment import sibling_cpus, text_of
from advisor.sweeps.machine.gpu import GpuSampler
from advisor.sweeps.machine.processes import busy_seconds
from advisor.sweeps.quality.rates import StoppingRule, count_warmup_steps, sustained_rate
from advisor.sweeps.trial.limits import Usage, grown, read_usage
from advisor.sweeps.worker.engine import Completion, Engine

State = dict[str, Any]
_ROOT = Path("/")
_STEAL = 7  # the index in /proc/stat: user nice system idle iowait irq softirq steal
# A slewed wall clock gains at most 0.05 %; beyond this tolerance it was set.
_TOLERATED_SECONDS = 0.5
_TOLERATED_SHARE = 0.001


def machine_state(cpus: Sequence[int], root: Path = _ROOT) -> State:
    """The present clocks, stolen CPU time and throttle counts of a machine's CPUs."""
    wanted = {f"cpu{cpu}" for cpu in cpus}
    rows = [line.split() for line in text_of(root / "proc/stat").splitlines()]
    stolen = [int(row[1 + _STEAL]) for row in rows if row and row[0] in wanted and len(row) > 8]
    throttles = _integers(cpus, root, "thermal_throttle/core_throttle_count")
    # Time since boot including suspension, which Linux's monotonic clock excludes.
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    state: State = {
        "wall_seconds": time.time(),
        "monotonic_seconds": time.monotonic(),
        "running_seconds": None if boot is None else time.clock_gettime(boot),
        "cpu_mhz": _cpu_mhz(cpus, root),
        "steal_seconds": sum(stolen) / os.sysconf("SC_CLK_TCK") if stolen else None,
        "cpu_thermal_throttles": sum(throttles) if throttles else None,
    }
    return {name: value for name, value in state.items() if value is not None}


def changes(before: Mapping[str, Any], after: Mapping[str, Any], cpus: int) -> dict[str, Any]:
    """The changes between two states, for a measurement's environment: CPU clocks before and after, the share
    of CPU time that the hypervisor took, throttles, and jumps of the wall clock."""
    elapsed = after["monotonic_seconds"] - before["monotonic_seconds"]
    stolen = grown(before.get("steal_seconds"), after.get("steal_seconds"))
    throttles = grown(before.get("cpu_thermal_throttles"), after.get("cpu_thermal_throttles"))
    has_clock = "cpu_mhz" in before.keys() & after.keys()
    result: dict[str, Any] = {
        "cpu_mhz": [before["cpu_mhz"], after["cpu_mhz"]] if has_clock else None,
        "steal_share": None if stolen is None or elapsed * cpus <= 0 else stolen / (elapsed * cpus),
        "cpu_thermal_throttles": throttles or None,
        "wall_clock_jump_seconds": _jump(before, after, "wall_seconds", elapsed),
        "suspended_seconds": _jump(before, after, "running_seconds", elapsed),
    }
    return {name: value for name, value in result.items() if value is not None}


def _cpu_mhz(cpus: Sequence[int], root: Path) -> float | None:
    """The mean present clock of the CPUs, from cpufreq or else /proc/cpuinfo."""
    if values := [value / 1000 for value in _integers(cpus, root, "cpufreq/scaling_cur_freq") if value]:
        return statistics.fmean(values)
    rows = [line.partition(":") for line in text_of(root / "proc/cpuinfo").splitlines()]
    answer = [float(value) for key, _, value in rows if key.strip() == "cpu MHz"]
    existing = [answer[cpu] for cpu in cpus if cpu < len(answer)]
    return statistics.fmean(existing) if existing else None


def _integers(cpus: Sequence[int], root: Path, file: str) -> list[int]:
    values = []
    for cpu in cpus:
        with suppress(ValueError):
            values.append(int(text_of(root / f"sys/devices/system/cpu/cpu{cpu}/{file}")))
    return values


def _jump(before: Mapping[str, Any], after: Mapping[str, Any], name: str, elapsed: float) -> float | None:
    """Seconds that another clock gained on the monotonic one; None if they agree."""
    advanced: float | None = grown(before.get(name), after.get(name))
    if advanced is None or abs(advanced - elapsed) <= _TOLERATED_SECONDS + _TOLERATED_SHARE * elapsed:
        return None
    return advanced - elapsed


# Steps in flight when `submit` returns. Two keep a GPU busy: one computes, one waits.
QUEUE_DEPTH = 2
REL_ERROR = 0.02
# After this number of consecutive whole steps, a gradient scaler has found its scale.
_SETTLED_AFTER = 8
_MOST_SKIPPED = 50


class StepRunner:
    """Submits steps to an engine, and records the seconds from one completion to the next.

    `depth` is the number of steps in flight when `submit` returns; 0 waits for each step, which measures the
    latency of a single batch."""

    def __init__(self, engine: Engine, *, depth: int = QUEUE_DEPTH) -> None:
        self.engine = engine
        self.depth = depth
        self._in_flight: deque[Completion] = deque()
        self._last: Completion | None = None
        self._seconds: list[float] = []

    def submit(self, inputs: Any, targets: Any) -> None:
        """Launch a step, then wait for the one `depth` steps earlier.

        After an error of the engine, which is raised, no earlier batch is kept, so that its memory is free
        for a smaller batch."""
        try:
            if self._last is None:
                self._last = self.engine.mark()
            self._in_flight.append(self.engine.launch(inputs, targets))
            self._complete(self.depth)
        except BaseException:
            self._in_flight.clear()
            self._last = None
            raise

    @property
    def in_flight(self) -> int:
        """The number of launched steps that were not yet waited for."""
        return len(self._in_flight)

    def drain(self) -> None:
        """Wait until all steps have ended."""
        self._complete(0)

    def restart(self) -> None:
        """Wait for all steps, and time the next one from now: the time between does not count."""
        self.drain()
        self._last = None

    def take_seconds(self) -> list[float]:
        """Seconds of each step that has ended since the last call.

        A step lasts from the end of the previous step to its end, by the clock of the device, so that the sum
        is the elapsed time, however late the host wakes up."""
        taken, self._seconds = self._seconds, []
        return taken

    def _complete(self, left: int) -> None:
        while len(self._in_flight) > left:
            completion = self._in_flight.popleft()
            completion.wait()
            self._seconds.append(completion.seconds_since(self._last))
            self._last = completion


class TimeBox(Struct, frozen=True, kw_only=True):
    """The length of a timed run: until `seconds` of steady state and `min_steps` have passed and the mean is
    known to `rel_error` (`StoppingRule`); no step begins after `max_seconds`.

    With `iterations` it has exactly so many steps, however long they last; it never has more than
    `most_steps`. `period` is the number of loader processes."""

    seconds: float
    min_steps: int
    max_seconds: float
    rel_error: float = REL_ERROR
    iterations: int | None = None
    most_steps: float = math.inf
    period: int = 1


def warm_up(runner: StepRunner, batches: Iterator[Any], least: int) -> int:
    """Submit at least `least` steps that do not count; returns their number.

    The first steps allocate memory and choose algorithms, and batches prefetched before would make them look
    fast. A scaled loss overflows at first, so it goes on until no step is skipped. Raises `MeasuringError` if
    that never happens."""
    before, skipped, count, whole = runner.engine.skipped_steps, 0, 0, 0
    while count < least or (skipped and whole < _SETTLED_AFTER):
        runner.submit(*next(batches))
        count += 1
        newly = runner.engine.skipped_steps - before - skipped
        whole, skipped = 0 if newly else whole + 1, skipped + newly
        if skipped > _MOST_SKIPPED:
            runner.engine.require_finite_loss()
            raise _skipping(skipped, count)
    return count


def timed_steps(runner: StepRunner, batches: Iterator[Any], box: TimeBox) -> list[float]:
    """Seconds of each step, from the end of the previous one; their sum is the elapsed time.

    Raises `MeasuringError` if the steps do not represent a training: the loss is not finite, or optimiser
    steps were skipped."""
    skipped = runner.engine.skipped_steps
    rule = StoppingRule(
        rel_error=box.rel_error,
        min_steps=box.min_steps,
        first_seconds=box.seconds,
        last_seconds=box.max_seconds,
        period=box.period,
    )
    most = min(box.most_steps, box.iterations or math.inf)
    longest = math.inf if box.iterations else box.max_seconds
    runner.take_seconds()
    steps: list[float] = []
    start = time.perf_counter()
    while True:
        runner.submit(*next(batches))
        steps += runner.take_seconds()
        elapsed = time.perf_counter() - start
        # Steps in flight will complete and count: the window ends with the last of them.
        if len(steps) + runner.in_flight >= most or elapsed >= longest:
            break
        if not box.iterations and rule.is_met(steps, elapsed):
            break
    runner.drain()
    steps += runner.take_seconds()
    runner.engine.require_finite_loss()
    if runner.engine.skipped_steps > skipped:
        raise _skipping(runner.engine.skipped_steps - skipped, len(steps))
    if min(steps) <= 0:  # a virtual machine's clock may jump when it is migrated
        raise MeasuringError(
            f"the clock that times steps went backwards (a step of {min(steps):g} s)",
            hint="measure again, on a machine with a steady clock source",
        )
    return steps if most == math.inf else steps[: int(most)]


def _skipping(skipped: int, steps: int) -> MeasuringError:
    return MeasuringError(
        f"{skipped} of {steps} optimiser steps were skipped: the gradients overflow in fp16",
        hint="measure with bf16 or fp32",
    )


SETTLING_SECONDS = 3.0
WARMING_STEPS = 3


class TimedRun(Struct, frozen=True, kw_only=True):
    """Raw step times, and the resources that the trial's processes `used` meanwhile."""

    warmup_seconds: list[float]
    step_seconds: list[float]
    wall_seconds: float
    used: Usage
    busy_seconds: float
    sibling_seconds: float
    machine: Mapping[str, Any]


def timed_run(
    trial: Trial, job: Mapping[str, Any], runner: StepRunner, batches: Iterator[Any], gpu: str | None = None
) -> TimedRun:
    """Consume prefetched batches, warm up, then time steps (`timed_steps`); `gpu` is a UUID."""
    # An idle GPU has low clocks, so it computes before they are read.
    taken = warm_up(runner, batches, WARMING_STEPS) if gpu else 0
    state = machine_state(job["cpus"])
    # Batches made while nothing consumed them would make the first steps look fast.
    taken += warm_up(runner, batches, prepared_ahead(trial) + QUEUE_DEPTH)
    if settles(trial):
        end = time.perf_counter() + SETTLING_SECONDS
        while time.perf_counter() < end:
            taken += warm_up(runner, batches, 1)
    plan, first_minute = trial.plan, list[float]()
    if seconds := plan.get("warmup_seconds", 0.0):  # steps until a GPU has the clocks that it sustains
        warming = TimeBox(seconds=seconds, min_steps=1, max_seconds=seconds)
        first_minute = timed_steps(runner, batches, warming)
        # That ended with an empty queue; the steps that count begin with a full one.
        warm_up(runner, batches, QUEUE_DEPTH)
    box = TimeBox(
        seconds=plan["measure_seconds"],
        min_steps=plan["min_steps"],
        max_seconds=plan["max_seconds"],
        rel_error=plan.get("rel_error", REL_ERROR),
        iterations=plan.get("iterations"),
        most_steps=most_steps(trial, taken + prepared_ahead(trial)),
        period=trial.loader_period,
    )
    return watched_run(trial, job, state, gpu, first_minute, lambda: timed_steps(runner, batches, box))


def watched_run(
    trial: Trial,
    job: Mapping[str, Any],
    state: State,
    gpu_uuid: str | None,
    first_minute: list[float],
    timed: Callable[[], list[float]],
) -> TimedRun:
    """The steps that count, and the resources used meanwhile; `state` is the machine's before them."""
    siblings = sibling_cpus(job["cpus"])
    before, busy = read_usage(job["usage_source"]), busy_seconds(job["cpus"])
    sibling_busy = busy_seconds(siblings)
    with GpuSampler(gpu_uuid) as sampler:
        start = time.perf_counter()
        steps = timed()
        wall_seconds = time.perf_counter() - start
    used, busy = read_usage(job["usage_source"]).since(before), busy_seconds(job["cpus"]) - busy
    sibling_busy = busy_seconds(siblings) - sibling_busy
    machine = changes(state, machine_state(job["cpus"]), len(job["cpus"]))
    warmup = count_warmup_steps(steps, trial.loader_period)
    pace = sustained_rate(steps, trial.samples_per_step, first_minute)
    return TimedRun(
        warmup_seconds=first_minute + steps[:warmup],
        step_seconds=steps[warmup:],
        wall_seconds=wall_seconds,
        used=used,
        busy_seconds=busy,
        sibling_seconds=sibling_busy,
        machine=machine | sampler.environment | ({"pace": pace} if pace else {}),
    )


def prepared_ahead(trial: Trial) -> int:
    """The number of batches that loader processes prefetch."""
    return int(trial.plan.get("loader_workers", 0) * trial.plan.get("prefetch_factor", 0))


def settles(trial: Trial) -> bool:
    """True if the page cache must settle first, since memory cannot hold the data set."""
    return trial.cache is not CacheState.COLD and trial.overflows_memory


def most_steps(trial: Trial, outside: int) -> float:
    """Most steps that may count: one epoch if cold, without `outside` (batches consumed or prefetched)."""
    if trial.cache is CacheState.WARM:
        return math.inf
    batches = trial.workload.dataset.samples // (trial.processes * trial.workload.batch_size)
    return float(max(1, batches - outside))
