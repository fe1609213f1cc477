"""Runs a plan: skips what is done, stores after every trial, tells how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from advisor.domain import Measurement, Status, Trial
from sweeps.executors import Executor
from sweeps.repeating import in_order, merged, rounds
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
    machine: Mapping[str, Any] = MappingProxyType({}),
    clock: Callable[[], float] = time.monotonic,
) -> list[Measurement]:
    """Measure the trials that have no row yet, those whose row has a status in `again`, and those
    with fewer repeats than planned; repeats in random order, each into its trial's row.

    Each measurement is durable before the next trial's result is taken, so that a kill loses
    only what was in flight. What is known of the `machine` joins every row's environment.
    Returns the new measurements. The executor is closed by its owner.
    """
    rows = known_rows(trials, store, again)
    todo = list(in_order(rounds(trials, rows)))
    skipped = len(trials) - len({trial.trial_id for trial in todo})
    begun = clock()
    fresh: list[Measurement] = []
    passed_over: list[Trial] = []

    def tell(*, started: Trial | None = None, measurement: Measurement | None = None) -> None:
        on_progress(
            Progress(
                done=len(fresh) + len(passed_over),
                total=len(todo),
                skipped=skipped,
                elapsed_seconds=clock() - begun,
                started=started,
                measurement=measurement,
            )
        )

    def announced() -> Iterator[Trial]:
        for trial in todo:
            row = rows.get(trial.trial_id)
            if row and row.status is not Status.OK:
                passed_over.append(trial)  # its repeats would end as its first run did
                continue
            tell(started=trial)
            yield trial

    for bare in executor.execute(announced()):
        measurement = replace(bare, environment={**bare.environment, **machine})
        trial_id = measurement.trial.trial_id
        rows[trial_id] = merged(rows.get(trial_id), measurement)
        store.append(rows[trial_id], replace=True)
        fresh.append(measurement)
        tell(measurement=measurement)
    return fresh


def known_rows(
    trials: Sequence[Trial], store: MeasurementStore, again: frozenset[Status] = frozenset()
) -> dict[str, Measurement]:
    """The rows of the trials by id, but for those that are to be measured again."""
    wanted = {trial.trial_id for trial in trials}
    return {
        row.trial.trial_id: row
        for row in store.all()
        if row.trial.trial_id in wanted and row.status not in again
    }
