"""The worker up to the end of its main run: `python -m benchmarks.rates.timed_run_only`.

The stages come after it and take as long again, which repeats of a rate have no use for."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from advisor.sweeps.machine.processes import end_with_parent
from advisor.sweeps.trial.child import send_to_parent, wait_for_go

if TYPE_CHECKING:
    from advisor.domain import Measurement


def main() -> None:
    """Measure the trial on stdin, as `advisor.sweeps.worker` does."""
    end_with_parent()
    job = json.loads(sys.stdin.readline())
    from advisor.sweeps.formats import trial_from_dict
    from advisor.sweeps.worker.measuring import measure

    measure(trial_from_dict(job["trial"]), job, wait_for_go, _send_and_end)


def _send_and_end(measurement: Measurement) -> None:
    from advisor.sweeps.formats import measurement_to_dict

    send_to_parent(measurement_to_dict(measurement))
    raise SystemExit


if __name__ == "__main__":
    main()
