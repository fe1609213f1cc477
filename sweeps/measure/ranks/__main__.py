"""One rank: `python -m advisor.sweeps.measure.ranks JOB` under torchrun, JSON lines on stdout.

JOB is a JSON object with the fields of `measuring.Job`. The first rank of each node prints `{"progress":
...}`, and last `{"anchor": ...}`, the same on all nodes; any rank prints `{"error": ...}` for what a user can
mend. All else that fails is noted for torchrun."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from advisor.sweeps.machine.processes import end_with_parent
from advisor.sweeps.trial.child import answer_parent, send_to_parent


def main() -> None:
    """Measure together with the other ranks."""
    end_with_parent()
    # Loading torch takes seconds, in which torchrun may die.
    from torch.distributed.elastic.multiprocessing.errors import record

    if code := record(answer_parent)(_measured):
        raise SystemExit(code)


def _measured() -> dict[str, Any]:
    from advisor.sweeps.measure.ranks.measuring import Job, measure

    is_first = os.environ["LOCAL_RANK"] == "0"

    def progress(line: str) -> None:
        if is_first:
            send_to_parent({"progress": line})

    anchor = measure(Job(**json.loads(sys.argv[1])), report=progress)
    return {"anchor": anchor} if is_first else {}


if __name__ == "__main__":
    main()
