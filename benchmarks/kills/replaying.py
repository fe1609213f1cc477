"""A worker that answers trials from a file: `python -m benchmarks.kills.replaying FILE SECONDS`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.domain import REPLAYED_FROM, Measurement, Trial
from advisor.sweeps.formats import measurement_from_dict, measurement_to_dict, trial_from_dict
from advisor.sweeps.machine.environment import allowed_cpus
from advisor.sweeps.machine.processes import end_with_parent
from advisor.sweeps.trial.child import READY, send_to_parent, wait_for_go
from advisor.sweeps.trial.placement import Placement, wanted_cpus
from advisor.sweeps.trial.trial_process import measure_trial, run_attempt

_AS_MEASURED = "as_measured"


def replayed(file: Path, seconds: float) -> partial[Measurement]:
    """A `Measure` that answers each trial from a file of `advisor measurements export` after so many
    seconds; it can be sent to other processes."""
    command = (sys.executable, "-P", "-m", "benchmarks.kills.replaying", str(file), str(seconds))
    return partial(measure_trial, attempt=partial(run_attempt, command=command, taking=anywhere))


@contextmanager
def anywhere(vcpus: float, **_: object) -> Iterator[Placement]:
    """CPUs that others may have as well: what stands in for a worker measures nothing."""
    yield Placement(tuple(allowed_cpus()[-wanted_cpus(vcpus) :]))


def unmarked(measurement: Measurement) -> Measurement:
    """The measurement as its file has it: without the mark and the facts that a replay adds."""
    environment: Any = measurement.environment[_AS_MEASURED]
    return replace(measurement, environment=environment)


def answer_of(lines: Sequence[str], trial: Trial, file: str) -> Measurement:
    """The trial's measurement in the lines of the file, marked."""
    for line in lines:
        result = measurement_from_dict(json.loads(line))
        if result.trial.trial_id == trial.trial_id:
            marked = {REPLAYED_FROM: file, _AS_MEASURED: dict(result.environment)}
            return replace(result, environment=marked)
    raise LookupError(f"'{file}' has no measurement of the trial {trial.trial_id}")


def main(file: str, seconds: float) -> None:
    """The worker's side of the conversation."""
    end_with_parent()
    job = json.loads(sys.stdin.readline())
    answer = answer_of(Path(file).read_text().splitlines(), trial_from_dict(job["trial"]), file)
    if job.get("wait_for_go"):
        wait_for_go(READY)
    time.sleep(seconds)
    send_to_parent(measurement_to_dict(answer))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
