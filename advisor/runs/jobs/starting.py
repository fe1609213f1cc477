"""Starts a sweep as a process of its own, if none runs here yet, and asks one to end."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from advisor.errors import UsageError
from advisor.runs.jobs.asking import AskedSweep
from advisor.runs.jobs.records import (
    OPEN,
    Job,
    all_jobs,
    forget_old,
    job_at,
    new_job,
    note_stop,
    one_at_a_time,
)
from advisor.runs.scheduling.commands import ADVISOR, environment
from advisor.runs.sweeps.sweeping import sweep_runs_here
from sweeps.store import DATABASE_VARIABLE

# Each launches within a budget of its own; a client that asks in a loop is stopped here.
MOST_ON_AWS = 4
# Of the server's environment: what only it means.
_SERVERS = ("ADVISOR_SERVICE", "PROMETHEUS_MULTIPROC_DIR")


class OtherSweep(UsageError):
    """A sweep runs already; `job_id` is None where it was started by hand or by a schedule."""

    def __init__(self, message: str, job_id: str | None) -> None:
        super().__init__(message)
        self.job_id = job_id


def start_sweep(
    asked: AskedSweep,
    fields: Mapping[str, Any],
    *,
    max_minutes: float | None = None,
    database_url: str | None = None,
) -> Job:
    """Start it; returns at once. `fields` are what the client asked, for those who look later.

    `OtherSweep` while one measures on this machine (two would measure each other), or while
    `MOST_ON_AWS` run there.
    """
    now = datetime.now(UTC)
    with one_at_a_time():
        _refuse_beside(asked, now)
        forget_old(now)
        job = new_job(
            {
                "on": asked.answers["on"], "words": list(asked.words), "fields": dict(fields),
                "max_minutes": max_minutes, "planned": len(asked.trials) or None,
            },
            now,
        )  # fmt: skip
        _spawn(job, database_url)
    return job


def stop_sweep(job: Job, *, by: str = "") -> Job:
    """Ask a sweep to end as Ctrl-C would; one that has ended stays as it is.

    A file asks: it outlives this process, and no signal meets a process that took its number.
    """
    if not job.stop and job.state(datetime.now(UTC)) in OPEN:
        note_stop(job.folder, {"at": datetime.now(UTC).isoformat(), "by": by})
    return job_at(job.folder)


def _refuse_beside(asked: AskedSweep, now: datetime) -> None:
    running = [job for job in all_jobs() if job.state(now) in OPEN]
    if asked.on_aws:
        there = [job for job in running if job.on_aws]
        if len(there) >= MOST_ON_AWS:
            raise OtherSweep(f"{len(there)} sweeps run on AWS; wait for one to end", there[0].id)
        return
    for job in running:
        if not job.on_aws:
            raise OtherSweep(
                f"sweep {job.id} runs on this machine, and two would spoil each other; wait for "
                f"it to end, or end it: DELETE /v1/sweeps/{job.id}", job.id
            )  # fmt: skip
    if sweep_runs_here():
        raise OtherSweep(
            "a sweep that was started by hand or by a schedule runs on this machine, and two would "
            "spoil each other; wait for it to end", None
        )  # fmt: skip


def _spawn(job: Job, database_url: str | None) -> None:
    """A session of its own: neither Ctrl-C nor the end of this process reaches it. It lowers its
    own priority; nothing of ours runs between fork and exec, where threads allow nothing."""
    given = {DATABASE_VARIABLE: database_url} if database_url else {}
    variables = {name: one for name, one in environment().items() if name not in _SERVERS} | given
    with (job.folder / "start.log").open("ab") as talk:
        process = subprocess.Popen(
            [*ADVISOR, "sweep", "job", job.id], cwd=job.folder, env=variables,
            stdin=subprocess.DEVNULL, stdout=talk, stderr=talk, start_new_session=True,
        )  # fmt: skip
    # Its end is told by its files; this only takes it out of the table of processes.
    threading.Thread(target=process.wait, name=f"sweep {job.id}", daemon=True).start()
