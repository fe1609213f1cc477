"""Measures what a sweep that plans itself asks for, batch by batch, into the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.domain import Measurement
from advisor.operations.adaptive.planning import AdaptiveSweep, Item, Standing
from advisor.operations.sweeping import measuring_here, probed_machine

if TYPE_CHECKING:
    from sweeps.executors import Executor
    from sweeps.runner import Progress
    from sweeps.store import MeasurementStore


def run_adaptive(
    sweep: AdaptiveSweep,
    store: MeasurementStore,
    *,
    executor: str,
    ray_address: str | None,
    on_progress: Callable[[Progress], None],
    on_batch: Callable[[Standing], None],
    clock: Callable[[], float] = time.monotonic,
) -> Standing:
    """Measure until the sweep stops; returns where it stands then.

    The store is the state: run again it goes on, and nothing that is stored is measured twice. A
    trial that takes longer than expected ends the sweep when time is up, never in its middle.
    Raises `MeasuringError` when this machine cannot, or while another sweep runs on it.
    """
    from sweeps.runner import known_rows

    standing = sweep.standing(known_rows(sweep.trials, store))
    if not standing.next:
        return standing
    earlier, begun = standing.spent_seconds, clock()
    with measuring_here(executor, ray_address) as chosen:
        while standing.next:
            on_batch(standing)
            if sweep.budget.seconds_left(earlier + clock() - begun) <= 0:
                return replace(standing, next=(), stopped=_used_up(sweep))
            _measure(standing.next, store, chosen, bool(ray_address), on_progress)
            before, standing = standing, sweep.standing(known_rows(sweep.trials, store))
            if standing.next == before.next:
                return replace(standing, next=(), stopped="its trials left nothing in the store")
    return standing


def _used_up(sweep: AdaptiveSweep) -> str:
    return f"the budget of {sweep.budget.text} is used up"


def _measure(
    items: Sequence[Item],
    store: MeasurementStore,
    executor: Executor,
    elsewhere: bool,
    on_progress: Callable[[Progress], None],
) -> None:
    """New trials through the runner; further runs into their trials' rows."""
    from sweeps.runner import run_sweep

    machine = {} if elsewhere else probed_machine()
    new = [item.trial for item in items if item.run == 1]
    if new:
        run_sweep(new, executor, store, on_progress=on_progress, machine=machine)
    for bare in executor.execute(item.trial for item in items if item.run > 1):
        _join(replace(bare, environment={**bare.environment, **machine}), store)


def _join(fresh: Measurement, store: MeasurementStore) -> None:
    from sweeps.repeating import merged
    from sweeps.runner import known_rows

    row = known_rows([fresh.trial], store).get(fresh.trial.trial_id)
    store.append(merged(row, fresh), replace=True)
