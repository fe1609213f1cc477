"""A queue of a sweep's trials, shared by the drivers of a store: a claim takes a lease, storing ends it."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from advisor.domain import Measurement, Status, Trial
from advisor.errors import DataError
from advisor.files import user_folder
from advisor.messages import format_counted
from advisor.sweeps.events import DEBUG, WARNING, Event, emit, this_node
from advisor.sweeps.formats import to_jsonl
from advisor.sweeps.measurement_store import LeaseBook, MeasurementStore
from advisor.sweeps.planning.plan import merged, runs_made, wanted_runs
from advisor.sweeps.trial.formatting import kept_facts, trial_name
from advisor.sweeps.trial.ownership import Owner, this_process

_BEGIN = "unsaved-"


class Spool:
    """A JSONL file for `advisor measurements import`, created with its first line."""

    def __init__(self) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        self._name = f"{_BEGIN}{stamp}-{os.getpid()}.jsonl"
        self.path: Path | None = None

    def keep(self, measurement: Measurement) -> Path:
        """Write a measurement durably; returns the file. Raises `DataError` if no folder can be written."""
        for path in [self.path] if self.path else [folder / self._name for folder in _folders()]:
            with suppress(OSError):
                _append(path, to_jsonl([measurement]))
                self.path = path
                return path
        raise DataError("no place on this machine took what was measured", hint="free some space")

    def explained(self, failure: DataError) -> DataError:
        """The failure, with the hint to import the file if there is one."""
        kept = "what was measured is kept, and no run of it lost: once the database is back, advisor "
        hint = f"{kept}measurements import {self.path}"
        return DataError(f"{failure}", hint=hint) if self.path else failure


def unsaved_files() -> list[Path]:
    """Spool files on this machine that were not yet imported and removed."""
    return sorted({entry for folder in _folders() for entry in folder.glob(f"{_BEGIN}*.jsonl")})


def _folders() -> tuple[Path, ...]:
    return user_folder(), Path.cwd(), Path(tempfile.gettempdir())


def _append(path: Path, line: str) -> None:
    """Append a line durably; after an error, such as a full disk, its written part is cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.stat().st_size if path.exists() else 0
    try:
        with path.open("a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        if whole:
            os.truncate(path, whole)
        else:
            path.unlink(missing_ok=True)
        raise


HEARTBEAT_SECONDS = 20.0
# Events that mark a trial's start: on Ray `placed`, else `attempt_began`, which comes too late from Ray.
_BEGINNINGS = ("placed", "attempt_began")
_LOG = logging.getLogger(__name__)


class TrialQueue:
    """A queue of `trials` that an executor claims, measures and completes.

    Iteration claims one trial at a time; an executor that measures several at once calls `claim` for as many
    as it has room for. `retried` has the start of the runs to replace, by trial_id; `runs_of` the number of
    good runs that a trial should have; `passed_over` counts trials that other drivers measured."""

    def __init__(
        self,
        trials: Sequence[Trial],
        store: MeasurementStore,
        owner: Owner,
        *,
        retried: Mapping[str, str],
        runs_of: Callable[[Trial], int] = wanted_runs,
        on_claim: Callable[[Trial], None] = lambda _trial: None,
    ) -> None:
        self.trials = trials
        self.passed_over = 0
        self._store, self._owner = store, owner
        self._retried, self._runs_of, self._on_claim = retried, runs_of, on_claim
        self._claimed: dict[str, tuple[Trial, Measurement | None]] = {}
        self._begun: set[str] = set()
        self._left: list[Trial] = []
        self._failure: DataError | None = None
        self._spool = Spool()

    def __iter__(self) -> Iterator[Trial]:
        for trial in self.trials:
            yield from self.claim([trial])

    def claim(self, trials: Sequence[Trial]) -> list[Trial]:
        """Lease trials; returns those that this driver should now measure.

        After a failure of the store there are none, while the trials in flight end normally."""
        mine: list[Trial] = []
        if self._failure is None:
            try:
                mine = self._leased(trials)
            except DataError as error:
                self._failure = error
        for trial in mine:
            self._on_claim(trial)
        return mine

    def complete(self, measurement: Measurement) -> bool:
        """Store a run and end its lease; returns False if another driver was faster.

        After a failure of the store, further runs are kept in a file."""
        name = measurement.trial.trial_id
        _, row = self._claimed.pop(name, (None, None))
        self._begun.discard(name)
        if self._failure is None:
            try:
                kept = self._store.join(measurement, self._combined, owner=self._owner)
            except DataError as error:
                self._failure = error
            except KeyboardInterrupt as error:  # while `join` waits for an unreachable database
                path = self._spool.keep(self._combined(row, measurement) or measurement)
                error.args = (f"the last one is kept: advisor measurements import {path}",)
                raise
            else:
                if kept is None:
                    self.passed_over += 1
                    emit("not_stored", trial_id=name, level=WARNING, reason="another one was faster")
                else:
                    emit("stored", trial_id=name, runs=1 + len(kept.repeats), **kept_facts(kept))
                return kept is not None
        path = self._spool.keep(self._combined(row, measurement) or measurement)
        reason = str(self._failure)
        emit("kept_in_file", trial_id=name, level=WARNING, file=str(path), reason=reason)
        return True

    def refill(self, poll_seconds: float) -> bool:
        """Wait until some trials that other drivers had leased are free, and put them into the queue. Returns
        False if there are no such trials, or the store has failed."""
        reported = 0
        while self._left and self._failure is None:
            held = self._store.leases.held()
            self.trials = [trial for trial in self._left if trial.trial_id not in held]
            if self.trials:
                self._left = [trial for trial in self._left if trial.trial_id in held]
                return True
            if reported != len(self._left):
                reported = len(self._left)
                drivers = ", ".join(sorted({entry.driver for entry in held.values()}))
                _LOG.warning("waiting for %s, measured by %s", format_counted(reported, "trial"), drivers)
            time.sleep(poll_seconds)
        return False

    def note(self, event: Event) -> None:
        """Take in an event of `advisor.sweeps.events`: mark the lease of a trial that has begun, with its
        node, for other processes that watch the store."""
        name = event.trial_id
        trial, _ = self._claimed.get(name, (None, None))
        again = name in self._begun and event.event != "placed"  # "placed" may come again, after a lost run
        if trial is None or again or event.event not in _BEGINNINGS:
            return
        self._begun.add(name)
        where = f", on {event.node}" if event.node != this_node() else ""
        self._store.leases.begin(name, self._owner, f"{trial_name(trial)}{where}")

    def raise_if_failed(self) -> None:
        """Raise `DataError` if the store has failed; it names the file with kept runs, if there is one."""
        if self._failure:
            raise self._spool.explained(self._failure) from self._failure

    def _leased(self, trials: Sequence[Trial]) -> list[Trial]:
        claimable: dict[str, Trial] = {}
        for trial in trials:
            if trial.trial_id in self._claimed or trial.trial_id in claimable:
                self._left.append(trial)  # an earlier run of this trial has not ended yet
            else:
                claimable[trial.trial_id] = trial
        labels = {name: trial_name(trial) for name, trial in claimable.items()}
        taken = self._store.leases.take(labels, self._owner)
        # Read under the lease, so that no other driver adds a run after this.
        rows = {row.trial.trial_id: row for row in self._store.read(taken).measurements}
        mine, done = [], []
        for name, trial in claimable.items():
            if name not in taken:
                emit("left_to_another", trial_id=name)
                self._left.append(trial)
            elif self._needs_run(rows.get(name), trial):
                self._claimed[name] = (trial, rows.get(name))
                mine.append(trial)
            else:
                emit("measured_meanwhile", trial_id=name)
                done.append(name)
        self.passed_over += len(done)
        if done:
            self._store.leases.give_back(self._owner, done)
        return mine

    def _needs_run(self, row: Measurement | None, trial: Trial) -> bool:
        if row is None or self._is_retried(row):
            return True
        # Repeats of a failed trial would fail like its first run.
        return row.status is Status.OK and runs_made(row) < self._runs_of(trial)

    def _is_retried(self, row: Measurement) -> bool:
        """True if this is still the row that the sweep was to replace when it began."""
        return self._retried.get(row.trial.trial_id) == row.started_at

    def _combined(self, row: Measurement | None, fresh: Measurement) -> Measurement | None:
        """The trial's row after the run; None if the row already has all its runs.

        A failed run never replaces a good one; it becomes one of the row's attempts."""
        if row is None:
            return fresh
        if self._is_retried(row):
            worse = row.status is Status.OK and fresh.status is not Status.OK
            return merged(row, fresh) if worse else fresh
        if row.status is Status.OK and not self._needs_run(row, fresh.trial):
            return None
        return merged(row, fresh)


@contextmanager
def leasing(leases: LeaseBook, *, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> Iterator[Owner]:
    """A new owner of leases, which a thread renews inside the block, and which end with it.

    A failed renewal is not repeated at once, since a lease lasts for several."""
    owner, over = this_process(), threading.Event()

    def beat() -> None:
        while not over.wait(heartbeat_seconds):
            try:
                leases.renew(owner)
            except Exception as error:  # whatever it is, the thread must go on renewing
                emit("heartbeat_failed", level=WARNING, reason=str(error))
            else:
                emit("heartbeat", level=DEBUG)

    beating = threading.Thread(target=beat, name="lease heartbeat", daemon=True)
    beating.start()
    try:
        yield owner
    finally:
        over.set()
        beating.join()
        with suppress(DataError):
            leases.give_back(owner)
