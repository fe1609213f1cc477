"""The one timing loop: batches into a step runner until enough is known, or time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from advisor.errors import MeasuringError
from sweeps.quality.statistics import measured_enough, steady_part
from sweeps.worker.step_runner import StepRunner

# Looking costs about a millisecond: seldom enough to be no part of the measurement.
_LOOK_AFTER_MORE_STEPS = 1.1
_LOOK_EVERY_SECONDS = 0.25
_MOST_LOOKED_AT = 1024
REL_ERROR = 0.02
# So many whole steps in a row, and a gradient scaler has found its scale.
_SETTLED_AFTER = 8
_MOST_SKIPPED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBox:
    """How long steps are timed: until `seconds` of steady state and `min_steps` are over and the
    interval of the rate is within `rel_error`; no step begins after `max_seconds`.

    `iterations` takes exactly so many, however long they last; there are never more than
    `most_steps`. `period` is the number of loader processes.
    """

    seconds: float
    min_steps: int
    max_seconds: float
    rel_error: float = REL_ERROR
    iterations: int | None = None
    most_steps: float = math.inf
    period: int = 1


def warm_up(runner: StepRunner, batches: Iterator[Any], least: int) -> int:
    """Submit at least `least` steps that do not count; returns how many it took.

    The first steps allocate and choose algorithms, and batches that were prepared while nothing
    consumed them would look fast. A scaled loss overflows at first: goes on until steps are
    whole. `MeasuringError` where they never are.
    """
    count = whole = 0
    while count < least or (runner.engine.skipped_steps and whole < _SETTLED_AFTER):
        skipped = runner.engine.skipped_steps
        runner.submit(*next(batches))
        count += 1
        whole = whole + 1 if runner.engine.skipped_steps == skipped else 0
        if runner.engine.skipped_steps > _MOST_SKIPPED:
            runner.engine.require_finite_loss()
            raise _skipping(runner.engine.skipped_steps, count)
    return count


def timed_steps(runner: StepRunner, batches: Iterator[Any], box: TimeBox) -> list[float]:
    """Seconds of each step, from the end of the one before it; their sum is the time that passed.

    Raises `MeasuringError` where the steps were none of a training: its loss is not finite, or
    optimiser steps were skipped.
    """
    skipped, look = runner.engine.skipped_steps, _Look(box)
    most = min(box.most_steps, box.iterations or math.inf)
    longest = math.inf if box.iterations else box.max_seconds
    runner.take_seconds()
    steps: list[float] = []
    start = time.perf_counter()
    while True:
        runner.submit(*next(batches))
        steps += runner.take_seconds()
        elapsed = time.perf_counter() - start
        if len(steps) >= most or elapsed >= longest:
            break
        if not box.iterations and look.says_enough(steps, elapsed):
            break
    runner.drain()
    steps += runner.take_seconds()
    runner.engine.require_finite_loss()
    if runner.engine.skipped_steps > skipped:
        raise _skipping(runner.engine.skipped_steps - skipped, len(steps))
    _refuse_broken_clock(steps)
    return steps if most == math.inf else steps[: int(most)]


class _Look:
    """Looks at the steps from time to time, and says whether they are enough."""

    def __init__(self, box: TimeBox) -> None:
        self._box = box
        self._next_steps: float = box.min_steps
        self._next_seconds = box.seconds

    def says_enough(self, steps: list[float], elapsed: float) -> bool:
        box = self._box
        if elapsed < self._next_seconds or len(steps) < self._next_steps:
            return False
        self._next_seconds = elapsed + _LOOK_EVERY_SECONDS
        self._next_steps = len(steps) * _LOOK_AFTER_MORE_STEPS
        return _steady_seconds(steps, box.period) >= box.seconds and measured_enough(
            steps, rel_error=box.rel_error, min_steps=box.min_steps, period=box.period
        )


def _steady_seconds(steps: list[float], period: int) -> float:
    """Seconds after warm-up; of many steps whole rounds are looked at together, which is fast."""
    rounds = len(steps) // (_MOST_LOOKED_AT * period)
    if not rounds:
        return sum(steady_part(steps, period))
    size = rounds * period
    return sum(steady_part([sum(steps[i : i + size]) for i in range(0, len(steps), size)]))


def _skipping(skipped: int, steps: int) -> MeasuringError:
    return MeasuringError(
        "{skipped} of {steps} optimiser steps were skipped: the gradients overflow in fp16",
        hint="measure with bf16 or fp32",
        skipped=skipped,
        steps=steps,
    )


def _refuse_broken_clock(steps: list[float]) -> None:
    """A virtual machine's counters may jump when it is moved: no rate is known then."""
    if min(steps) <= 0:
        raise MeasuringError(
            "the clock that times steps went backwards (a step of {steps:g} s)",
            hint="measure again, on a machine with a steady clock source",
            steps=min(steps),
        )
