"""How well two sweeps of the same plan agree: two exports, or a short sweep of twelve trials
measured twice into stores of its own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from os import environ
from pathlib import Path
from typing import Any

from advisor.domain import Measurement, Status
from advisor.sweeps.datasets.making import ensure_dataset
from advisor.sweeps.formats.files import read_file
from advisor.sweeps.quality.rates import rate_interval
from benchmarks.rates.coverage import between_runs

_SWEEP = (
    "--networks",
    "alexnet,googlenet,resnet50",
    "--tasks",
    "inference,training",
    "--vcpus",
    "0.5,1",
    "--memory",
    "2GiB",
    "--disks",
    "unlimited",
    "--accelerator",
    "emulated:T4",
    "--executor",
    "process",
)
_SAMPLES = 2000


def figures(files: Sequence[Path], options: Sequence[str]) -> dict[str, Any]:
    """Of two files, or of what is measured now with further `options` of `advisor sweep run`."""
    with tempfile.TemporaryDirectory() as folder:
        files = files or [_measured(Path(folder), name, options) for name in ("first", "second")]
        first, second = (read_file(file).measurements for file in files)
        return differences(first, second)


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
        "trials_in_both": len(apart),
        "not_ok": sum(row.status is not Status.OK for row in (*first, *second)),
        "median_percent": round(100 * statistics.median(apart.values()), 2),
        "largest_percent": round(100 * max(apart.values()), 2),
        "over_two_percent": sum(value > 0.02 for value in apart.values()),
        "interval_holds_the_other": round(statistics.fmean(_holds(*pair) for pair in pairs), 3),
        "median_interval_half_width_percent": _median_half_width_percent(first),
        "between_runs": between_runs(pairs),
        "worst": {
            "network": worst.workload.network,
            "task": worst.workload.task,
            "vcpus": worst.resources.vcpus,
            "memory_mib": worst.resources.memory_mib,
            "disk": worst.resources.disk.type,
            "accelerator": str(worst.accelerator),
        },
    }


def _holds(one: Measurement, other: Measurement) -> bool:
    """Whether the second rate lies where the first sweep expects its next run."""
    interval, rate = rate_interval(one), other.throughput_samples_per_second
    return interval is not None and rate is not None and interval.lower <= rate <= interval.upper


def _median_half_width_percent(rows: Sequence[Measurement]) -> float | None:
    """How wide the intervals are that hold the other sweep, over their rate."""
    widths = [
        (interval.upper - interval.lower) / (interval.upper + interval.lower)
        for interval in map(rate_interval, rows)
        if interval is not None
    ]
    return round(100 * statistics.median(widths), 2) if widths else None


def _apart(one: Measurement, other: Measurement) -> float:
    rates = (one.throughput_samples_per_second, other.throughput_samples_per_second)
    assert rates[0] is not None
    assert rates[1] is not None
    return abs(rates[0] - rates[1]) / min(rates[0], rates[1])


def _measured(folder: Path, name: str, options: Sequence[str]) -> Path:
    """The short sweep, measured into a store of its own and exported."""
    store, out = folder / f"{name}.sqlite", folder / f"{name}.jsonl"
    data, _ = ensure_dataset(_SAMPLES)
    environment = {**environ, "ADVISOR_DATABASE_URL": f"sqlite:///{store}"}
    export = ("measurements", "export", "--format", "jsonl", "--out", str(out))
    for arguments in (("sweep", "run", *_SWEEP, "--data", str(data), *options), export):
        command = [sys.executable, "-m", "advisor", *arguments]
        # A sweep that has spoiled trials says so by its exit code; the others are compared.
        check = arguments is export
        subprocess.run(command, check=check, env=environment, stdout=sys.stderr)
    return out
