"""Joins what fitting needs: measurements, published rows, the zoo and the place of the model.

`python -m advisor.operations.fitting [FILE]` rebuilds the model that ships, in a checkout, from
infra/performance_sources and advisor/data/performance/measurements.jsonl. A FILE of `advisor
measurements export` replaces the latter first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.domain import Measurement
from advisor.errors import DataError
from advisor.operations.reference_cpu import reference_cpu
from models.performance import load_model, save_model
from models.performance.networks import bundled_networks
from models.zoo.networks import NETWORKS
from sweeps.serialization import measurement_from_dict, measurement_to_dict

if TYPE_CHECKING:
    from models.performance.fit import FitResult
    from models.performance.gpu_rates import GpuRates

ROOT = Path(__file__).parents[2]
BUNDLED_MEASUREMENTS = ROOT / "advisor" / "data" / "performance" / "measurements.jsonl"
PUBLISHED_FOLDER = ROOT / "infra" / "performance_sources"
_SOURCES = (
    "pytorch-gpu-benchmark by ryujaehun and elombardi2 (MIT)",
    "timm results by Hugging Face (Apache-2.0)",
    "gavel (MIT)",
    "PROFET (MIT)",
    "lambda-tensorflow-benchmark (BSD)",
    "MXNet documentation (Apache-2.0)",
    "cnn-benchmarks by jcjohnson (MIT)",
    "MLPerf Inference results (Apache-2.0)",
)


def measurements_from(path: Path) -> list[Measurement]:
    """The measurements of a JSONL file; `DataError` names a bad line."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}); export one with `advisor measurements "
                        "export --out FILE`") from error  # fmt: skip
    return [_measurement(path, i, line) for i, line in enumerate(lines, 1) if line.strip()]


def fit_user_model(measurements: Iterable[Measurement]) -> FitResult:
    """Fit the pipeline on these measurements; the GPU part stays the one that ships.

    In the order of their trials, as the bundled ones are: which one was measured first (on a
    cluster, after a crash) must not change a digit of an answer.
    """
    from models.performance.fit import fit

    shipped = load_model()
    return fit(
        sorted(measurements, key=lambda row: row.trial.trial_id),
        shipped.gpu_rates,
        bundled_networks(),
        networks=shipped.networks,
        sources=shipped.sources,
        reference_of=reference_cpu,
        accelerator_errors=dict(shipped.accelerator_errors),
    )


def rebuild_bundled_model() -> FitResult:
    """Fit everything from the rows in the checkout (about a minute)."""
    from models.performance.fit import fit

    gpu_rates, errors = fit_published_rates()
    return fit(
        measurements_from(BUNDLED_MEASUREMENTS),
        gpu_rates,
        bundled_networks(),
        networks=offered_networks(),
        sources=_SOURCES,
        reference_of=reference_cpu,
        accelerator_errors=errors,
    )


def fit_published_rates() -> tuple[GpuRates, dict[str, float]]:
    """The GPU part from the published rows in the checkout, and its held-out errors."""
    from models.performance.fit_gpu_rates import fit_gpu_rates
    from models.performance.published import read_published

    rows = read_published(PUBLISHED_FOLDER / "published.csv", PUBLISHED_FOLDER / "gpus.csv")
    return fit_gpu_rates(rows, bundled_networks(), offered_networks())


def bundle_scaling() -> None:
    """Fit how rates scale over the GPUs of a host, and make that what ships."""
    from models.performance.bundled import FOLDER
    from models.performance.fit_scaling import fit_scaling, read_scaling, scaling_document
    from models.performance.scaling import BUNDLED

    document = scaling_document(fit_scaling(read_scaling(PUBLISHED_FOLDER / "scaling.csv")))
    (FOLDER / BUNDLED).write_text(json.dumps(document) + "\n")


def offered_networks() -> tuple[str, ...]:
    """Networks of the zoo whose operations are known, so that rates can be predicted."""
    known = set(bundled_networks().names)
    return tuple(name for name in NETWORKS if name in known)


def _measurement(path: Path, number: int, line: str) -> Measurement:
    try:
        return measurement_from_dict(json.loads(line))
    except (ValueError, AttributeError, RecursionError, DataError) as error:
        raise DataError(f"{path}, line {number}: {error}") from error


def bundle_measurements(measurements: Iterable[Measurement]) -> int:
    """Make these the bundled ones, without places, host names and probes; returns how many."""
    rows = [measurement_to_dict(_anonymous(measurement)) for measurement in measurements]
    rows.sort(key=lambda row: str(row["trial_id"]))
    BUNDLED_MEASUREMENTS.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return len(rows)


def _anonymous(measurement: Measurement) -> Measurement:
    environment = {
        name: value
        for name, value in measurement.environment.items()
        if name not in ("host", "fingerprint")
    }
    trial = replace(measurement.trial, dataset_path="")
    return replace(measurement, trial=trial, environment=environment, attempts=())


def main(arguments: Sequence[str]) -> None:
    """Rebuild the bundled model, from the measurements in a file where one is named."""
    from models.performance.bundled import seal
    from models.performance.persistence import BUNDLED_PATH

    for file in arguments:
        count = bundle_measurements(measurements_from(Path(file)))
        sys.stderr.write(f"{BUNDLED_MEASUREMENTS}: {count} measurements\n")
    bundle_scaling()
    seal()
    result = rebuild_bundled_model()
    save_model(result.model, BUNDLED_PATH)
    seal()
    sys.stderr.write(f"{BUNDLED_PATH}: {result.model.trained_on}; held-out median error "
                     f"{result.model.error_percent:.1f} %\n")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
