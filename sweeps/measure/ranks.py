"""One rank, and the torchrun that starts the ranks of a node; JSON lines on stdout.

`python -m advisor.sweeps.measure.ranks ARGUMENTS` is torchrun that ends with the process that started it.
Where ranks are lost, its last line is `{"error": ...}`: the rank that failed first, and why. It starts `..
JOB`, a JSON object with the fields of `scaling.Job`, on each rank. The first rank of each node prints
`{"progress": ...}`, and last `{"anchor": ...}`, the same on all nodes; any rank prints `{"error": ...}`
for what a user can mend. All else that fails is noted for torchrun. torch is loaded late: that takes
seconds, in which the parent may die."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from advisor.sweeps.machine.processes import end_with_parent, killer_text, oom_kills
from advisor.sweeps.trial.child import answer_parent, send_to_parent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure


def rank() -> int:
    """Measure together with the other ranks; returns the exit code."""
    from torch.distributed.elastic.multiprocessing.errors import record

    return int(record(answer_parent)(_measured) or 0)


def _measured() -> dict[str, Any]:
    from advisor.sweeps.measure.scaling import Job, measure

    is_first = os.environ["LOCAL_RANK"] == "0"

    def progress(line: str) -> None:
        if is_first:
            send_to_parent({"progress": line})

    anchor = measure(Job(**json.loads(sys.argv[1])), report=progress)
    return {"anchor": anchor} if is_first else {}


def torchrun() -> int:
    """Run the ranks of this node until they end; returns the exit code."""
    kills_before = oom_kills()
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    try:
        run(parse_args(sys.argv[1:]))  # type: ignore[no-untyped-call]
        return 0
    except ChildFailedError as error:
        reason = _cause(error.failures, kills_before)
    except (OSError, RuntimeError) as error:  # a first node that does not resolve, or answer
        reason = f"the nodes do not find each other: {error}"
    send_to_parent({"error": reason})
    return 1


def _cause(failures: Mapping[int, ProcessFailure], kills_before: int) -> str:
    """The reason of the first failure; later ranks only report that they lost the connection to it."""
    for number, failure in failures.items():
        if failure.exitcode == -signal.SIGKILL:
            return f"rank {number} was killed from outside (SIGKILL){killer_text(kills_before)}"
    number, first = min(failures.items(), key=lambda item: item[1].timestamp)
    note = first.message
    return f"rank {number}: {note['message'] if isinstance(note, dict) else note}"


def main() -> None:
    """Run one rank if the argument is a job, else torchrun."""
    end_with_parent()
    if code := rank() if sys.argv[1].startswith("{") else torchrun():
        raise SystemExit(code)


if __name__ == "__main__":
    main()
