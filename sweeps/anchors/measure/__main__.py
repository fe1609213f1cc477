"""The child of `advisor measure`: `python -m advisor.sweeps.anchors.measure JOB`, JSON lines on stdout.

JOB is a JSON object `{"reference", "minutes", "tasks", "precision", "data", "batches", "profile"}`.
Lines are `{"progress": ...}` and `{"so_far": ...}` (the document after each run), and last
`{"anchor": ...}`, or `{"error": ..., "usage": bool}`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from advisor.domain import Precision, Task
from advisor.errors import AdvisorError, UsageError
from advisor.sweeps.anchors.measure import measure_network
from advisor.sweeps.machine.processes import end_with_parent


def main(arguments: list[str] | None = None) -> None:
    """Measure, and report; what goes wrong is a line too."""
    end_with_parent()
    job = json.loads((arguments or sys.argv[1:])[0])
    try:
        _report(anchor=_measured(job))
    except AdvisorError as error:
        _report(error=str(error), usage=isinstance(error, UsageError))


def _measured(job: dict[str, Any]) -> dict[str, Any]:
    return measure_network(
        job["reference"],
        minutes=job["minutes"],
        tasks=[Task(task) for task in job["tasks"]],
        precision=Precision(job["precision"]),
        data=Path(job["data"]) if job["data"] else None,
        batches={Task(task): size for task, size in job["batches"].items()},
        profile=job["profile"],
        report=lambda line: _report(progress=line),
        keep=lambda document: _report(so_far=document),
    )


def _report(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
