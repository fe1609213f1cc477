"""The progress of a sweep: of this driver, from its runner and its events, and of all drivers, from the
shared store."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from prometheus_client.core import CounterMetricFamily as _Counter
from prometheus_client.core import GaugeMetricFamily as _Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from advisor.domain import Measurement, Status, Trial
from advisor.errors import DataError, MeasuringError
from advisor.files import system_errors
from advisor.quantities import moment_of
from advisor.sweeps.events import WARNING, Event, emit, this_node
from advisor.sweeps.measurement_store import Held, Summary
from advisor.sweeps.planning.plan import usual_seconds
from advisor.sweeps.trial.formatting import trial_name
from advisor.sweeps.trial.trial_process import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from advisor.sweeps.run.runner import Progress


@contextmanager
def served(registry: CollectorRegistry, port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """Serve `http://HOST:PORT/metrics` inside the block; yields the port, a free one for port 0.

    Raises `MeasuringError` if the port is taken."""
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MeasuringError(
            f"cannot serve metrics at {host}:{port} ({reason})",
            hint="name another port: --metrics-port, where 0 takes a free one",
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class TextFile:
    """A file with the metrics, replaced atomically; a failed write is logged once, and the sweep goes on."""

    def __init__(self, path: Path, registry: CollectorRegistry) -> None:
        # A link stays a link; a device (/dev/null) must not be replaced by a file.
        self._path, self._registry, self._reported = path.resolve(), registry, False
        if self._path.exists() and not self._path.is_file():
            raise DataError(f"'{path}' is no file", hint="name another place: --metrics-file")
        with system_errors(DataError, f"cannot write '{path}'", hint="name another place: --metrics-file"):
            self._write()

    def update(self) -> None:
        """Write the present metrics."""
        try:
            self._write()
        except OSError as error:
            if not self._reported:
                self._reported = True
                emit("metrics_file_failed", level=WARNING, reason=str(error))

    def _write(self) -> None:
        # Safe from both threads, the runner's and the heartbeat's: each writes a separate temporary file.
        write_to_textfile(str(self._path), self._registry)


_PREFIX = "advisor_sweep_"
_Family = _Counter | _Gauge


def sweep_registry(progress: Callable[[], SweepProgress]) -> CollectorRegistry:
    """A registry of this sweep's metrics only, which reads the sweep's progress at every scrape."""
    registry = CollectorRegistry()
    registry.register(_SweepCollector(progress))
    return registry


class _SweepCollector(Collector):
    def __init__(self, progress: Callable[[], SweepProgress]) -> None:
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        """The metrics now; every label exists from the beginning, so that rates can be computed."""
        now = self._progress()
        ended = {status.value: now.counts.get(status, 0) for status in Status}
        renewals = {outcome: now.heartbeats.get(outcome, 0) for outcome in ("ok", "failed")}
        yield _counts("trials", "Trials that have ended, by how they ended.", "status", ended)
        yield _counts("heartbeats", "Renewals of this driver's leases.", "outcome", renewals)
        storing = "Seconds from a trial's beginning to its storing."
        heartbeat = "When the leases were last renewed, in seconds since 1970."
        figures: tuple[tuple[type[_Family], str, str, float | None], ...] = (
            (_Counter, "attempts", "Attempts, with those that neighbours spoiled.", now.attempts),
            (_Counter, "trial_seconds", storing, now.trial_seconds),
            (_Gauge, "elapsed_seconds", "Seconds since the sweep began.", now.elapsed_seconds),
            (_Gauge, "remaining_seconds", "Seconds until all trials have ended, expected.", now.rest_seconds),
            (_Gauge, "trials_left", "Trials that have not ended yet.", now.left),
            (_Gauge, "trials_running", "Trials that are being measured by this driver.", len(now.running)),
            (_Gauge, "trials_skipped", "Trials that were measured before the sweep began.", now.skipped),
            (_Gauge, "last_heartbeat_timestamp_seconds", heartbeat, now.last_heartbeat_at),
            (_Counter, "cost_usd", "Cost of the host so far, by the price given.", now.usd),
        )
        for family, name, text, value in figures:
            if value is not None:
                yield family(_PREFIX + name, text, value=value)


def _counts(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = _Counter(_PREFIX + name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


HERE = "here"
_ENDED_ELSEWHERE = ("not_stored", "kept_in_file")


class Running(Struct, kw_only=True):
    """A trial that is being measured, and its node (`HERE`: this machine, "": none yet). `since` is the time
    of its start by the tally's clock."""

    trial_id: str
    name: str
    where: str = ""
    seconds: float = 0.0
    attempt: int = 1
    since: float = 0.0


class SweepProgress(Struct, frozen=True, kw_only=True):
    """A sweep's progress. `rest_seconds` is an estimate, explained in `basis`; dollars are None without a
    price."""

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
        """The number of runs that this driver has ended, with any status."""
        return sum(self.counts.values())


