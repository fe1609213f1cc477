"""Runs a plan: skips what is done, stores after every trial, tells how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from advisor.domain import Measurement, Status, Trial
from sweeps.executors import Executor
from sweeps.store import MeasurementStore

RETRIED = frozenset({Status.CONTAMINATED, Status.FAILED, Status.TIMED_OUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sweep is. Told when a trial starts (`started`) and ends (`measurement`)."""

    done: int
    total: int
    skipped: int
    elapsed_seconds: float
    started: Trial | None = None
    measurement: Measurement | None = None

    @property
    def remaining_seconds(self) -> float | None:
        """What is left at the pace so far; None before the first trial has ended."""
        if self.done == 0:
            return None
        return self.elapsed_seconds / self.done * (self.total - self.done)


def run_sweep(
    trials: Sequence[Trial],
    executor: Executor,
    store: MeasurementStore,
    *,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
    again: frozenset[Status] = frozenset(),
    clock: Callable[[], float] = time.monotonic,
) -> list[Measurement]:
    """Measure the trials that have no row yet, and those whose row has a status in `again`.

    Each measurement is durable before the next trial's result is taken, so that a kill loses
    only what was in flight. Returns the new measurements. The executor is closed by its owner.
    """
    statuses = store.statuses()
    todo = [trial for trial in trials if statuses.get(trial.trial_id) in {None, *again}]
    begun = clock()
    fresh: list[Measurement] = []

    def tell(*, started: Trial | None = None, measurement: Measurement | None = None) -> None:
        on_progress(
            Progress(
                done=len(fresh),
                total=len(todo),
                skipped=len(trials) - len(todo),
                elapsed_seconds=clock() - begun,
                started=started,
                measurement=measurement,
            )
        )

    def announced() -> Iterator[Trial]:
        for trial in todo:
            tell(started=trial)
            yield trial

    for measurement in executor.execute(announced()):
        store.append(measurement, replace=True)
        fresh.append(measurement)
        tell(measurement=measurement)
    return fresh
