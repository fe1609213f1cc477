"""Where started sweeps stand, as documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from advisor.domain import Trial
from advisor.errors import AdvisorError
from advisor.runs.jobs.asking import Allowed, asked_sweep
from advisor.runs.jobs.records import OPEN, Job, JobState
from advisor.runs.sweeps.rows import shown_rows, trial_documents
from advisor.runs.sweeps.standing import snapshot_document
from sweeps.watching.shared import look_at

if TYPE_CHECKING:
    from sweeps.store import SqlStore

ONE, LIST, TRIALS = "advisor.sweep-job/1", "advisor.sweep-jobs/1", "advisor.sweep-list/1"


def job_document(job: Job, now: datetime | None = None) -> dict[str, Any]:
    """`advisor.sweep-job/1` without the status of its trials."""
    state = job.state(now or datetime.now(UTC))
    return {
        "schema": ONE,
        "id": job.id,
        "state": state.value,
        "runs": state in OPEN,
        "on": job.asked["on"],
        "asked": job.asked["fields"],
        "max_minutes": job.asked["max_minutes"],
        "planned_trials": job.asked["planned"],
        "asked_at": job.asked["at"],
        "begun_at": job.process.get("at"),
        "stop_asked_at": job.stop.get("at"),
        "ended_at": job.ended.get("at"),
        "exit_code": job.ended.get("exit_code"),
        "reason": _reason(job, state),
        "host": job.process.get("host"),
        "pid": job.process.get("pid"),
    }


def status_document(job: Job, store: SqlStore, allowed: Allowed) -> dict[str, Any] | None:
    """What `advisor sweep status -o json` tells of the same sweep; None of one on AWS, and of one
    that could not be planned any more."""
    trials = trials_of(job, allowed)
    if trials is None:
        return None
    return snapshot_document(look_at(store, [trial.trial_id for trial in trials]))


def trials_document(job: Job, store: SqlStore, allowed: Allowed) -> dict[str, Any]:
    """What `advisor sweep list -o json` tells of the same sweep: each trial, its state and rate."""
    trials = trials_of(job, allowed) or ()
    rows, _ = shown_rows(store, trials)
    return {"schema": TRIALS, "trials": trial_documents(trials, rows)}


def list_document(jobs: Sequence[Job], store: SqlStore) -> dict[str, Any]:
    """All of them, the latest first; `status` is of all that the store holds or that runs, by
    whomever it was started."""
    now = datetime.now(UTC)
    documents = [job_document(job, now) for job in jobs]
    return {
        "schema": LIST,
        "sweeps": documents,
        "running": [one["id"] for one in documents if one["runs"]],
        "status": snapshot_document(look_at(store)),
    }


def trials_of(job: Job, allowed: Allowed) -> tuple[Trial, ...] | None:
    """As the machine plans them now: once the data are made, the ids are those measured."""
    if job.on_aws:
        return None
    try:
        return asked_sweep(job.asked["fields"], allowed).trials
    except AdvisorError:
        return None  # a data set or a network that is allowed no more


def _reason(job: Job, state: JobState) -> str:
    if state is JobState.LOST:
        return (
            "its process was killed, or never came up; what was measured is kept, and the same "
            "sweep started again goes on"
        )
    return str(job.ended.get("reason", ""))
