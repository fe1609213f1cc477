"""Runs a plan: skips finished trials, stores each new measurement, and reports progress.

Rules of an executor: it returns exactly one measurement for each trial, in any order; a failing trial never
stops the others; `close` leaves no process and no cgroup behind, even in the middle of a trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import LimitedBy, Measurement, Status, Trial
from advisor.errors import AdvisorError, DataError
from advisor.sweeps.datasets.node_cache import cached_data
from advisor.sweeps.datasets.remote import is_address
from advisor.sweeps.events import subscribe
from advisor.sweeps.machine.environment import allowed_cpus
from advisor.sweeps.measurement_store import Damaged, MeasurementStore, in_parts
from advisor.sweeps.planning.plan import rounds, runs_made, wanted_runs
from advisor.sweeps.quality.issues import is_stale
from advisor.sweeps.run.queue import TrialQueue, leasing
from advisor.sweeps.trial.child import Ending, ending_of
from advisor.sweeps.trial.limits import PROCESS_TREE
from advisor.sweeps.trial.ownership import clean_up
from advisor.sweeps.trial.trial_process import measure_trial

Measure = Callable[[Trial], Measurement]


class LocalTrial(Struct, frozen=True):
    """A trial as `planned`, and with its data set on a path of this machine (`here`). `facts` about the
    download join the trial's row."""

    planned: Trial
    here: Trial
    facts: Mapping[str, Any] = field(default_factory=dict)

    def measured(self, measure: Measure) -> Measurement:
        """The trial's row; a failed one if `measure` raises `AdvisorError`."""
        try:
            result = measure(self.here)
        except AdvisorError as error:
            result = failure(self.planned, str(error))
        environment = {**result.environment, **self.facts}
        return replace(result, trial=self.planned, environment=environment)


@contextmanager
def trial_with_data(trial: Trial) -> Iterator[LocalTrial]:
    """The trial with its data on this machine, inside the block. Raises `AdvisorError` if that fails."""
    if not is_address(trial.dataset_path):
        yield LocalTrial(trial, trial)
        return
    with cached_data(trial.dataset_path) as cached:
        here = replace(trial, dataset_path=str(cached.path))
        yield LocalTrial(trial, here, {"data_cache": cached.facts})


def failure(trial: Trial, reason: str, status: Status = Status.FAILED) -> Measurement:
    """The row of a trial that could not begin."""
    return Ending(status, reason).measurement(trial, started_at=datetime.now(UTC).isoformat())


class Executor(Protocol):
    """Runs trials by the rules at the top of this module."""

    def refuse_impossible(self, trials: Sequence[Trial]) -> None:
        """Raise `MeasuringError` with a hint if some of the trials can never run."""

    def execute(self, trials: Iterable[Trial]) -> Iterator[Measurement]:
        """Yield measurements as they end. Trials of a `TrialQueue` are claimed before they are measured."""

    def close(self) -> None:
        """End running trials and release all resources."""


def _measure_here(trial: Trial) -> Measurement:
    from advisor.sweeps.worker.measuring import measure

    job = {"usage_source": {"kind": PROCESS_TREE}, "cpus": allowed_cpus()}
    try:
        return replace(measure(trial, job), limited_by=LimitedBy.NONE)
    except Exception as error:
        ending = ending_of(error, trial.dataset_path)
        return failure(trial, ending.reason, ending.status)


class InlineExecutor:
    """Runs one trial after the other in this process, without limits: for debugging the worker, not for
    results. It imports torch here, and marks every measurement as not limited, so that none is fitted."""

    def __init__(self, measure: Measure = _measure_here) -> None:
        self._measure = measure

    def refuse_impossible(self, trials: Sequence[Trial]) -> None:
        """Do nothing: trials are planned for this machine."""

    def execute(self, trials: Iterable[Trial]) -> Iterator[Measurement]:
        """Yield a measurement for each trial, a failed one if its data set cannot be read."""
        for trial in trials:
            try:
                with trial_with_data(trial) as data:
                    row = data.measured(self._measure)
            except AdvisorError as error:
                row = failure(trial, str(error))
            yield row

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class ProcessExecutor(InlineExecutor):
    """Runs one trial after the other on this machine, each in a worker process under limits."""

    def __init__(self, measure: Measure = measure_trial) -> None:
        super().__init__(measure)
        clean_up()

    def close(self) -> None:
        """Remove what killed sweeps left; worker processes have ended with their trials."""
        clean_up()


