"""Rebuilds the bundled model in a checkout: `python -m advisor.infra.build.fitting.bundled_model [FILE]`.

Reads infra/build/performance_sources and advisor/data/performance/measurements.jsonl. If FILE (from `advisor
measurements export`) is given, it replaces the latter first."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from advisor.domain import Measurement
from advisor.models.performance import save_model
from advisor.models.performance.networks import bundled_networks
from advisor.runs.fitting import measurements_from, reference_cpu
from advisor.sweeps.formats import measurement_to_dict

if TYPE_CHECKING:
    from advisor.models.performance.fit import FitResult
    from advisor.models.performance.step_times import StepTimes

ROOT = Path(__file__).resolve().parents[3]
BUNDLED_MEASUREMENTS = ROOT / "advisor" / "data" / "performance" / "measurements.jsonl"
PUBLISHED_FOLDER = ROOT / "infra/build/performance_sources"
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


def rebuild_bundled_model() -> FitResult:
    """Fit the pipeline on the rows in the checkout (about a minute)."""
    from advisor.models.performance.fit import fit, with_id
    from advisor.models.performance.persistence import bundled_step_times

    result = fit(
        measurements_from(BUNDLED_MEASUREMENTS),
        bundled_step_times(),
        bundled_networks(),
        sources=_SOURCES,
        cpu_of=reference_cpu,
    )
    # The CPU step times that ship were fitted on these measurements already.
    pipeline = replace(result.model.pipeline, cpu_steps=())
    return replace(result, model=with_id(replace(result.model, pipeline=pipeline)))


def rebuild_step_times() -> StepTimes:
    """Fit GPU step times on the measured rows in the checkout, and calibrate their intervals.

    Takes some minutes: for calibration, the model is refitted without the rows that are scored."""
    from advisor.infra.build.fitting.observations import kernel_frame, observation_frame
    from advisor.infra.build.fitting.step_times import StepTimeRegressor

    rows = observation_frame(PUBLISHED_FOLDER)
    model = StepTimeRegressor(kernels=kernel_frame(PUBLISHED_FOLDER)).fit(rows, rows["step_seconds"])
    unknown = model.unknown_
    sys.stderr.write(
        f"not used: {sum(unknown.networks.values())} rows of {len(unknown.networks)} networks and "
        f"{sum(unknown.gpus.values())} of {len(unknown.gpus)} GPUs that no table has\n"
    )
    return model.step_times_


def bundle_scaling() -> None:
    """Fit how rates scale over the GPUs of a host, and write the result to the bundled file."""
    from advisor.infra.build.fitting.scaling import fit_scaling, read_scaling, scaling_document
    from advisor.models.bundled import FOLDER
    from advisor.models.performance.scaling import BUNDLED

    document = scaling_document(fit_scaling(read_scaling(PUBLISHED_FOLDER / "scaling.csv")))
    (FOLDER / BUNDLED).write_text(json.dumps(document) + "\n")


def write_measurements(path: Path, measurements: Iterable[Measurement]) -> int:
    """Write measurements to the file, sorted by trial; returns how many."""
    rows = sorted(map(measurement_to_dict, measurements), key=lambda row: str(row["trial_id"]))
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    return len(rows)


def _anonymous(measurement: Measurement) -> Measurement:
    """The measurement without places, host names and probes."""
    environment = {
        name: value for name, value in measurement.environment.items() if name not in ("host", "fingerprint")
    }
    trial = replace(measurement.trial, dataset_path="")
    return replace(measurement, trial=trial, environment=environment, attempts=())


def main(arguments: Sequence[str]) -> None:
    """Rebuild the bundled model, from the measurements in a file if one is named."""
    from advisor.infra.build.fitting.files import seal
    from advisor.models.performance.persistence import BUNDLED_PATH

    for file in arguments:
        count = write_measurements(BUNDLED_MEASUREMENTS, map(_anonymous, measurements_from(Path(file))))
        sys.stderr.write(f"{BUNDLED_MEASUREMENTS}: {count} measurements\n")
    from advisor.infra.build.fitting.files import write_step_times
    from advisor.models.performance.persistence import STEP_TIMES_FILE

    bundle_scaling()
    write_step_times(rebuild_step_times(), STEP_TIMES_FILE)
    seal()
    result = rebuild_bundled_model()
    save_model(result.model, BUNDLED_PATH)
    seal()
    sys.stderr.write(
        f"{BUNDLED_PATH}: {result.model.trained_on}; held-out median error "
        f"{result.model.error_percent:.1f} %\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
