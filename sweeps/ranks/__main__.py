"""One rank: `python -m advisor.sweeps.ranks JOB` under torchrun, JSON lines on stdout.

JOB is a JSON object with the fields of `measuring.Job`. The first rank of each node prints
`{"progress": ...}`, and last `{"anchor": ...}`, the same on all nodes, or `{"error": ...}`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from advisor.errors import AdvisorError, UsageError
from advisor.sweeps.machine.processes import end_with_parent
from advisor.sweeps.ranks.measuring import Job, measure


def main() -> None:
    """Measure together with the other ranks."""
    end_with_parent()
    try:
        anchor = measure(Job(**json.loads(sys.argv[1])), report=lambda line: _report(progress=line))
    except AdvisorError as error:
        _report(error=str(error), usage=isinstance(error, UsageError))
        raise SystemExit(1) from error
    _report(anchor=anchor)


def _report(**message: Any) -> None:
    if os.environ["LOCAL_RANK"] == "0":
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
