"""How well two sweeps of the same plan agree.

`python benchmarks/agreement.py FIRST.jsonl SECOND.jsonl`: two files of `advisor measurements
export --format jsonl`, as of one plan measured into two stores (`ADVISOR_DATABASE_URL`). Without
files it measures four short trials twice itself, in about three minutes. One JSON document on
stdout, progress on stderr.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from os import environ
from pathlib import Path
from typing import Any

from advisor.domain import Measurement, Status
from sweeps.formats.importing import read_file

_SWEEP = (
    "--networks", "googlenet", "--tasks", "inference,preprocessing", "--vcpus", "0.5,1",
    "--memory", "2GiB", "--disks", "unlimited", "--accelerator", "emulated:T4",
    "--executor", "process",
)  # fmt: skip


def differences(first: Sequence[Measurement], second: Sequence[Measurement]) -> dict[str, Any]:
    """Relative differences of the rates of trials that ended well in both."""
    rates = {row.trial.trial_id: row for row in first if row.status is Status.OK}
    pairs = [
        (rates[row.trial.trial_id], row)
        for row in second
        if row.status is Status.OK and row.trial.trial_id in rates
    ]
    apart = {one.trial.trial_id: _apart(one, other) for one, other in pairs}
    if not apart:
        raise SystemExit("no trial ended well in both files")
    worst = max(pairs, key=lambda pair: apart[pair[0].trial.trial_id])[0].trial
    return {
        "schema": "advisor.agreement/1",
        "trials_in_both": len(apart),
        "not_ok": sum(row.status is not Status.OK for row in (*first, *second)),
        "median_percent": round(100 * statistics.median(apart.values()), 2),
        "largest_percent": round(100 * max(apart.values()), 2),
        "over_two_percent": sum(value > 0.02 for value in apart.values()),
        "worst": {
            "network": worst.workload.network,
            "task": worst.workload.task,
            "vcpus": worst.resources.vcpus,
            "memory_mib": worst.resources.memory_mib,
            "disk": worst.resources.disk.type,
            "accelerator": str(worst.accelerator),
        },
    }


def _apart(one: Measurement, other: Measurement) -> float:
    rates = (one.throughput_samples_per_second, other.throughput_samples_per_second)
    assert rates[0] is not None
    assert rates[1] is not None
    return abs(rates[0] - rates[1]) / min(rates[0], rates[1])


def _measured(folder: Path, name: str) -> Path:
    """The short sweep, measured into a store of its own and exported."""
    store, out = folder / f"{name}.sqlite", folder / f"{name}.jsonl"
    environment = {**environ, "ADVISOR_DATABASE_URL": f"sqlite:///{store}"}
    export = ("measurements", "export", "--format", "jsonl", "--out", str(out))
    for arguments in (("sweep", "run", *_SWEEP), export):
        command = [sys.executable, "-m", "advisor", *arguments]
        subprocess.run(command, check=True, env=environment, stdout=sys.stderr)
    return out


def main() -> None:
    """Compare two files, or measure twice and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="there is no other form")
    files = parser.parse_args().files
    if len(files) not in (0, 2):
        parser.error("name two files, or none")
    with tempfile.TemporaryDirectory() as folder:
        files = files or [_measured(Path(folder), name) for name in ("first", "second")]
        first, second = (read_file(file).measurements for file in files)
        print(json.dumps(differences(first, second), indent=2))


if __name__ == "__main__":
    main()
