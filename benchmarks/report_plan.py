"""How long a team's plan takes as a report: fifty different workloads, by format.

The real command runs cold, once a format. Workloads differ in network, task, precision, target,
region or limits, so that no two share what is prepared. Aim: HTML in 20 s on two cores.
    python benchmarks/report_plan.py --json [--workloads 50] [--formats html,json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

AIM_SECONDS = 20.0
AIM_BYTES = 1.5e6
SCRIPT = Path(sys.executable).with_name("advisor")
COMMAND = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "advisor.cli.main"]
NETWORKS = ("googlenet", "resnet50", "vgg16", "alexnet", "inception_v3")
KINDS = (
    ("inference", "fp32", 400),
    ("inference", "amp", 900),
    ("training", "fp32", 120),
    ("training", "amp", 250),
    ("preprocessing", "fp32", 1500),
)
PLACES = ("us-east-1", "eu-west-1")


def workloads() -> Iterator[dict[str, Any]]:
    """Different ones: five networks, five kinds of work, two regions; then by confidence."""
    for confidence in (0.9, 0.95, 0.8, 0.85):
        for region, network, (task, precision, target) in product(PLACES, NETWORKS, KINDS):
            yield {
                "task": task,
                "model": network,
                "precision": precision,
                "region": region,
                "target_throughput": target,
                "confidence": confidence,
            }


def plan_text(count: int) -> str:
    """A plan of so many; JSON is YAML."""
    return json.dumps({"title": "Benchmark", "workloads": list(islice(workloads(), count))})


def timed(plan: Path, name: str, folder: Path) -> dict[str, float]:
    """Seconds by the clock and of all CPUs, and the file's size; the command must succeed."""
    out = folder / f"report.{name}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    command = [*COMMAND, "report", "--plan", str(plan), "--date", "2026-11-22", "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu_seconds": cpu, "bytes": out.stat().st_size}


def main() -> None:
    """Print what each format takes, as one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document (always so)")
    parser.add_argument("--workloads", type=int, default=50)
    parser.add_argument("--formats", default="json,csv,md,html")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = folder / "plan.yaml"
        plan.write_text(plan_text(arguments.workloads))
        formats = {one: timed(plan, one, folder) for one in arguments.formats.split(",")}
    document = {
        "benchmark": "report_plan",
        "workloads": arguments.workloads,
        "cpus": len(os.sched_getaffinity(0)),
        "formats": formats,
        "aim_seconds": AIM_SECONDS,
        "aim_html_bytes": AIM_BYTES,
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
