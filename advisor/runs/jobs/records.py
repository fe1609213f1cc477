"""What lies on disk of a sweep that was started: its folder is all there is to know of it.

`asked.json` is written before its process is started, `process.json` by that process as its first
deed, `stop.json` by whoever wants it to end, and `ended.json` by the process as its last. Each is
written whole or not at all, so that a kill between any two of them leaves a state that has a name.
"""

from __future__ import annotations

import fcntl
import json
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from advisor.errors import DataError, UsageError
from advisor.files import write_whole
from advisor.places import user_folder
from sweeps.store.owners import has_gone

ID = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{8}")
KEPT = 50
# Until then a process that was started has written that it runs, however busy the machine is; one
# that comes later gives up (`running`).
STARTING_SECONDS = 120.0
_ASKED, _PROCESS, _STOP, _ENDED = "asked.json", "process.json", "stop.json", "ended.json"


class JobState(StrEnum):
    """`lost`: its process was killed before it could say how it ended."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


OPEN = (JobState.STARTING, JobState.RUNNING, JobState.STOPPING)


@dataclass(frozen=True, slots=True)
class Job:
    """One sweep that was started, as its folder told at one moment. Parts that were not written
    (yet) are empty."""

    folder: Path
    asked: Mapping[str, Any]
    process: Mapping[str, Any]
    stop: Mapping[str, Any]
    ended: Mapping[str, Any]

    @property
    def id(self) -> str:
        """By which a client names it; in the order of their starts."""
        return self.folder.name

    @property
    def events_path(self) -> Path:
        """The log of its events, one JSON object a line."""
        return self.folder / "events.jsonl"

    @property
    def talk_path(self) -> Path:
        """What it said on stderr; the document that it printed lies beside it, as .json."""
        return self.folder / "talk.log"

    @property
    def on_aws(self) -> bool:
        """Whether it measures elsewhere, and leaves this machine's quiet."""
        return self.asked.get("on") != "here"

    def state(self, now: datetime) -> JobState:
        """Where it stands: told by its files and by the table of processes."""
        if self.ended:
            return JobState(self.ended["state"])
        if self.process:
            if _has_gone(self.process):
                return JobState.LOST
            return JobState.STOPPING if self.stop else JobState.RUNNING
        age = (now - datetime.fromisoformat(self.asked["at"])).total_seconds()
        return JobState.STARTING if age < STARTING_SECONDS else JobState.LOST


def jobs_folder() -> Path:
    """Where their folders lie; need not exist yet."""
    return user_folder() / "service" / "sweeps"


def new_job(asked: Mapping[str, Any], now: datetime) -> Job:
    """A folder of its own for what is asked; `DataError` where none can be made."""
    name = f"{now.astimezone(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
    folder = jobs_folder() / name
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise DataError(f"cannot make '{folder}' ({error.strerror}); free some space") from error
    write_part(folder, _ASKED, {**asked, "at": now.isoformat()})
    return job_at(folder)


def job_at(folder: Path) -> Job:
    """The job of a folder; `DataError` where none lies there."""
    asked = _part(folder, _ASKED)
    if not asked:
        raise DataError(f"'{folder}' holds no sweep")
    # In the order in which they are written: what is read later is never older.
    process, stop, ended = (_part(folder, name) for name in (_PROCESS, _STOP, _ENDED))
    return Job(folder, asked, process, stop, ended)


def known_job(job_id: str) -> Job:
    """The job of that id; `UsageError` for what is none."""
    folder = jobs_folder() / job_id
    if not ID.fullmatch(job_id) or not (folder / _ASKED).is_file():
        raise UsageError(f"there is no sweep '{job_id[:40]}'")
    return job_at(folder)


def all_jobs() -> list[Job]:
    """Every job, the latest first."""
    try:
        names = sorted((one.name for one in jobs_folder().iterdir()), reverse=True)
    except FileNotFoundError:
        return []
    folders = (jobs_folder() / name for name in names if ID.fullmatch(name))
    return [job_at(folder) for folder in folders if (folder / _ASKED).is_file()]


def note_process(folder: Path, facts: Mapping[str, Any]) -> None:
    """The process of this job runs now."""
    write_part(folder, _PROCESS, facts)


def note_stop(folder: Path, facts: Mapping[str, Any]) -> None:
    """Somebody wants it to end."""
    write_part(folder, _STOP, facts)


def note_end(folder: Path, facts: Mapping[str, Any]) -> None:
    """It has ended."""
    write_part(folder, _ENDED, facts)


def write_part(folder: Path, name: str, facts: Mapping[str, Any]) -> None:
    """Keep a part of the record, whole or not at all, also through a power cut."""
    write_whole(folder / name, json.dumps(facts))


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Who looks for running sweeps and starts one does so alone, among all processes here."""
    path = jobs_folder() / "lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        raise DataError(f"cannot write '{path}' ({error.strerror}); free some space") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def forget_old(now: datetime) -> None:
    """Remove the oldest of those that have ended, so that the latest `KEPT` stay."""
    ended = [job for job in all_jobs() if job.state(now) not in OPEN]
    for job in ended[KEPT:]:
        shutil.rmtree(job.folder, ignore_errors=True)


def _part(folder: Path, name: str) -> Mapping[str, Any]:
    try:
        found = json.loads((folder / name).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _has_gone(process: Mapping[str, Any]) -> bool:
    return has_gone(process["place"], process["pid"], process["started"])
