"""A driver that is killed: sweeps over the trials of a file, replayed, as `advisor sweep run` does.

`python -m benchmarks.kills.driver URL FILE SECONDS`; a line of JSON for each event."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from advisor.cli.main import leaving_cleanly
from advisor.domain import Status
from advisor.runs.sweep_questions import SweepRun
from advisor.runs.sweeps.sweeping import execute_sweep
from advisor.store.measurements import open_store
from advisor.sweeps.formats import read_file
from advisor.sweeps.run.runner import Executor, ProcessExecutor, Progress
from benchmarks.kills.replaying import replayed

_MOST_ROUNDS = 50
_FAILED = {Status.FAILED.value, Status.TIMED_OUT.value}


def main(url: str, file: str, seconds: str) -> None:
    """Until every trial has its result: those whose worker was killed are measured again."""
    trials = [one.trial for one in read_file(Path(file)).measurements]
    measure, again = replayed(Path(file), float(seconds)), SweepRun(preset="small", retry_failed=True)

    def executor() -> Executor:
        made = ProcessExecutor(measure)
        _tell(event="ready")
        return made

    with leaving_cleanly(lambda: "stopped"), closing(open_store(url)) as store:
        for _ in range(_MOST_ROUNDS):
            execute_sweep(trials, again, store, executor=executor, on_progress=_progress)
            if not _FAILED & set(store.statuses().values()):
                break
    _tell(event="done")


def _progress(progress: Progress) -> None:
    if progress.started:
        _tell(event="started", trial_id=progress.started.trial_id)
    if (row := progress.measurement) is not None:
        _tell(event="stored", trial_id=row.trial.trial_id, status=row.status.value, reason=row.reason)


def _tell(**event: Any) -> None:
    print(json.dumps({**event, "at": time.monotonic()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
