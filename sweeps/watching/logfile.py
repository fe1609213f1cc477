"""Writes the log of sweeps, JSON lines in a file that drivers share; reads a trial's story.

The standard library's logging has the levels, handlers and rotation that this needs, and carries other
libraries' warnings. structlog would be one more dependency of a worker that runs on bare GPU machines."""

from __future__ import annotations

import json
import logging
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

from advisor.domain import Measurement
from advisor.errors import DataError
from advisor.files import system_errors
from advisor.quantities import moment_of
from advisor.sweeps.events import event_of, handled
from advisor.sweeps.trial.formatting import ending_facts, planned_facts

Line = Mapping[str, Any]
_HEAD = ("time", "level", "event", "trial_id", "node", "pid")
_PHRASES = {
    "placed": "placed on a node",
    "run_lost": "lost with what ran it",
    "left_to_another": "left to another driver",
    "measured_meanwhile": "measured by another driver meanwhile",
    "began": "begun",
    "attempt_began": "attempt begun",
    "waits_for_placement": "waits for cores, a GPU or a disk that other trials have",
    "worker_started": "worker process started",
    "data_fetched": "data set brought to this machine",
    "loaded": "network and data set loaded",
    "cache_prepared": "page cache prepared",
    "limits_on": "limits switched on",
    "steady": "measured, in steady state",
    "not_steady": "measured, never steady",
    "attempt_ended": "attempt ended",
    "kept_in_file": "kept in a file, for want of the database",
    "message": "message",
}


def log_files(path: Path) -> tuple[Path, Path]:
    """The file of a log that was set aside, and the log; either may be missing."""
    return path.with_name(f"{path.name}.1"), path


def log_lines(path: Path) -> Iterator[Line]:
    """The lines of a log, oldest first, without incomplete ones."""
    for file in log_files(path):
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                for text in lines:
                    with suppress(ValueError):
                        line = json.loads(text)
                        if isinstance(line, dict) and {"time", "event"} <= line.keys():
                            yield line
        except FileNotFoundError:
            continue


def story_of(lines: Iterable[Line], trial_id: str) -> list[Line]:
    """The log lines of the trials whose id begins with `trial_id`, in order."""
    mine = [line for line in lines if str(line.get("trial_id", "")).startswith(trial_id)]
    return sorted(mine, key=lambda line: str(line["time"]))


def row_story(row: Measurement) -> list[Line]:
    """The story in a stored row, with only the times that a row keeps."""
    trial_id = row.trial.trial_id
    runs = [
        {
            "time": attempt.get("started_at", ""),
            "event": "attempt_ended",
            "status": attempt.get("status"),
            "other_cores": attempt.get("environment", {}).get("other_cores"),
        }
        for attempt in row.attempts
    ]
    measured = {
        "time": row.started_at,
        "event": "steady" if row.environment.get("steady") else "not_steady",
        "warmup_steps": len(row.warmup_step_seconds),
        "steps": len(row.step_seconds),
        "seconds": row.wall_seconds,
    }
    wanted = {"time": "", "event": "planned", **planned_facts(row.trial)}
    ended = {"time": row.started_at, "event": "attempt_ended", **ending_facts(row)}
    stored = {"time": "", "event": "stored", "runs": 1 + len(row.repeats)}
    middle = [measured, ended] if row.step_seconds else [ended]
    return [
        {**{name: value for name, value in entry.items() if value is not None}, "trial_id": trial_id}
        for entry in (wanted, *runs, *middle, stored)
    ]


def story_text(story: Iterable[Line], *, of_many: bool = False) -> list[str]:
    """One line for each event: time, seconds since the first, phrase and facts; `of_many` adds the trial."""
    lines, first = [], None
    for line in story:
        moment = moment_of(str(line.get("time", "")))
        first = first or moment
        since = f"+{(moment - first).total_seconds():.1f} s" if moment and first else ""
        when = moment.strftime("%Y-%m-%d %H:%M:%S") if moment else ""
        event = str(line["event"])
        phrase = _PHRASES.get(event, event.replace("_", " "))
        existing = {n: value for n, value in line.items() if value is not None and n not in _HEAD}
        facts = ", ".join(f"{n.replace('_', ' ')} {_short(value)}" for n, value in existing.items())
        whose = f"{str(line.get('trial_id', ''))[:8]:8}  " if of_many else ""
        lines.append(f"{when:19}  {since:>10}  {whose}{phrase}{': ' if facts else ''}{facts}".rstrip())
    return lines


