"""The process that reports on a schedule's plan after a run, as the run's own process sees it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from advisor.errors import one_line
from advisor.runs.scheduling.child import answer_path
from advisor.runs.scheduling.commands import ADVISOR, environment
from sweeps.store.schedule_words import Run


def report_process(run: Run, failed: str, log: Path) -> subprocess.Popen[bytes]:
    """Start `advisor schedule report`; its talk goes to the log, its answer beside that."""
    command = [*ADVISOR, "schedule", "report", str(run.number), "--failed", failed]
    with log.open("ab") as talk, answer_path(log).open("wb") as answer:
        return subprocess.Popen(
            command, env=environment(), stdin=subprocess.DEVNULL, stdout=answer, stderr=talk
        )


def report_of(code: int, log: Path) -> dict[str, Any]:
    """What that process answered; where it broke, its last words."""
    try:
        found = json.loads(answer_path(log).read_text())
    except (OSError, ValueError):
        found = None
    if code == 0 and isinstance(found, dict) and "deliveries" in found:
        return found
    return report_lost(_last_words(log) or f"exit code {code}")


def report_lost(why: str) -> dict[str, Any]:
    """A `sizing_report` that was not made."""
    return {"headline": None, "changed": None, "deliveries": [], "error": one_line(why)}


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
