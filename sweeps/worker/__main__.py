"""The child process: `python -m advisor.sweeps.worker`, one trial in (JSON), one measurement out (JSON).

Reads one line of JSON on stdin: `{"trial": ..., "usage_source": ..., "cpus": [...], "shares_disk": bool,
"wait_for_go": bool}`. With `wait_for_go` it prints `loaded` when libraries and network are, and `ready` when
the page cache is as asked, and goes on at the next line of stdin each time, so that the parent can switch
limits on. With `shares_disk` other trials may read the same files now: it empties no page cache. Lines
`{"event": ...}` are events (`advisor.sweeps.events`), none of them inside of a timed run. With `wait_for_go`
the measurement is printed as soon as the main run is over, with `{"stages_follow": true}`. The last line of
stdout is the whole measurement. A trial on several GPUs has a process for each; this is the first of them
(`advisor.sweeps.worker.companion`).

Started as a process, never imported by the parent. Needs the standard library, NumPy, Pillow, torch and
torchvision only, so that it runs on a bare GPU machine."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from advisor.sweeps.machine.processes import end_with_parent
from advisor.sweeps.trial.child import STAGES_FOLLOW, send_to_parent, wait_for_go

if TYPE_CHECKING:
    from advisor.domain import Measurement, Status, Trial


def main() -> None:
    """Measure the trial on stdin; whatever goes wrong becomes the measurement's reason."""
    if sys.argv[1:]:
        print(__doc__)
        return
    end_with_parent()
    line = sys.stdin.readline()
    if not line.strip():
        raise SystemExit("no trial on stdin: --help says what is read there")
    job = json.loads(line)
    from advisor.records import asdict
    from advisor.sweeps.events import EVENT_KEY, subscribe

    with subscribe(lambda event: send_to_parent({EVENT_KEY: asdict(event)})):
        answer = _measure(job)
    send_to_parent(answer)


def _measure(job: dict[str, Any]) -> dict[str, Any]:
    from advisor.sweeps.formats import measurement_to_dict, trial_from_dict
    from advisor.sweeps.trial.child import ending_of

    trial = trial_from_dict(job["trial"])
    try:
        from advisor.sweeps.worker.measuring import measure

        conversation = (wait_for_go, _send_before_stages) if job.get("wait_for_go") else ()
        with _beside(trial, job):
            measurement = measure(trial, job, *conversation)
    except Exception as error:
        ending = ending_of(error, trial.dataset_path)
        measurement = _failure(trial, ending.status, ending.reason)
    return measurement_to_dict(measurement)


def _beside(trial: Trial, job: dict[str, Any]) -> AbstractContextManager[None]:
    """The trial's other processes, if it has any. One that fails ends this one with its reason."""
    if trial.processes == 1:
        return nullcontext()
    from advisor.domain import Status
    from advisor.sweeps.formats import measurement_to_dict
    from advisor.sweeps.worker.companion import companions_of

    def fail(status: str, reason: str) -> None:
        send_to_parent(measurement_to_dict(_failure(trial, Status(status), reason)))
        os._exit(0)

    return companions_of(job, trial.processes - 1, fail)


def _failure(trial: Trial, status: Status, reason: str) -> Measurement:
    from advisor.domain import LimitedBy, Measurement

    return Measurement(trial=trial, status=status, limited_by=LimitedBy.HOST, reason=reason)


def _send_before_stages(measurement: Measurement) -> None:
    from advisor.sweeps.formats import measurement_to_dict

    send_to_parent({**measurement_to_dict(measurement), STAGES_FOLLOW: True})


if __name__ == "__main__":
    main()
