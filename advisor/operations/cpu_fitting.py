"""Fits how fast CPUs compute networks: `python -m advisor.operations.cpu_fitting`.

The rows are infra/cpu_steps/measurements.jsonl, made by `python -m sweeps.campaign cpu --brief` and
`--bundle FILE ...` (without places, host names and what each row repeats); the result is
advisor/data/performance/cpu_rates.json. `--check` says whether that file is what the rows give.
`--held-out` prints the errors of every form about networks that were left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.domain import Measurement, Precision, Status, Task
from advisor.domain.steps import typical_step_seconds
from advisor.errors import DataError
from advisor.operations.fitting import BUNDLED_MEASUREMENTS, ROOT, measurements_from
from advisor.operations.reference_cpu import reference_cpu
from models.performance.bundled import FOLDER, seal
from models.performance.cpu.fitting import held_out_batches, held_out_families
from models.performance.cpu.form import FORMS
from models.performance.cpu.rates import BUNDLED, fit_cpu_rates, to_document
from models.performance.cpu.records import CpuRow
from models.performance.evaluation import summary_of
from models.performance.networks import bundled_networks
from models.performance.usable import measured_cpu_rate
from sweeps.serialization import measurement_to_dict

ROWS = ROOT / "infra" / "cpu_steps" / "measurements.jsonl"
_DROPPED = ("host", "fingerprint", "gpu_peak_allocated_mib", "gpu_peak_reserved_mib", "gpu")
_FILE_OF_CLASSIFIERS = "infra/cpu_steps/classifiers.py:"
_MOST_STEPS = 12


def cpu_rows(measurements: Iterable[Measurement]) -> list[CpuRow]:
    """Steps that ended well, of networks whose operations are known, in fp32."""
    table = set(bundled_networks().names)
    return [
        CpuRow(
            network=one.trial.workload.network,
            task=one.trial.workload.task,
            batch_size=one.trial.workload.batch_size,
            cores=min(one.trial.resources.vcpus, one.trial.resources.physical_cores),
            seconds=typical_step_seconds(one.step_seconds),
        )
        for one in measurements
        if one.status is Status.OK
        and one.trial.workload.precision is Precision.FP32
        and one.trial.workload.network in table
    ]


def bundle(files: Sequence[Path]) -> int:
    """Make the campaigns' rows the ones in the checkout; returns how many."""
    found = {one.trial.trial_id: one for file in files for one in measurements_from(file)}
    kept = [_compact(one) for one in found.values() if one.status is Status.OK]
    rows = sorted((measurement_to_dict(one) for one in kept), key=lambda row: str(row["trial_id"]))
    ROWS.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    return len(rows)


def rebuilt() -> dict[str, Any]:
    """The document that the rows in the checkout give."""
    measurements = measurements_from(ROWS)
    reference = reference_cpu(measurements[0])
    return to_document(fit_cpu_rates(all_rows(measurements), bundled_networks(), reference))


def held_out_errors() -> dict[str, Any]:
    """By form: errors in per cent with a family of networks, and with a batch size, left out."""
    rows, table = all_rows(measurements_from(ROWS)), bundled_networks()
    return {
        name: {
            "family": summary_of(held_out_families(rows, table, form)),
            "batch": summary_of(held_out_batches(rows, table, form)),
        }
        for name, form in FORMS.items()
    }


def all_rows(measurements: Sequence[Measurement]) -> list[CpuRow]:
    """Those of the campaigns, and what the bundled sweep measured of networks on whole cores."""
    return cpu_rows(measurements) + _of_sweep(measurements_from(BUNDLED_MEASUREMENTS))


def _of_sweep(measurements: Iterable[Measurement]) -> list[CpuRow]:
    found: dict[tuple[str, Task, int, float], list[float]] = {}
    for one in measurements:
        rate, workload, cores = (
            measured_cpu_rate(one),
            one.trial.workload,
            one.trial.resources.vcpus,
        )
        if rate is not None and one.status is Status.OK and cores >= 1:
            key = (workload.network, workload.task, workload.batch_size, cores)
            found.setdefault(key, []).append(workload.batch_size / rate)
    return [CpuRow(*key, statistics.median(seconds)) for key, seconds in found.items()]


def _compact(one: Measurement) -> Measurement:
    """Without places and names of hosts, and with as many steps as tell their spread."""
    environment = {name: value for name, value in one.environment.items() if name not in _DROPPED}
    network = one.trial.workload.network.removeprefix(_FILE_OF_CLASSIFIERS)
    trial = replace(one.trial, workload=replace(one.trial.workload, network=network))
    steps = tuple(round(seconds, 6) for seconds in one.step_seconds[-_MOST_STEPS:])
    return replace(
        one, trial=trial, step_seconds=steps, warmup_step_seconds=(), environment=environment
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, check or judge; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", nargs="+", type=Path, metavar="FILE", help="rows to keep first")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where it differs")
    parser.add_argument("--held-out", action="store_true", help="print errors of all forms")
    options = parser.parse_args(arguments)
    if options.held_out:
        sys.stdout.write(json.dumps(held_out_errors(), indent=2) + "\n")
        return 0
    if options.bundle:
        sys.stdout.write(f"{bundle(options.bundle)} rows kept\n")
    text = json.dumps(rebuilt(), indent=1) + "\n"
    path = FOLDER / BUNDLED
    if options.check:
        if not path.exists() or path.read_text() != text:
            raise DataError(f"{path} is not what {ROWS} gives: build it without --check")
        return 0
    path.write_text(text)
    seal()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
