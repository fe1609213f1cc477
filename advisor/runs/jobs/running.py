"""The process of one started sweep: runs `sweep run`, ends it when asked, and says how it ended.

It belongs to no server. Where it is killed, the kernel ends the sweep after it
(`scheduling.child`), and whoever looks finds that its process has gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError, UsageError
from advisor.runs.jobs.records import (
    Job,
    JobState,
    job_at,
    known_job,
    note_end,
    note_process,
)
from advisor.runs.scheduling.child import command_process, ended
from advisor.runs.scheduling.commands import ADVISOR
from sweeps.store.owners import columns_of, this_process

# Behind whoever answers requests: for the scheduler's choice, and for the kernel's when memory
# runs out (proc(5): 1000 is the first to go).
_NICE = 10
_OOM_SCORE = 800
_LOOK_EVERY_SECONDS = 0.25
_LAST_LINES = 20_000


def run_job(job_id: str) -> int:
    """Run the sweep of that id to its end; returns its exit code. `UsageError` where there is
    none, or where it was begun before, or asked for too long ago."""
    job = known_job(job_id)
    if job.state(datetime.now(UTC)) is not JobState.STARTING:
        raise UsageError(f"sweep {job.id} is {job.state(datetime.now(UTC))}; it is not begun again")
    _step_back()
    note_process(job.folder, {**columns_of(this_process()), "at": _now()})
    ending: dict[str, Any] = {"state": JobState.STOPPED, "reason": "its process was ended"}
    try:
        ending = _worked(job)
    except (AdvisorError, OSError) as error:
        ending = {"state": JobState.FAILED, "reason": str(error), "exit_code": None}
    finally:
        note_end(job.folder, {"exit_code": None, **ending, "at": _now()})
    return int(ending.get("exit_code") or 0)


def command_of(job: Job) -> list[str]:
    """The whole command line; a sweep on AWS writes no log of events here."""
    log = [] if job.on_aws else [f"--log-file={job.events_path}"]
    return [*ADVISOR, *job.asked["words"], *log, "-o", "json"]


def _worked(job: Job) -> dict[str, Any]:
    with command_process(command_of(job), str(job.folder), job.talk_path) as process:
        why = _waited(process, job)
    code = process.returncode
    if why:
        return {"state": JobState.STOPPED, "reason": why, "exit_code": code}
    if code:
        return {"state": JobState.FAILED, "reason": _last_words(job.talk_path, code),
                "exit_code": code}  # fmt: skip
    return {"state": JobState.DONE, "reason": "", "exit_code": code}


def _waited(process: subprocess.Popen[bytes], job: Job) -> str:
    """Wait for the sweep; ends it politely, and tells why, when somebody asks or time is up."""
    minutes = job.asked.get("max_minutes")
    last = time.monotonic() + 60 * minutes if minutes else float("inf")
    while process.poll() is None:
        if job_at(job.folder).stop:
            ended(process)
            return "somebody asked it to end; what was measured is kept"
        if time.monotonic() >= last:
            ended(process)
            return f"its {minutes:g} minutes are over; what was measured is kept"
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_EVERY_SECONDS)
    return ""


def _step_back() -> None:
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))


def _last_words(talk: Path, code: int) -> str:
    """The last thing that the sweep said before it failed."""
    ending = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
    try:
        text = talk.read_bytes()[-_LAST_LINES:].decode(errors="replace")
    except OSError:
        return ending
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("advisor: ") if lines else ending


def _now() -> str:
    return datetime.now(UTC).isoformat()
