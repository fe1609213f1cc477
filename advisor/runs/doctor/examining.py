"""All checks, side by side: the slowest (loading torch) is how long it takes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from advisor.errors import one_line
from advisor.runs.doctor.finding import Check, Finding, State
from advisor.runs.doctor.leftovers import check_leftovers
from advisor.runs.doctor.machine import check_clock, check_disk, check_limits, check_shared_memory
from advisor.runs.doctor.packages import check_gpu, check_ray, check_torch
from advisor.runs.doctor.records import check_bundle, check_database, check_unsaved, dates_in_bundle

SCHEMA = "advisor.doctor/1"


def examine(*, keep_leftovers: bool) -> list[Finding]:
    """Every check's finding, in the order in which they are told."""
    checks: Mapping[str, Check] = {
        "leftovers": partial(check_leftovers, keep=keep_leftovers),
        "limits": check_limits,
        "disk space": check_disk,
        "shared memory": check_shared_memory,
        "torch": check_torch,
        "gpu": check_gpu,
        "ray": check_ray,
        "database": check_database,
        "unsaved measurements": check_unsaved,
        "bundle": check_bundle,
        "clock": lambda: check_clock(dates_in_bundle()),
    }
    return run_checks(checks)


def run_checks(checks: Mapping[str, Check]) -> list[Finding]:
    """All at once; a check that fails itself is a problem, and hides no other."""
    with ThreadPoolExecutor(len(checks)) as threads:
        futures = {name: threads.submit(check) for name, check in checks.items()}
        return [_outcome(name, future) for name, future in futures.items()]


def _outcome(name: str, future: Any) -> Finding:
    try:
        finding: Finding = future.result()
    except Exception as error:
        text = f"cannot be told: {type(error).__name__}: {error}"
        return Finding(
            check=name,
            state=State.PROBLEM,
            found=one_line(text),
            advice="this is a defect of the advisor; please report it with this line",
        )
    return finding


def document(findings: list[Finding]) -> dict[str, Any]:
    """JSON, see report/schemas/doctor.schema.json."""
    return {
        "schema": SCHEMA,
        "state": worst(findings).value,
        "checks": [
            {
                "check": finding.check,
                "state": finding.state.value,
                "found": finding.found,
                "advice": finding.advice,
                "facts": dict(finding.facts),
            }
            for finding in findings
        ],
    }


def worst(findings: list[Finding]) -> State:
    """A problem is worse than a warning."""
    states = {finding.state for finding in findings}
    return next(finding for finding in (State.PROBLEM, State.WARNING, State.OK) if finding in states)
