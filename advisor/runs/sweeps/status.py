"""Monitoring of a sweep: its log, metrics and events, its drivers, and its trials as documents."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from advisor.domain import Measurement, Status, Trial
from advisor.errors import AdvisorError, DataError, one_line
from advisor.files import sweep_log_path
from advisor.runs.sweep_questions import Watching
from advisor.sweeps.events import Event, emit, subscribe
from advisor.sweeps.formats import trial_to_dict
from advisor.sweeps.measurement_store import Damaged, MeasurementStore, Stored
from advisor.sweeps.trial.formatting import planned_facts, trial_name
from advisor.sweeps.trial.ownership import process_tag, tag_in
from advisor.sweeps.watching.logfile import LEVELS, logged, print_warning
from advisor.sweeps.watching.progress import Snapshot, Tally

if TYPE_CHECKING:
    from advisor.sweeps.run.runner import Progress
    from advisor.sweeps.watching.progress import TextFile


LOCAL_HOST = "127.0.0.1"


class Watch:
    """Log and metrics of a running sweep; `address` is the metrics' URL, or empty, and `file` their file."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.address = ""
        self.file: TextFile | None = None
        self._planned_at, self._planned = time.time(), 0

    def planned(self, trials: Sequence[Trial], *, executor: str, database: str) -> None:
        """Log the start of the sweep with its trials, executor and database."""
        emit("sweep_began", trials=len(trials), executor=executor, database=database)
        self._planned_at, self._planned = time.time(), len(trials)

    def following(self, shown: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """The progress callback for `run_sweep`; it calls `shown` last."""

        def follow(progress: Progress) -> None:
            self.tally.follow(progress)
            if trial := progress.started:
                # Log `planned` only for trials that begin: a sweep may have ten thousand.
                facts = {"of": self._planned, **planned_facts(trial)}
                emit("planned", trial_id=trial.trial_id, at=self._planned_at, **facts)
                emit("began", trial_id=trial.trial_id, trial=trial_name(trial))
            self._update()
            shown(progress)

        return follow

    def note(self, event: Event) -> None:
        """Count an event of this process in the metrics."""
        self.tally.note(event)
        if event.event.startswith("heartbeat"):
            self._update()

    def ended(self, error: BaseException | None) -> None:
        """Log the end of the sweep and its error, and write the metrics file a last time."""
        standing = self.tally.standing()
        counts = {status.value: count for status, count in standing.counts.items()}
        facts: dict[str, Any] = {}
        if error is not None:
            text = str(error) if isinstance(error, AdvisorError) else repr(error)
            facts["reason"] = "interrupted" if isinstance(error, KeyboardInterrupt) else text
        seconds = round(standing.elapsed_seconds, 3)
        emit("sweep_ended", counts=counts, left=standing.left, seconds=seconds, **facts)
        self._update()

    def _update(self) -> None:
        if self.file:
            self.file.update()


@contextmanager
def watched(options: Watching, *, usd_per_hour: float | None = None, where: str = "") -> Iterator[Watch]:
    """Write log and metrics of the sweep in the block, with the reason if it fails. No cost is shown without
    a price; `where` is the machine of trials that name none. Raises at once if a file or port is unusable."""
    watch = Watch(Tally(usd_per_hour=usd_per_hour, where=where))
    with ExitStack() as stack:
        level = LEVELS[options.log_level]
        try:
            stack.enter_context(logged(options.log_file or sweep_log_path(), level))
        except DataError as error:  # only a file that the user chose must work
            if options.log_file:
                raise
            print_warning(str(error))
        stack.enter_context(subscribe(watch.note))
        if options.metrics_port is not None:
            from advisor.sweeps.watching.progress import served, sweep_registry

            host, registry = options.metrics_host or LOCAL_HOST, sweep_registry(watch.tally.standing)
            port = stack.enter_context(served(registry, options.metrics_port, host))
            watch.address = f"http://{host}:{port}/metrics"
        if options.metrics_file:
            from advisor.sweeps.watching.progress import TextFile, sweep_registry

            watch.file = TextFile(options.metrics_file, sweep_registry(watch.tally.standing))
        try:
            yield watch
        except BaseException as error:
            watch.ended(error)
            raise
        watch.ended(None)


_PREFIX = "instance-sizing-advisor/into"


@contextmanager
def driving(store_identity: str) -> Iterator[None]:
    """Mark this process, during the block, as one that measures into that store."""
    with socket.socket(socket.AF_UNIX) as mark:
        mark.bind(f"\0{_place_of(store_identity)}/{process_tag()}")
        yield


def drivers_here(store_identity: str) -> set[int]:
    """Ids of the processes on this machine (and in this container) that measure into that store."""
    begin, names = f"@{_place_of(store_identity)}/", list[str]()
    with suppress(OSError):
        names = Path("/proc/net/unix").read_text().split()
    tags = (tag_in(name.removeprefix(begin)) for name in names if name.startswith(begin))
    return {tag.pid for tag in tags if tag and not tag.is_elsewhere and not tag.has_gone}


def not_ended(pids: Iterable[int]) -> dict[int, str]:
    """End processes as Ctrl-C would; returns the reason for each that could not be signalled."""
    refused = {}
    for pid in sorted(pids):
        try:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        except OSError as error:
            refused[pid] = error.strerror or str(error)
    return refused


def _place_of(store_identity: str) -> str:
    return f"{_PREFIX}/{hashlib.sha256(store_identity.encode()).hexdigest()[:16]}"


_ROWS_AT_ONCE = 200
_WAITING = "waiting"


class Shown(Struct, frozen=True):
    """A trial's status, its reason, and its rate."""

    status: Status
    reason: str
    throughput_samples_per_second: float | None


def shown_rows(store: MeasurementStore, trials: Sequence[Trial]) -> tuple[dict[str, Shown], Stored]:
    """The trials' rows by id, read in parts to save memory, and the damaged rows."""
    rows: dict[str, Shown] = {}
    damaged: list[Damaged] = []
    for first in range(0, len(trials), _ROWS_AT_ONCE):
        part = store.read(trial.trial_id for trial in trials[first : first + _ROWS_AT_ONCE])
        damaged += part.damaged
        for row in part.measurements:
            rate = row.throughput_samples_per_second
            rows[row.trial.trial_id] = Shown(row.status, row.reason, rate)
    return rows, Stored((), tuple(damaged))


def trial_documents(trials: Sequence[Trial], rows: Mapping[str, Measurement | Shown]) -> list[dict[str, Any]]:
    """The trials with state (`waiting` without a row) and samples per second, for JSON."""
    documents = []
    for trial in trials:
        row = rows.get(trial.trial_id)
        result = {
            "state": row.status.value if row else _WAITING,
            "reason": row.reason if row else "",
            "throughput_samples_per_second": row.throughput_samples_per_second if row else None,
        }
        documents.append({**trial_document(trial), **result})
    return documents


def trial_document(trial: Trial) -> dict[str, Any]:
    """A trial as JSON."""
    return {"trial_id": trial.trial_id, "trial": trial_to_dict(trial)}


SCHEMA = "advisor.sweep-status/1"


def snapshot_document(snapshot: Snapshot, trouble: str = "") -> dict[str, Any]:
    """The document of `schemas/sweep-status.schema.json`."""
    end, pace = snapshot.expected_end, snapshot.pace
    return {
        "schema": SCHEMA,
        "at": snapshot.at.isoformat(timespec="seconds"),
        "database": snapshot.database,
        "trouble": trouble,
        "trials": snapshot.total,
        "counts": counts_of(snapshot),
        "left": snapshot.left,
        "running": [
            {
                "trial_id": trial.trial_id,
                "trial": trial.label,
                "host": trial.host,
                "pid": trial.pid,
                "seconds": _rounded(trial.seconds_held),
                "lease_seconds_left": _rounded(trial.seconds_left),
            }
            for trial in snapshot.running
        ],
        "submitted": snapshot.submitted,
        "seconds_a_trial": _rounded(pace.seconds_a_trial) if pace else None,
        "pace_of_trials": pace.trials if pace else 0,
        "expected_end": end.isoformat(timespec="seconds") if end else None,
    }


def counts_of(snapshot: Snapshot) -> dict[str, int]:
    """The number of trials by state; those without a row count as waiting."""
    waiting = {_WAITING: snapshot.left} if snapshot.left else {}
    return {**snapshot.counts, **waiting}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


# An event's id is the position after its line, so any process can continue where another one stopped.
_POSITION = re.compile(r"[0-9a-f]{1,12}")
_MOST_BYTES = 2**20  # read in one look
# Names for clients of the log's events (`stored` gets its name by its status). Other events are for debugging
# only.
_CLIENT_NAMES = {
    "sweep_began": "began",
    "began": "trial_started",
    "run_lost": "trial_lost",
    "left_to_another": "trial_left",
    "measured_meanwhile": "trial_left",
    "kept_in_file": "trial_kept_in_file",
}
_INNER = ("level", "pid", "event", "database", "executor", "file")


class SweepEvent(Struct, frozen=True):
    """One event: its id, what happened, and its facts."""

    id: str
    name: str
    facts: Mapping[str, Any]


class EventLog:
    """The events of a log, which need not exist yet, after the event `last_id`. With `says` the log is plain
    text, and each line is an event."""

    def __init__(self, path: Path, last_id: str | None = None, *, says: bool = False) -> None:
        self._path, self._event_of = path, _event_of_text if says else _event_of
        self._offset = int(last_id or "0", 16) if _POSITION.fullmatch(last_id or "0") else 0

    def look(self) -> list[SweepEvent]:
        """Events since the last call, from at most `_MOST_BYTES` of the log."""
        events, part = [], b""
        with suppress(OSError), self._path.open("rb") as log:
            log.seek(self._offset)
            part = log.read(_MOST_BYTES)
        for line in part.splitlines(keepends=True):
            if not line.endswith(b"\n"):  # it is still being written
                break
            self._offset += len(line)
            if event := self._event_of(line, f"{self._offset:x}"):
                events.append(event)
        return events


def _event_of(line: bytes, position: str) -> SweepEvent | None:
    try:
        facts = json.loads(line)
        event = facts["event"]
    except (ValueError, TypeError, KeyError):
        return None  # torn by a power cut
    name = _CLIENT_NAMES.get(event)
    if event == "stored":
        name = "trial_done" if facts.get("status") == "ok" else "trial_failed"
    if name is None:
        return None
    return SweepEvent(position, name, {key: value for key, value in facts.items() if key not in _INNER})


def _event_of_text(line: bytes, position: str) -> SweepEvent | None:
    text = one_line(line.decode(errors="replace"))
    return SweepEvent(position, "said", {"text": text}) if text else None
