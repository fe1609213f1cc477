"""The one timing loop: batches into a step runner until enough is known, or time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from advisor.errors import MeasuringError
from advisor.sweeps.quality.rates import StoppingRule
from advisor.sweeps.worker.step_runner import StepRunner

REL_ERROR = 0.02
# So many whole steps in a row, and a gradient scaler has found its scale.
_SETTLED_AFTER = 8
_MOST_SKIPPED = 50


class TimeBox(Struct, frozen=True, kw_only=True):
    """The duration of timing: until `seconds` of steady state and `min_steps` are over and their mean is
    known to `rel_error` (`StoppingRule`); no step begins after `max_seconds`.

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
    """Seconds of each step, from the end of the one before it; their sum is the time that passed.

    Raises `MeasuringError` where the steps were none of a training: its loss is not finite, or
    optimiser steps were skipped.
    """
    skipped, rule = runner.engine.skipped_steps, _stopping_rule(box)
    most = min(box.most_steps, box.iterations or math.inf)
    longest = math.inf if box.iterations else box.max_seconds
    runner.take_seconds()
    steps: list[float] = []
    start = time.perf_counter()
    while True:
        runner.submit(*next(batches))
        steps += runner.take_seconds()
        elapsed = time.perf_counter() - start
        # What is in flight will be done, and counts: the window ends with its last step.
        if len(steps) + runner.in_flight >= most or elapsed >= longest:
            break
        if not box.iterations and rule.is_met(steps, elapsed):
            break
    runner.drain()
    steps += runner.take_seconds()
    runner.engine.require_finite_loss()
    if runner.engine.skipped_steps > skipped:
        raise _skipping(runner.engine.skipped_steps - skipped, len(steps))
    _refuse_broken_clock(steps)
    return steps if most == math.inf else steps[: int(most)]


def _stopping_rule(box: TimeBox) -> StoppingRule:
    return StoppingRule(
        rel_error=box.rel_error,
        min_steps=box.min_steps,
        first_seconds=box.seconds,
        last_seconds=box.max_seconds,
        period=box.period,
    )


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