RETRIED = frozenset({Status.CONTAMINATED, Status.FAILED, Status.TIMED_OUT})
POLL_SECONDS = 2.0


class Progress(Struct, frozen=True, kw_only=True):
    """The progress of a sweep, reported when the sweep begins, when a trial starts (`started`) or ends
    (`measurement`), and when other drivers may have measured trials."""

    done: int
    total: int
    skipped: int
    started: Trial | None = None
    measurement: Measurement | None = None


class Outcome(Struct):
    """The counts of a finished sweep; its measurements are only in the store."""

    measured: int = 0
    usable: int = 0
    failed: int = 0
    first_failure: str = ""

    def count(self, status: Status, reason: str) -> None:
        """Count a run. Out of memory and contaminated are results, not failures."""
        self.measured += 1
        self.usable += status is Status.OK
        if status in (Status.FAILED, Status.TIMED_OUT):
            self.failed += 1
            self.first_failure = self.first_failure or reason


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
    """Measure the trials that have no row, those whose row has a status in `again` or began before `since`,
    and those with fewer runs than planned (`runs_of`). Repeats run in random order and join their trial's
    row.

    Each measurement is stored durably before the next one is taken, so that a kill loses only trials in
    flight. Facts of the `machine` join every row's environment. Trials that other drivers measure are waited
    for at the end; those that they give up are measured here. The caller closes the executor. If the store
    fails, `DataError` names the file with the measurements that could not be stored."""
    done, retried = stored_runs(trials, store, again, runs_of, since)
    todo = [trial for each in rounds(trials, done, runs_of) for trial in each]
    skipped = len(trials) - len({trial.trial_id for trial in todo})
    outcome = Outcome()

    def report(started: Trial | None = None, **news: Measurement) -> None:
        over = outcome.measured + queue.passed_over
        on_progress(Progress(done=over, total=len(todo), skipped=skipped, started=started, **news))

    with leasing(store.leases) as owner:
        queue = TrialQueue(todo, store, owner, retried=retried, runs_of=runs_of, on_claim=report)
        report()
        with subscribe(queue.note):
            while True:
                for bare in executor.execute(queue):
                    measurement = replace(bare, environment={**bare.environment, **machine})
                    if queue.complete(measurement):
                        outcome.count(measurement.status, measurement.reason)
                        report(measurement=measurement)
                report()
                if not queue.refill(poll_seconds):
                    break
        queue.raise_if_failed()
    return outcome


def current_rows(
    trials: Sequence[Trial], store: MeasurementStore, since: datetime | None = None
) -> dict[str, Measurement]:
    """The rows of the trials by id, without those that began before `since`. Raises `DataError` for a damaged
    row."""
    stored = store.read(trial.trial_id for trial in trials)
    _raise_damaged(stored.damaged)
    return {row.trial.trial_id: row for row in stored.measurements if not is_stale(row.started_at, since)}


def stored_runs(
    trials: Sequence[Trial],
    store: MeasurementStore,
    again: frozenset[Status],
    runs_of: Callable[[Trial], int] = wanted_runs,
    since: datetime | None = None,
) -> tuple[dict[str, int], dict[str, str]]:
    """The number of runs stored before a sweep, and the start of the runs to replace; each by trial_id.

    Whole rows are read only of trials with repeats, and, if failed trials are measured again, to find damaged
    rows. They are read in parts, since the step times of ten thousand trials would fill the memory."""
    named = {trial.trial_id: trial for trial in trials}  # computed once: each access hashes the trial
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
            _raise_damaged(stored.damaged)
        for entry in stored.damaged:
            del done[entry.trial_id]
        for row in stored.measurements:
            if row.status is Status.OK and (name := row.trial.trial_id) in repeated:
                done[name] = runs_made(row)
    return done, retried


def _raise_damaged(damaged: Sequence[Damaged]) -> None:
    if damaged:
        raise DataError(damaged[0].reason)
