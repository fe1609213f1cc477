"""Runs a plan: skips what is done, stores after every trial, reports how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import Measurement, Status, Trial
from advisor.errors import DataError
from advisor.sweeps.events import subscribe
from advisor.sweeps.measurement_store import Damaged, MeasurementStore, in_parts
from advisor.sweeps.planning.repeating import in_order, rounds, runs_made, wanted_runs
from advisor.sweeps.quality.issues import is_stale
from advisor.sweeps.run.executors import Executor
from advisor.sweeps.run.queue import TrialQueue, leasing

RETRIED = frozenset({Status.CONTAMINATED, Status.FAILED, Status.TIMED_OUT})
POLL_SECONDS = 2.0


class Progress(Struct, frozen=True, kw_only=True):
    """The progress of a sweep, reported when it begins, when a trial starts (`started`) or ends
    (`measurement`), and when other drivers may have measured some."""

    done: int
    total: int
    skipped: int
    started: Trial | None = None
    measurement: Measurement | None = None


class Ended(Protocol):
    """The end of a trial, and its cause."""

    @property
    def status(self) -> Status:
        """In one word."""

    @property
    def reason(self) -> str:
        """Empty where it ended well."""


class Outcome(Struct):
    """The counts of a finished sweep. The measurements are in the store alone: ten thousand of them would
    fill the driver's memory."""

    measured: int = 0
    usable: int = 0
    failed: int = 0
    first_failure: str = ""

    def count(self, measurement: Ended) -> None:
        """One more. Out of memory and contaminated are results; a failure is for the user."""
        self.measured += 1
        self.usable += measurement.status is Status.OK
        if measurement.status in (Status.FAILED, Status.TIMED_OUT):
            self.failed += 1
            self.first_failure = self.first_failure or measurement.reason


def run_sweep(
    trials: Sequence[Trial],
    executor: Executor,
    store: MeasurementStore,
    *,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
    again: frozenset[Status] = frozenset(),
    since: datetime | None = None,
    machine: Mapping[str, Any] = MappingProxyType({}),
    runs_of: Callable[[Trial], int] = wanted_runs,
    poll_seconds: float = POLL_SECONDS,
) -> Outcome:
    """Measure the trials that have no row yet, those whose row has a status in `again` or began
    before `since`, and those with fewer runs than planned (`runs_of`); repeats in random order,
    each into its trial's row.

    Each measurement is durable before the next trial's result is taken, so that a kill loses
    only what was in flight. What is known of the `machine` joins every row's environment.
    Trials that other drivers measure are left to them, and waited for at the end: those that
    they give up are measured here. The executor is closed by its owner. `DataError`, when the
    store takes no more, names the file that holds what was measured.
    """
    before = stored_runs(trials, store, again, runs_of, since)
    todo = list(in_order(rounds(trials, before.done, runs_of)))
    skipped = len(trials) - len({trial.trial_id for trial in todo})
    outcome = Outcome()

    def report(**news: Any) -> None:
        done = outcome.measured + queue.passed_over
        on_progress(Progress(done=done, total=len(todo), skipped=skipped, **news))

    with leasing(store.leases) as owner:
        queue = TrialQueue(
            todo,
            store,
            owner,
            retried=before.retried,
            runs_of=runs_of,
            on_claim=lambda trial: report(started=trial),
        )
        report()
        with subscribe(queue.note):
            is_filled = True
            while is_filled:
                for bare in executor.execute(queue):
                    measurement = replace(bare, environment={**bare.environment, **machine})
                    if queue.complete(measurement):
                        outcome.count(measurement)
                        report(measurement=measurement)
                report()
                is_filled = queue.refill(poll_seconds)
        queue.raise_if_failed()
    return outcome


def current_rows(
    trials: Sequence[Trial],
    store: MeasurementStore,
    again: frozenset[Status] = frozenset(),
    since: datetime | None = None,
) -> dict[str, Measurement]:
    """The rows of the trials by id, but for those that are to be measured again: of a status in
    `again`, or begun before `since`.

    A row that cannot be read counts as failed: `DataError` names it where those are not asked for.
    """
    stored = store.read(trial.trial_id for trial in trials)
    if Status.FAILED not in again:
        _refuse(stored.damaged)
    return {
        row.trial.trial_id: row
        for row in stored.measurements
        if row.status not in again and not is_stale(row.started_at, since)
    }


class StoredRuns(Struct, frozen=True):
    """The runs stored before a sweep, and the start of those that are to be replaced; each by trial_id."""

    done: dict[str, int]
    retried: dict[str, str]


def stored_runs(
    trials: Sequence[Trial],
    store: MeasurementStore,
    again: frozenset[Status] = frozenset(),
    runs_of: Callable[[Trial], int] = wanted_runs,
    since: datetime | None = None,
) -> StoredRuns:
    """The stored runs of the trials. Step times are read only of trials with repeats, and to find the
    damaged rows that count as failed where those are measured again; a part at a time, since those of ten
    thousand trials would fill the memory."""
    named = {trial.trial_id: trial for trial in trials}  # an id is a hash, made at every asking
    summaries = store.summaries(named)
    retried = {
        name: summary.started_at
        for name, summary in summaries.items()
        if summary.status in again or is_stale(summary.started_at, since)
    }
    done = {name: runs_of(named[name]) for name in summaries if name not in retried}
    repeated = {name for name, runs in done.items() if runs > 1}
    for part in in_parts(list(done if Status.FAILED in again else repeated)):
        stored = store.read(part)
        if Status.FAILED not in again:
            _refuse(stored.damaged)
        for entry in stored.damaged:
            del done[entry.trial_id]
        for row in stored.measurements:
            if row.status is Status.OK and (name := row.trial.trial_id) in repeated:
                done[name] = runs_made(row)
    return StoredRuns(done, retried)


def _refuse(damaged: Sequence[Damaged]) -> None:
    for entry in damaged:
        raise DataError(entry.reason)
