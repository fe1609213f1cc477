"""The progress of a sweep, from its runner and its events: counts, time, cost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from advisor.domain import Measurement, Status, Trial
from advisor.sweeps.events import Event, this_node
from advisor.sweeps.planning.plan import usual_seconds
from advisor.sweeps.trial.formatting import trial_name

if TYPE_CHECKING:
    from advisor.sweeps.driver.runner import Progress

HERE = "here"
_ENDED_ELSEWHERE = ("not_stored", "kept_in_file")


class Running(Struct, frozen=True, kw_only=True):
    """A trial that is being measured, and on which node (`HERE` is this machine)."""

    trial_id: str
    name: str
    where: str
    seconds: float
    attempt: int


class SweepProgress(Struct, frozen=True, kw_only=True):
    """The progress of a sweep. `rest_seconds` is expected, by `basis`; dollars are None without a price."""

    total: int
    skipped: int
    left: int
    counts: Mapping[Status, int]
    running: tuple[Running, ...]
    elapsed_seconds: float
    rest_seconds: float
    basis: str
    attempts: int
    trial_seconds: float
    usd: float | None = None
    expected_usd: float | None = None
    heartbeats: Mapping[str, int]
    last_heartbeat_at: float | None = None

    @property
    def done(self) -> int:
        """Runs that have ended here, however they ended."""
        return sum(self.counts.values())


class _Begun(Struct):
    name: str
    since: float
    where: str = ""
    attempt: int = 1


class Tally:
    """Keeps count: written by the runner's threads, read by a display's."""

    def __init__(
        self,
        *,
        usd_per_hour: float | None = None,
        where: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._usd_per_hour = usd_per_hour
        self._where = where
        self._clock = clock
        self._lock = threading.Lock()
        self._begun = self._first_start = self._last_end = clock()
        self._running: dict[str, _Begun] = {}
        self._counts: Counter[Status] = Counter()
        self._heartbeats: Counter[str] = Counter()
        self._heartbeat_at: float | None = None
        self._total = self._skipped = self._done = self._before = 0
        self._attempts, self._trial_seconds = 0, 0.0
        self._usual = usual_seconds()

    def follow(self, progress: Progress) -> None:
        """Progress of `run_sweep`; several sweeps after one another (batches) add up."""
        with self._lock:
            if progress.done < self._done:
                self._before += self._done
            self._done, self._skipped = progress.done, progress.skipped
            self._total = self._before + progress.total
            if progress.started:
                self._begin(progress.started)
            if progress.measurement:
                self._end(progress.measurement)

    def note(self, event: Event) -> None:
        """An event of `advisor.sweeps.events`."""
        with self._lock:
            begun = self._running.get(event.trial_id)
            if event.event == "placed" and begun:
                self._place(begun, event.node)
            elif event.event == "attempt_began" and begun:
                self._place(begun, event.node)
                begun.attempt = int(event.facts["attempt"])
            elif event.event == "run_lost" and begun:
                begun.where = self._where
            elif event.event in _ENDED_ELSEWHERE:
                self._running.pop(event.trial_id, None)
            elif event.event == "heartbeat":
                self._heartbeats["ok"] += 1
                self._heartbeat_at = event.at
            elif event.event == "heartbeat_failed":
                self._heartbeats["failed"] += 1

    def standing(self) -> SweepProgress:
        """The progress now."""
        with self._lock:
            now = self._clock()
            left = max(0, self._total - self._before - self._done)
            rest, basis = self._expected(left, now)
            elapsed = now - self._begun
            return SweepProgress(
                total=self._total,
                skipped=self._skipped,
                left=left,
                counts=dict(self._counts),
                running=tuple(
                    Running(
                        trial_id=trial_id,
                        name=entry.name,
                        where=entry.where,
                        seconds=now - entry.since,
                        attempt=entry.attempt,
                    )
                    for trial_id, entry in self._running.items()
                    if entry.where  # the others wait for a node of a cluster
                ),
                elapsed_seconds=elapsed,
                rest_seconds=rest,
                basis=basis,
                attempts=self._attempts,
                trial_seconds=self._trial_seconds,
                usd=self._dollars(elapsed),
                expected_usd=self._dollars(elapsed + rest),
                heartbeats=dict(self._heartbeats),
                last_heartbeat_at=self._heartbeat_at,
            )

    def _begin(self, trial: Trial) -> None:
        begun = _Begun(trial_name(trial), self._clock(), self._where)
        if not (self._running or self._before + self._done):
            # Making data and starting Ray are no part of the pace.
            self._first_start = self._last_end = begun.since
        self._running[trial.trial_id] = begun
        self._usual = usual_seconds(trial)

    def _place(self, begun: _Begun, node: str) -> None:
        if not begun.where:
            begun.since = self._clock()  # until now it waited for that node
        begun.where = HERE if node == this_node() else node

    def _end(self, measurement: Measurement) -> None:
        self._last_end = self._clock()
        begun = self._running.pop(measurement.trial.trial_id, None)
        self._counts[measurement.status] += 1
        self._attempts += 1 + len(measurement.attempts)
        self._trial_seconds += self._last_end - begun.since if begun else 0.0

    def _expected(self, left: int, now: float) -> tuple[float, str]:
        """Seconds until all is done, and by what: the pace of the trials that have ended."""
        done = self._before + self._done
        took = self._last_end - self._first_start
        if not (done and took > 0):
            rest, basis = left * self._usual, f"the usual {self._usual:g} s a trial"
        else:
            rest, basis = left * took / done, f"{took / done:.3g} s a trial so far"
        return max(0.0, rest - (now - self._last_end)) if left else 0.0, basis

    def _dollars(self, seconds: float) -> float | None:
        return None if self._usd_per_hour is None else self._usd_per_hour * seconds / 3600