def _short(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, dict):
        return " ".join(f"{key} {_short(entry)}" for key, entry in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
MOST_BYTES = 10 * 2**20


class JsonLines(logging.Formatter):
    """Formats a log record as one JSON line: time (UTC), level, event, trial_id, node, pid, and the facts."""

    def format(self, record: logging.LogRecord) -> str:
        """'{"time": "2026-11-21T13:40:01.123Z", "level": "info", "event": "stored", ...}'."""
        event = event_of(record)
        moment = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": moment.replace("+00:00", "Z"),
            "level": logging.getLevelName(event.level).lower(),
            "event": event.event,
            "trial_id": event.trial_id or None,
            "node": event.node,
            "pid": event.pid,
        }
        facts = {name: value for name, value in event.facts.items() if name not in line}
        existing = {name: value for name, value in line.items() if value is not None}
        return json.dumps(_plain(existing | facts))


def _plain(value: Any) -> Any:
    """The value as JSON without secrets; NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, int) else without_secrets(str(value))


class SharedFile(WatchedFileHandler):
    """A log that several drivers append to, and that one of them may set aside meanwhile. A log that cannot
    be written is reported once; the sweep goes on."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")
        self._reported = False
        self.setFormatter(JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        """Append the record's line."""
        try:
            super().emit(record)
        except OSError:  # the folder is gone
            self.handleError(record)

    def handleError(self, _record: logging.LogRecord) -> None:
        """Print the first error as a warning; a record that cannot be written is dropped."""
        if not self._reported:
            self._reported = True
            trouble = sys.exc_info()[1]
            print_warning(f"the log {self.baseFilename} cannot be written ({trouble})")


def print_warning(text: str) -> None:
    """Print a warning to stderr, as logging does by default."""
    if logging.lastResort:
        logging.lastResort.handle(
            logging.makeLogRecord({"msg": text, "levelno": logging.WARNING, "levelname": "WARNING"})
        )


@contextmanager
def logged(path: Path, level: int = logging.INFO) -> Iterator[None]:
    """Log events and warnings to a file too, inside the block. A file of `MOST_BYTES` is set aside before,
    in place of an older one. Raises `DataError` if it cannot be opened."""
    with system_errors(DataError, f"cannot write the log '{path}'", hint="name another place: --log-file"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and path.stat().st_size >= MOST_BYTES:
            path.replace(log_files(path)[0])
        handler = SharedFile(path)
    handler.setLevel(level)
    warnings = logging.getLogger("advisor.sweeps")
    usual = handled(logging.lastResort, warnings) if logging.lastResort else nullcontext()
    with closing(handler), handled(handler), handled(handler, warnings), usual:
        yield


_HIDDEN = "***"
# scheme://user:PASSWORD@host; a password may have any character but a blank, so the last @ ends it.
_IN_URLS = re.compile(r"(?P<before>[a-zA-Z][\w+.-]*://[^\s:/@]*:)[^\s]*@")
# password=PASSWORD, PGPASSWORD='..', ?password=..&..; words of messages ("password failed") stay.
_NAMED = re.compile(
    r"(?i)(?P<before>(?:password|passwd|passfile|secret|access_key|api_?key)\s*[=:]\s*)"
    r"(?:'[^']*'|\"[^\"]*\"|[^\s&,;]+)"
)


def without_secrets(text: str) -> str:
    """The text with '***' for every password in a URL or setting."""
    return _NAMED.sub(rf"\g<before>{_HIDDEN}", _IN_URLS.sub(rf"\g<before>{_HIDDEN}@", text))
