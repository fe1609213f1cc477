"""Measures what a sweep that plans itself asks for, batch by batch, into the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from advisor.domain import Measurement
from advisor.runs.adaptive.planning import AdaptiveSweep, Item, SweepStatus
from advisor.runs.sweeps.sweeping import measuring_here, probed_machine
from advisor.sweeps.driver.runner import Progress, current_rows, run_sweep
from advisor.sweeps.executors.process import Executor
from advisor.sweeps.measurement_store import MeasurementStore


def run_adaptive(
    sweep: AdaptiveSweep,
    store: MeasurementStore,
    *,
    executor: str | None,
    ray_address: str | None,
    on_progress: Callable[[Progress], None],
    on_batch: Callable[[SweepStatus], None],
    clock: Callable[[], float] = time.monotonic,
    since: datetime | None = None,
) -> SweepStatus:
    """Measure until the sweep stops; returns where it stands then. What was measured before
    `since` does not count.

    The store is the state: run again it goes on, and nothing that is stored is measured twice. A
    trial that takes longer than expected ends the sweep when time is up, never in its middle.
    Raises `MeasuringError` when this machine cannot, or while another sweep runs on it.
    """
    rows = current_rows(sweep.trials, store, since=since)
    status = sweep.status(rows)
    if not status.next:
        return status
    earlier, begun = status.spent_seconds, clock()
    machine = {} if ray_address else probed_machine()
    with measuring_here(sweep.trials, executor, ray_address) as chosen:
        while status.next:
            on_batch(status)
            if sweep.budget.seconds_left(earlier + clock() - begun) <= 0:
                return replace(status, next=(), stopped=f"the budget of {sweep.budget.text} is used up")
            _measure(status.next, rows, store, chosen, machine, on_progress, since)
            rows = current_rows(sweep.trials, store, since=since)
            before, status = status, sweep.status(rows)
            if status.next == before.next:
                return replace(status, next=(), stopped="its trials left nothing in the store")
    return status


def _measure(
    items: Sequence[Item],
    rows: Mapping[str, Measurement],
    store: MeasurementStore,
    executor: Executor,
    machine: Mapping[str, Any],
    on_progress: Callable[[Progress], None],
    since: datetime | None,
) -> None:
    """One more good run of each trial, under leases; runs that were spoiled do not count."""
    runs = {item.trial.trial_id: 1 + _good_runs(rows.get(item.trial.trial_id)) for item in items}
    run_sweep(
        [item.trial for item in items],
        executor,
        store,
        on_progress=on_progress,
        machine=machine,
        runs_of=lambda trial: runs[trial.trial_id],
        since=since,
    )


def _good_runs(row: Measurement | None) -> int:
    return 1 + len(row.repeats) if row else 0
