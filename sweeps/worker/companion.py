"""The other ranks of a trial on several GPUs: a process each, which ends with the worker."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from advisor.sweeps.machine.processes import end_with_parent, killer_text, oom_kills

_PATIENCE_SECONDS = 5.0
Fail = Callable[[str, str], None]
Pipe = tuple[Connection, Connection]  # both ends stay open here, so that an empty one never looks ended


def run_rank(job: dict[str, Any], rank: int, worker: int, send: Connection) -> None:
    """Run a rank's steps while the process `worker` measures; sends the status and reason of a failure."""
    end_with_parent(parent=worker)
    os.dup2(2, 1)  # stdout belongs to the worker and its parent
    from advisor.sweeps.formats import trial_from_dict
    from advisor.sweeps.trial.child import ending_of

    trial = trial_from_dict(job["trial"])
    try:
        from advisor.sweeps.worker.measuring import accompany

        accompany(trial, job, rank)
    except Exception as error:
        ending = ending_of(error, trial.dataset_path)
        send.send((str(ending.status), ending.reason))
        raise SystemExit(1) from error


def _watch(process: BaseProcess, pipe: Pipe, over: threading.Event, fail: Fail) -> None:
    kills_before = oom_kills()
    process.join()
    code = process.exitcode or 0
    if code == 0 or over.is_set():
        return
    if pipe[0].poll():
        status, reason = pipe[0].recv()
        fail(status, f"{process.name}: {reason}")
    elif code > 0:
        fail("failed", f"{process.name} ended with exit code {code}")
    else:
        why = killer_text(kills_before) if -code == signal.SIGKILL else ""
        fail("failed", f"{process.name} was killed from outside (signal {-code}){why}")


@contextmanager
def companions_of(job: dict[str, Any], count: int, fail: Fail) -> Iterator[None]:
    """Start `count` further ranks, which meet this process at the job's `rendezvous`; they are killed after
    the block. The first that fails ends the trial: a thread passes its reason to `fail`, as this process may
    be waiting for that rank in a kernel of NCCL."""
    context, over = get_context("spawn"), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        job["rendezvous"] = str(Path(folder) / "rendezvous")
        processes, watchers = [], []
        for rank in range(1, 1 + count):
            pipe = context.Pipe(duplex=False)
            process = context.Process(
                target=run_rank, args=(job, rank, os.getpid(), pipe[1]), name=f"process {rank}"
            )
            process.start()
            processes.append(process)
            watchers.append(threading.Thread(target=_watch, args=(process, pipe, over, fail), daemon=True))
            watchers[-1].start()
        try:
            yield
        except Exception:
            # Another rank may be the cause, and report it in a moment.
            for watcher in watchers:
                watcher.join(_PATIENCE_SECONDS / len(watchers))
            raise
        finally:
            over.set()
            for process in processes:
                process.kill()
