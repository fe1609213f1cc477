"""One trial's story, from the log of sweeps; where no log has it, from its stored row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from advisor.domain import Measurement
from advisor.sweeps.trial.formatting import ending_facts, planned_facts
from advisor.sweeps.watching.logfile import OLDER_FILES

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


def log_lines(path: Path) -> Iterator[Line]:
    """The lines of a log and of the files before it, the oldest first; what is no line of ours
    (torn by a power cut) is left out."""
    for number in range(OLDER_FILES, -1, -1):
        file = path.with_name(f"{path.name}.{number}") if number else path
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                yield from filter(None, map(_parsed, lines))
        except FileNotFoundError:
            continue


def story_of(lines: Iterable[Line], trial_id: str) -> list[Line]:
    """The lines of the trial with this id, or of the one whose id begins like this, in the
    order in which it happened."""
    mine = [line for line in lines if str(line.get("trial_id", "")).startswith(trial_id)]
    return sorted(mine, key=lambda line: str(line["time"]))


def row_story(row: Measurement) -> list[Line]:
    """The story as the stored row has it: without moments but those that a row keeps."""
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
    """A line an event: when, how long after the first, what, and its facts; `of_many` trials:
    whose event it is, too."""
    lines, first = [], None
    for line in story:
        moment = _moment(str(line.get("time", "")))
        first = first or moment
        since = f"+{(moment - first).total_seconds():.1f} s" if moment and first else ""
        when = moment.strftime("%Y-%m-%d %H:%M:%S") if moment else ""
        event = str(line["event"])
        phrase = _PHRASES.get(event, event.replace("_", " "))
        existing = {name: value for name, value in line.items() if value is not None}
        facts = ", ".join(_fact(name, entry) for name, entry in existing.items() if name not in _HEAD)
        whose = f"{str(line.get('trial_id', ''))[:8]:8}  " if of_many else ""
        lines.append(f"{when:19}  {since:>10}  {whose}{phrase}{': ' if facts else ''}{facts}".rstrip())
    return lines


def _fact(name: str, value: Any) -> str:
    if isinstance(value, list):
        value = " ".join(map(str, value))
    elif isinstance(value, dict):
        value = " ".join(f"{key} {_short(entry)}" for key, entry in value.items())
    return f"{name.replace('_', ' ')} {_short(value)}"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _parsed(text: str) -> Line | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and {"time", "event"} <= line.keys() else None


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
