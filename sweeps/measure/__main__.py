"""The child of `advisor measure`: `python -m advisor.sweeps.measure JOB`, JSON lines on stdout.

JOB is a JSON object `{"reference", "minutes", "tasks", "precision", "data", "batches", "profile"}`. Lines are
`{"progress": ...}` and `{"so_far": ...}` (the document after each run), and last `{"anchor": ...}`, or
`{"error": ..., "usage": bool}`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from advisor.domain import Precision, Task
from advisor.sweeps.measure import measure_network
from advisor.sweeps.trial.child import answer_parent, send_to_parent


def main() -> None:
    """Measure the job, and send results or the error to the parent."""
    job = json.loads(sys.argv[1])
    answer_parent(lambda: {"anchor": _measured(job)})


def _measured(job: dict[str, Any]) -> dict[str, Any]:
    return measure_network(
        job["reference"],
        minutes=job["minutes"],
        tasks=[Task(task) for task in job["tasks"]],
        precision=Precision(job["precision"]),
        data=Path(job["data"]) if job["data"] else None,
        batches={Task(task): size for task, size in job["batches"].items()},
        profile=job["profile"],
        report=lambda line: send_to_parent({"progress": line}),
        keep=lambda document: send_to_parent({"so_far": document}),
    )


if __name__ == "__main__":
    main()
