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
from contextlib import nullcontext
from typing import Any

from advisor.sweeps.machine.processes import end_with_parent
from advisor.sweeps.trial.child import STAGES_FOLLOW, send_to_parent, wait_for_go


def main() -> None:
    """Measure the trial on stdin; any error becomes the measurement's reason."""
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
    from advisor.domain import LimitedBy, Measurement, Status
    from advisor.sweeps.formats import measurement_to_dict, trial_from_dict
    from advisor.sweeps.trial.child import Ending, ending_of
    from advisor.sweeps.worker.companion import companions_of

    trial = trial_from_dict(job["trial"])

    def keep(measurement: Measurement) -> None:
        send_to_parent({**measurement_to_dict(measurement), STAGES_FOLLOW: True})

    def fail(status: str, reason: str) -> None:
        """End this process with the reason of another process of the trial that failed."""
        ending = Ending(Status(status), reason)
        send_to_parent(measurement_to_dict(ending.measurement(trial, LimitedBy.HOST)))
        os._exit(0)

    try:
        from advisor.sweeps.worker.measuring import measure

        conversation = (wait_for_go, keep) if job.get("wait_for_go") else ()
        with companions_of(job, trial.processes - 1, fail) if trial.processes > 1 else nullcontext():
            measurement = measure(trial, job, *conversation)
    except Exception as error:
        measurement = ending_of(error, trial.dataset_path).measurement(trial, LimitedBy.HOST)
    return measurement_to_dict(measurement)


if __name__ == "__main__":
    main()
