"""How long a person waits for `advisor recommend`, as a ratio to Python with its libraries alone.

Both commands run cold (a new process each), interleaved, so that a busy neighbour hits both.
    python benchmarks/startup.py --json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

BASELINE = [sys.executable, "-c", "import click, numpy, json"]
QUESTION = ["recommend", "--task", "inference", "--model", "googlenet"]
# As users call it, where it is installed; through the module in a bare checkout.
SCRIPT = Path(sys.executable).with_name("advisor")
COMMAND = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "advisor"]
RECOMMEND = [*COMMAND, *QUESTION, "--target-throughput", "500"]
AIM = 2.5


def seconds(command: list[str]) -> float:
    """Wall seconds of one run of a command that must succeed."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document (always so)")
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    seconds(BASELINE), seconds(RECOMMEND)  # the first run reads the files from disk
    pairs = [(seconds(BASELINE), seconds(RECOMMEND)) for _ in range(arguments.runs)]
    baseline, recommend = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        json.dumps(
            {
                "benchmark": "startup",
                "runs": arguments.runs,
                "baseline_seconds": baseline,
                "recommend_seconds": recommend,
                "ratio": statistics.median(slow / fast for fast, slow in pairs),
                "aim": AIM,
            }
        )
    )


if __name__ == "__main__":
    main()
