"""`python -m advisor.sweeps.worker.companion RANK WORKER`: another rank of a trial, ends with the worker.

It reads the worker's job (`advisor.sweeps.worker.__main__`) as one line of JSON on stdin, and runs the same
steps. It prints nothing if all goes well, else one line of JSON with `status` and `reason`, and ends with
exit code 1."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from advisor.sweeps.machine.processes import end_with_parent, killer_text, oom_kills

_COMMAND = (sys.executable, "-P", "-m", "advisor.sweeps.worker.companion")
_PATIENCE_SECONDS = 5.0
Fail = Callable[[str, str], None]


def main() -> None:
    """Run a rank's steps while the worker measures."""
    end_with_parent(parent=int(sys.argv[2]))
    job = json.loads(sys.stdin.readline())
    from advisor.sweeps.formats import trial_from_dict
    from advisor.sweeps.trial.child import ending_of

    trial = trial_from_dict(job["trial"])
    try:
        from advisor.sweeps.worker.measuring import accompany

        accompany(trial, job, int(sys.argv[1]))
    except Exception as error:
        ending = ending_of(error, trial.dataset_path)
        sys.stdout.write(json.dumps({"status": str(ending.status), "reason": ending.reason}) + "\n")
        sys.stdout.flush()
        raise SystemExit(1) from error


def _watch(process: subprocess.Popen[str], rank: int, over: threading.Event, fail: Fail) -> None:
    kills_before = oom_kills()
    said, _ = process.communicate()
    code = process.returncode
    if code == 0 or over.is_set():
        return
    if ending := _ending(said):
        fail(ending["status"], f"process {rank}: {ending['reason']}")
    elif code > 0:
        fail("failed", f"process {rank} ended with exit code {code}")
    else:
        why = killer_text(kills_before) if -code == signal.SIGKILL else ""
        fail("failed", f"process {rank} was killed from outside (signal {-code}){why}")


def _ending(said: str) -> dict[str, str]:
    """The `status` and `reason` among the lines of a rank's stdout; empty if there are none."""
    for line in reversed(said.splitlines()):
        with suppress(ValueError):
            ending = json.loads(line)
            if isinstance(ending, dict) and ending.keys() >= {"status", "reason"}:
                return ending
    return {}


def _started(job: Mapping[str, Any], rank: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        (*_COMMAND, str(rank), str(os.getpid())), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    return process


@contextmanager
def companions_of(job: dict[str, Any], count: int, fail: Fail) -> Iterator[None]:
    """Start `count` further ranks, which meet this process at the job's `rendezvous`; they are killed after
    the block. The first that fails ends the trial: a thread passes its reason to `fail`, as this process may
    be waiting for that rank in a kernel of NCCL."""
    over = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        job["rendezvous"] = str(Path(folder) / "rendezvous")
        processes = {rank: _started(job, rank) for rank in range(1, 1 + count)}
        watchers = [
            threading.Thread(target=_watch, args=(process, rank, over, fail), daemon=True)
            for rank, process in processes.items()
        ]
        for watcher in watchers:
            watcher.start()
        try:
            yield
        except Exception:
            # Another rank may be the cause, and report it in a moment.
            for watcher in watchers:
                watcher.join(_PATIENCE_SECONDS / len(watchers))
            raise
        finally:
            over.set()
            for process in processes.values():
                process.kill()


if __name__ == "__main__":
    main()
