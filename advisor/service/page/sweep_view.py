"""Documents of started sweeps -> what their pages show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.render.i18n.catalogue import Texts
from advisor.units import format_mib

# Where the fastest trial's bar ends, in percent.
_FILLED = 96.0
WAITING = "waiting"
# What says nothing of what is measured.
_USUAL = ("on", "executor")


def list_view(jobs: Sequence[Mapping[str, Any]], t: Texts) -> dict[str, Any]:
    """Rows of the list, the latest first."""
    return {"jobs": [_head(one, t) for one in jobs]}


def job_view(
    job: Mapping[str, Any],
    status: Mapping[str, Any] | None,
    trials: Sequence[Mapping[str, Any]],
    t: Texts,
) -> dict[str, Any]:
    """Values of `sweep_now.html`: how far it is, what it does now, and each trial."""
    head = _head(job, t)
    rates = [one["throughput_samples_per_second"] or 0.0 for one in trials]
    full = max(rates, default=0.0) or 1.0
    done = len(trials) - (status["left"] if status else 0)
    running = {one["trial_id"] for one in status["running"]} if status else set()
    return {
        "problem": None,
        "wrong": {},
        "one": head,
        "done": done,
        "planned": len(trials),
        "trials": [_trial(one, running, full, t) for one in trials],
        "expected_end": _moment(status["expected_end"]) if status and head["runs"] else None,
        "said": t("sweep.said", state=head["state_text"], done=done, planned=len(trials)),
    }


def _head(job: Mapping[str, Any], t: Texts) -> dict[str, Any]:
    asked = job["asked"]
    return {
        "id": job["id"],
        "state": job["state"],
        "state_text": t.known("sweep.state." + job["state"], job["state"]),
        "runs": job["runs"],
        "reason": job["reason"],
        "planned": job["planned_trials"],
        "asked_at": _moment(job["asked_at"]),
        "ended_at": _moment(job["ended_at"]),
        "what": ", ".join(_said(value) for name, value in asked.items() if name not in _USUAL),
    }


def _said(value: object) -> str:
    """A word of the question as the form says it; the API takes lists, too: [0.5, 1] -> '0.5,1'."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _trial(one: Mapping[str, Any], running: set[str], full: float, t: Texts) -> dict[str, Any]:
    trial, rate = one["trial"], one["throughput_samples_per_second"]
    workload, resources = trial["workload"], trial["resources"]
    state = "running" if one["trial_id"] in running and one["state"] == WAITING else one["state"]
    return {
        "network": workload["network"],
        "task": t("task." + workload["task"]),
        "vcpus": f"{resources['vcpus']:g}",
        "ram": format_mib(resources["memory_mib"]),
        "disk": resources["disk"]["type"],
        "state": state,
        "state_text": t.known("status." + state, state),
        "reason": one["reason"],
        "rate": rate,
        "width": round(_FILLED * rate / full, 2) if rate else 0,
    }


def _moment(text: str | None) -> str:
    """'2026-11-21 22:30 UTC': to the minute; '' where it has not come."""
    return f"{text[:16].replace('T', ' ')} UTC" if text else ""