class Tally:
    """Counts a sweep's progress; the runner's threads write it, a display's thread reads it."""

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
        self._running: dict[str, Running] = {}
        self._counts: Counter[Status] = Counter()
        self._heartbeats: Counter[str] = Counter()
        self._heartbeat_at: float | None = None
        self._total = self._skipped = self._done = self._before = 0
        self._attempts, self._trial_seconds = 0, 0.0
        self._usual = usual_seconds()

    def follow(self, progress: Progress) -> None:
        """Take in progress of `run_sweep`; consecutive sweeps (batches) add up."""
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
        """Take in an event of `advisor.sweeps.events`."""
        with self._lock:
            begun = self._running.get(event.trial_id)
            if event.event in ("placed", "attempt_began") and begun:
                if not begun.where:  # until now it waited for that node
                    begun.since = self._clock()
                begun.where = HERE if event.node == this_node() else event.node
                begun.attempt = int(event.facts.get("attempt", begun.attempt))
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
            rest, basis = self._time_left(left, now)
            elapsed, price = now - self._begun, self._usd_per_hour
            return SweepProgress(
                total=self._total,
                skipped=self._skipped,
                left=left,
                counts=dict(self._counts),
                # The others wait for a node of a cluster.
                running=tuple(
                    replace(entry, seconds=now - entry.since)
                    for entry in self._running.values()
                    if entry.where
                ),
                elapsed_seconds=elapsed,
                rest_seconds=rest,
                basis=basis,
                attempts=self._attempts,
                trial_seconds=self._trial_seconds,
                usd=price and price * elapsed / 3600,
                expected_usd=price and price * (elapsed + rest) / 3600,
                heartbeats=dict(self._heartbeats),
                last_heartbeat_at=self._heartbeat_at,
            )

    def _begin(self, trial: Trial) -> None:
        name, now = trial_name(trial), self._clock()
        begun = Running(trial_id=trial.trial_id, name=name, where=self._where, since=now)
        if not (self._running or self._before + self._done):
            # The pace does not include making data and starting Ray.
            self._first_start = self._last_end = begun.since
        self._running[trial.trial_id] = begun
        self._usual = usual_seconds(trial)

    def _end(self, measurement: Measurement) -> None:
        self._last_end = self._clock()
        begun = self._running.pop(measurement.trial.trial_id, None)
        self._counts[measurement.status] += 1
        self._attempts += 1 + len(measurement.attempts)
        self._trial_seconds += self._last_end - begun.since if begun else 0.0

    def _time_left(self, left: int, now: float) -> tuple[float, str]:
        """Seconds until all trials have ended, and the text that explains the estimate."""
        done = self._before + self._done
        took = self._last_end - self._first_start
        if not (done and took > 0):
            rest, basis = left * self._usual, f"the usual {self._usual:g} s a trial"
        else:
            rest, basis = left * took / done, f"{took / done:.3g} s a trial so far"
        return max(0.0, rest - (now - self._last_end)) if left else 0.0, basis


_LATEST = 20
_FEWEST = 3


class Readable(Protocol):
    """The part of a store that other processes read."""

    @property
    def name(self) -> str:
        """The store's name in messages."""

    def summaries(self, trial_ids: Iterable[str] | None = None) -> dict[str, Summary]:
        """Summaries of these trials (by default all) that have a row, by trial_id."""

    def running(self) -> dict[str, Held]:
        """The leases in force."""


class Pace(Struct, frozen=True, kw_only=True):
    """The rate at which trials began lately: `trials` of them in `seconds`."""

    trials: int
    seconds: float

    @property
    def seconds_a_trial(self) -> float:
        """Mean seconds between the starts of two trials, over all drivers."""
        return self.seconds / (self.trials - 1)


class Snapshot(Struct, frozen=True, kw_only=True):
    """The state of a store at one moment. `total` and `left` count the given trials, or else all that are
    stored, running, or `submitted` and not begun. `pace` is None if too few trials have begun."""

    at: datetime
    database: str
    total: int
    counts: Mapping[str, int]
    running: tuple[Held, ...]
    submitted: int = 0
    pace: Pace | None

    @property
    def left(self) -> int:
        """The number of trials without a row, including running and submitted ones."""
        return self.total - sum(self.counts.values())

    @property
    def is_over(self) -> bool:
        """True if no trial is left, running or submitted."""
        return not self.left and self.is_idle

    @property
    def is_idle(self) -> bool:
        """True if no trial is running or submitted."""
        return not (self.running or self.submitted)

    @property
    def expected_end(self) -> datetime | None:
        """The expected end at the present pace; None without a pace, or if no trial runs."""
        if self.pace is None or not self.running or not self.left:
            return None
        try:
            return self.at + timedelta(seconds=self.left * self.pace.seconds_a_trial)
        except OverflowError:
            return None


def look_at(
    store: Readable, trial_ids: Collection[str] | None = None, damaged: Collection[str] = frozenset()
) -> Snapshot:
    """The state of these trials (None: all); `damaged` rows do not count."""
    held = store.running()  # read first: a trial that is stored meanwhile still counts as done
    result = store.summaries(trial_ids)
    rows = {name: row for name, row in result.items() if name not in damaged}
    # A trial that has a row and a lease (a repeat, a retry) is counted by its row.
    mine = held if trial_ids is None else {entry: held[entry] for entry in set(trial_ids) & held.keys()}
    running = [entry for entry in mine.values() if entry.seconds_held is not None]
    names = set(rows) | set(mine if trial_ids is None else trial_ids)
    return Snapshot(
        at=datetime.now(UTC),
        database=store.name,
        total=len(names),
        counts=dict(Counter(row.status for row in rows.values()).most_common()),
        running=tuple(sorted(running, key=lambda entry: (-(entry.seconds_held or 0), entry.host))),
        submitted=len(mine) - len(running),
        pace=pace_of([row.started_at for row in rows.values()]),
    )


def pace_of(started_at: Iterable[str]) -> Pace | None:
    """The pace of trials since the last gap that is longer than any trial."""
    moments = sorted(filter(None, map(moment_of, started_at)))[-_LATEST:]
    breaks = [n for n, (a, b) in enumerate(pairwise(moments), 1) if (b - a).total_seconds() > TIMEOUT_SECONDS]
    since = moments[breaks[-1] if breaks else 0 :]
    if len(since) < _FEWEST:
        return None
    seconds = (since[-1] - since[0]).total_seconds()
    return Pace(trials=len(since), seconds=seconds) if seconds > 0 else None
