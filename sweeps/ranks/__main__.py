"""One rank: `python -m advisor.sweeps.ranks JOB` under torchrun, JSON lines on stdout.

JOB is a JSON object with the fields of `measuring.Job`. The first rank of each node prints
`{"progress": ...}`, and last `{"anchor": ...}`, the same on all nodes; any rank prints
`{"error": ...}` for what a user can mend. All else that fails is noted for torchrun.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from advisor.errors import AdvisorError, UsageError
from advisor.sweeps.machine.processes import end_with_parent


def main() -> None:
    """Measure together with the other ranks."""
    end_with_parent()
    # Loading torch takes seconds, in which torchrun may die.
    from torch.distributed.elastic.multiprocessing.errors import record

    record(_measure)()


def _measure() -> None:
    from advisor.sweeps.ranks.measuring import Job, measure

    is_first = os.environ["LOCAL_RANK"] == "0"

    def progress(line: str) -> None:
        if is_first:
            _report(progress=line)

    try:
        anchor = measure(Job(**json.loads(sys.argv[1])), report=progress)
    except AdvisorError as error:
        _report(error=str(error), usage=isinstance(error, UsageError))
        raise SystemExit(1) from error
    if is_first:
        _report(anchor=anchor)


def _report(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
