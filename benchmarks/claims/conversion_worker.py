"""One conversion of photographs to an LMDB in a process that can be limited.

Started as `python -m benchmarks.claims.conversion_worker` and spoken to as `advisor.sweeps.worker`
is:
a job (one line of JSON) in, `ready` out, a line in once the limits are on, the answer out.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Convert what the job on stdin names, from a cold page cache, and tell how fast."""
    from advisor.sweeps.datasets.opening import open_dataset
    from advisor.sweeps.worker.page_cache import evict

    job = json.loads(sys.stdin.readline())
    evict(open_dataset(Path(job["source"])).files)
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()
    print(json.dumps(_convert(job)), flush=True)


def _convert(job: dict[str, Any]) -> dict[str, Any]:
    from advisor.runs.datasets import convert_dataset

    target = Path(job["target"])
    shutil.rmtree(target, ignore_errors=True)
    try:
        done = convert_dataset(
            Path(job["source"]),
            "lmdb",
            target,
            shorter_edge=None,
            quality=None,
            processes=job["processes"],
            progress=lambda _made, _all: None,
        )
        return {
            "samples": done.profile.samples,
            "seconds": done.seconds,
            "written_bytes_per_sample": done.profile.bytes_per_sample,
        }
    finally:
        shutil.rmtree(target, ignore_errors=True)


if __name__ == "__main__":
    main()
