"""How long a person waits for `advisor recommend`, as a ratio to Python with its libraries alone.

Four commands run cold (a new process each), in turn, so that a busy neighbour hits all of them:
Python that imports click, msgspec, numpy and json, the default request, one over all offers of all
clouds, and one about serving a language model over all of them. Time is CPU time, user and
system, which neighbours disturb less than a clock; the ratio of clock times is printed beside it.
Memory is the peak resident set of the process.
    python benchmarks/startup.py --json
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# As users call it, where it is installed; through the module in a bare checkout.
SCRIPT = Path(sys.executable).with_name("advisor")
COMMAND = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "advisor"]
QUESTION = ["recommend", "--task", "inference", "--model", "googlenet"]
GENERATION = (
    "recommend --task generation --model meta-llama/Llama-3.1-8B --target-requests-per-s 4 "
    "--max-ttft-ms 800 --cloud any -o json"
)
BASELINE = "baseline"
COMMANDS: Mapping[str, Sequence[str]] = {
    BASELINE: [sys.executable, "-c", "import click, msgspec, numpy, json"],
    "default": [*COMMAND, *QUESTION, "--target-throughput", "500"],
    "all_clouds": [*COMMAND, *QUESTION, "--target-throughput", "500", "--cloud", "any", "-o", "json"],
    "generation": [*COMMAND, *shlex.split(GENERATION)],
}
# Times the baseline: the default request, and one over all offers of all clouds.
AIM = 2.5
AIM_ALL_CLOUDS = 2.5
# Of one answer about a language model over all offers of all clouds.
AIM_GENERATION_SECONDS = 0.5
AIM_MIB = 80.0


class Run(NamedTuple):
    """What one process took."""

    cpu_seconds: float
    seconds: float
    peak_mib: float


def run(command: Sequence[str]) -> Run:
    """One run of a command that must succeed, its .pyc files kept as in an installation."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    # Linux tells KiB.
    return Run(usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / 1024)


def figures(rounds: Sequence[Mapping[str, Run]], name: str) -> dict[str, float]:
    """Medians of one command; ratios are those of a round, to the baseline's run in it."""
    pairs = [(one[name], one[BASELINE]) for one in rounds]
    return {
        "cpu_seconds": statistics.median(ours.cpu_seconds for ours, _ in pairs),
        "seconds": statistics.median(ours.seconds for ours, _ in pairs),
        "peak_mib": max(ours.peak_mib for ours, _ in pairs),
        "ratio": statistics.median(ours.cpu_seconds / base.cpu_seconds for ours, base in pairs),
        "clock_ratio": statistics.median(ours.seconds / base.seconds for ours, base in pairs),
    }


def main() -> None:
    """Print what each command takes, as one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document (always so)")
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    for command in COMMANDS.values():
        run(command)  # the first run reads the files from disk, and compiles them
    rounds = [{name: run(command) for name, command in COMMANDS.items()} for _ in range(arguments.runs)]
    document = {
        "benchmark": "startup",
        "runs": arguments.runs,
        "command": COMMAND,
        **{name: figures(rounds, name) for name in COMMANDS},
        "aim": AIM,
        "aim_all_clouds": AIM_ALL_CLOUDS,
        "aim_generation_seconds": AIM_GENERATION_SECONDS,
        "aim_mib": AIM_MIB,
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
