"""Runs a plan: skips finished trials, stores each new one, and reports progress.

Rules of an executor: every trial handed over comes back as exactly one measurement, in any order; what
happens to one trial never stops the others; `close` leaves no process and no cgroup behind, also in the
middle of a trial."""

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
from advisor.sweeps.trial.limits.usage import PROCESS_TREE
from advisor.sweeps.trial.orphans import clean_up
from advisor.sweeps.trial.trial_process import measure_trial

Measure = Callable[[Trial], Measurement]


class DataAtHand(Struct, frozen=True):
    """A trial as it was planned, and the same (`here`) with its data set on a path of this machine;
    what is known of how the data came joins its row."""

    planned: Trial
    here: Trial
    facts: Mapping[str, Any] = field(default_factory=dict)

    def measured(self, measure: Measure) -> Measurement:
        """The trial's row; a failed one where measuring is refused."""
        try:
            result = measure(self.here)
        except AdvisorError as error:
            result = failure(self.planned, str(error))
        environment = {**result.environment, **self.facts}
        return replace(result, trial=self.planned, environment=environment)


@contextmanager
def data_at_hand(trial: Trial) -> Iterator[DataAtHand]:
    """The trial with its data on this machine for the block; `AdvisorError` if it cannot be."""
    if not is_address(trial.dataset_path):
        yield DataAtHand(trial, trial)
        return
    with cached_data(trial.dataset_path) as cached:
        here = replace(trial, dataset_path=str(cached.path))
        yield DataAtHand(trial, here, {"data_cache": cached.facts})


def failure(trial: Trial, reason: str, status: Status = Status.FAILED) -> Measurement:
    """A trial that did not begin."""
    return Ending(status, reason).measurement(trial, started_at=datetime.now(UTC).isoformat())


class Executor(Protocol):
    """See the rules above."""

    def refuse_impossible(self, trials: Sequence[Trial]) -> None:
        """`MeasuringError` that names the way out, when it can never take some of the trials."""

    def execute(self, trials: Iterable[Trial]) -> Iterator[Measurement]:
        """Measurements as they come. Of a `TrialQueue` each is claimed before it is measured."""

    def close(self) -> None:
        """End what runs, give back what was taken."""


def _measure_here(trial: Trial) -> Measurement:
    from advisor.sweeps.worker.measuring import measure

    job = {"usage_source": {"kind": PROCESS_TREE}, "cpus": allowed_cpus()}
    try:
        return replace(measure(trial, job), limited_by=LimitedBy.NONE)
    except Exception as error:
        ending = ending_of(error, trial.dataset_path)
        return failure(trial, ending.reason, ending.status)


class InlineExecutor:
    """One trial after the other in this very process, without limits: for debugging the worker, never for
    results. Imports torch here, and marks every measurement as not limited, so that it is not fitted."""

    def __init__(self, measure: Measure = _measure_here) -> None:
        self._measure = measure

    def refuse_impossible(self, trials: Sequence[Trial]) -> None:
        """None: they are planned for this machine."""

    def execute(self, trials: Iterable[Trial]) -> Iterator[Measurement]:
        """See `Executor`; a failed row where the data set cannot be brought."""
        for trial in trials:
            try:
                with data_at_hand(trial) as data:
                    row = data.measured(self._measure)
            except AdvisorError as error:
                row = failure(trial, str(error))
            yield row

    def close(self) -> None:
        """Nothing was taken."""


class ProcessExecutor(InlineExecutor):
    """One trial after the other, each in a worker process under limits, on this machine."""

    def __init__(self, measure: Measure = measure_trial) -> None:
        super().__init__(measure)
        clean_up()

    def close(self) -> None:
        """Worker processes end with their trial; only groups of killed sweeps may be left."""
        clean_up()


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


class Outcome(Struct):
    """The counts of a finished sweep; its measurements are in the store alone."""

    measured: int = 0
    usable: int = 0
    failed: int = 0
    first_failure: str = ""

    def count(self, status: Status, reason: str) -> None:
        """One more. Out of memory and contaminated are results; a failure is for the user."""
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
    """Measure the trials that have no row yet, those whose row has a status in `again` or began before
    `since`, and those with fewer runs than planned (`runs_of`); repeats in random order, each into its
    trial's row.

    Each measurement is durable before the next trial's result is taken, so that a kill loses only what was in
    flight. What is known of the `machine` joins every row's environment. Trials that other drivers measure
    are left to them, and waited for at the end: those that they give up are measured here. The executor is
    closed by its owner. `DataError`, when the store takes no more, names the file that holds what was
    measured."""
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
    trials: Sequence[Trial],
    store: MeasurementStore,
    again: frozenset[Status] = frozenset(),
    since: datetime | None = None,
) -> dict[str, Measurement]:
    """The rows of the trials by id, but for those that are to be measured again: of a status in `again`, or
    begun before `since`.

    A row that cannot be read counts as failed: `DataError` names it where those are not asked for."""
    stored = store.read(trial.trial_id for trial in trials)
    if Status.FAILED not in again:
        _refuse(stored.damaged)
    return {
        row.trial.trial_id: row
        for row in stored.measurements
        if row.status not in again and not is_stale(row.started_at, since)
    }


def stored_runs(
    trials: Sequence[Trial],
    store: MeasurementStore,
    again: frozenset[Status] = frozenset(),
    runs_of: Callable[[Trial], int] = wanted_runs,
    since: datetime | None = None,
) -> tuple[dict[str, int], dict[str, str]]:
    """The runs stored before a sweep, and the start of those that are to be replaced; each by trial_id.

    Step times are read only of trials with repeats, and to find the damaged rows that count as failed
    where those are measured again; a part at a time, since those of ten thousand trials would fill the
    memory."""
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
    return done, retried


def _refuse(damaged: Sequence[Damaged]) -> None:
    for entry in damaged:
        raise DataError(entry.reason)
