"""The child process: `python -m sweeps.worker`, one trial in (JSON), one measurement out (JSON).

Reads one line of JSON on stdin: `{"trial": ..., "usage_source": ..., "cpus": [...],
"wait_for_go": bool}`. With `wait_for_go` it prints `ready` once everything is loaded and
the page cache is as asked, and goes on at the next line of stdin, so that the parent can
switch limits on in between. The last line of stdout is the measurement.

Started as a process, never imported by the parent. Needs the standard library, NumPy, Pillow,
torch and torchvision only, so that it runs on a bare GPU machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Measure the trial on stdin; whatever goes wrong becomes the measurement's reason."""
    if sys.platform.startswith("linux"):
        # A killed sweep must not leave a trial running that nobody waits for.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    job = json.loads(sys.stdin.readline())
    _tell(_measure(job))


def _measure(job: dict[str, Any]) -> dict[str, Any]:
    from advisor.domain import LimitedBy, Measurement, Status
    from sweeps.serialization import measurement_to_dict, trial_from_dict

    trial = trial_from_dict(job["trial"])
    try:
        from sweeps.measuring import measure

        measurement = measure(trial, job, _get_set if job.get("wait_for_go") else None)
    except Exception as error:
        memory = isinstance(error, MemoryError) or _names_memory(error)
        measurement = Measurement(
            trial=trial,
            status=Status.OUT_OF_MEMORY if memory else Status.FAILED,
            limited_by=LimitedBy.HOST,
            reason=_reason(error),
        )
    return measurement_to_dict(measurement)


def _reason(error: Exception) -> str:
    """One line. A loader process sends its whole traceback as the message: its last line
    names the error, and the file."""
    text = str(error)
    if "Original Traceback" in text:
        return text.strip().splitlines()[-1][:500]
    return f"{type(error).__name__}: {' '.join(text.split())[:500]}"


def _names_memory(error: Exception) -> bool:
    """torch reports a failed allocation as a RuntimeError, on the CPU as on CUDA."""
    text = str(error).lower()
    return any(words in text for words in ("out of memory", "can't allocate memory"))


def _get_set() -> None:
    _tell("ready")
    if not sys.stdin.readline():
        os._exit(1)  # the parent has gone


def _tell(message: object) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
