"""Fits the predictor on a user's own measurements; `benchmarks.bundled_model` fits what ships."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.catalog.gpus import sheet_of
from advisor.catalog.instances import plain_cpu_name
from advisor.domain import Gpu, Measurement, Observation, Status
from advisor.errors import DataError, UsageError
from advisor.models.bundled import FOLDER
from advisor.models.performance import PerformanceModel, load_model
from advisor.models.performance.gpu_observations import ProbedLayer, layers_of
from advisor.models.performance.machines import ReferenceCpu
from advisor.models.performance.networks import NetworkTable, bundled_networks
from advisor.models.performance.own_networks import fastest_seconds
from advisor.sweeps.anchors.observing import observed
from advisor.sweeps.formats.serialization import measurement_from_dict
from advisor.sweeps.quality.issues import refusal

if TYPE_CHECKING:
    from advisor.models.performance.fit import FitResult, TakenSteps


def measurements_from(path: Path) -> list[Measurement]:
    """The measurements of a JSONL file; `DataError` names a bad line."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            "{path} cannot be read ({error})",
            path=path,
            error=error,
            hint="export one with `advisor measurements export --out FILE`",
        ) from error
    measurements = []
    for number, line in enumerate(lines, 1):
        try:
            measurements += [measurement_from_dict(json.loads(line))] if line.strip() else []
        except (ValueError, AttributeError, RecursionError, DataError) as error:
            raise DataError(
                "{path}, line {number}: {error}", path=path, number=number, error=error
            ) from error
    return measurements


def fit_user_model(
    measurements: Iterable[Measurement], fingerprints: Iterable[Mapping[str, Any]] = ()
) -> FitResult:
    """Condition host, storage and join as they ship on these measurements, and the step times that ship on
    what they and the `fingerprints` of probes tell of GPUs.

    In the order of their trials, as the bundled ones are: which one was measured first (on a cluster, after a
    crash) must not change a digit of an answer. Where GPUs are told of by too few measurements for a
    pipeline, the one that ships is kept. Raises `DataError` where nothing can be learnt."""
    from advisor.models.performance.fit import conditioned, fit, kept_pipeline  # loads scikit-learn

    shipped = load_model()
    rows = sorted(measurements, key=lambda row: row.trial.trial_id)
    gpu = _taken_steps(rows, fingerprints, shipped)
    sound = sound_rows(rows)
    try:
        result = fit(
            sound,
            shipped.step_times,
            bundled_networks(),
            sources=shipped.sources,
            cpu_of=reference_cpu,
            shipped=shipped,
            shipped_rows=shipped_rows(),
        )
    except DataError as too_few:
        if gpu.observations.is_empty:
            raise
        result = kept_pipeline(shipped, sound, too_few)
    refused = Counter(reason for row in rows if (reason := refusal(row)))
    result = replace(result, left_out=tuple(sorted((*result.left_out, *refused.items()))))
    return conditioned(result, gpu, shipped.step_times)


@cache
def shipped_rows() -> tuple[Measurement, ...]:
    """The trials that the model which ships was fitted on."""
    rows = measurements_from(FOLDER / "measurements.jsonl")
    return tuple(row for row in rows if row.status is Status.OK)


def sound_rows(rows: Iterable[Measurement]) -> list[Measurement]:
    """Without those that say nothing of the GPU that they name: it was shared, or held back."""
    return [row for row in rows if not refusal(row)]


def _taken_steps(
    rows: Sequence[Measurement], fingerprints: Iterable[Mapping[str, Any]], shipped: PerformanceModel
) -> TakenSteps:
    from advisor.models.performance.fit import taken_steps

    sheets, table = load_catalog().gpus, shipped.table
    steps: list[Observation] = []
    left_out = Counter[str]()
    on_gpus = [row for row in rows if row.trial.accelerator.is_gpu]
    for row in on_gpus:
        observation = observed(row, "", partial(sheet_of, sheets=sheets))
        reason = _why_not(observation, table) if isinstance(observation, Observation) else observation.reason
        if isinstance(observation, Observation) and not reason:
            steps.append(observation)
        else:
            left_out[reason] += 1
    kept = [row.environment.get("fingerprint") for row in on_gpus]
    layers = list(_layers([*kept, *fingerprints], sheets))
    return taken_steps(steps, layers, shipped.step_times, table, left_out)


def _why_not(observation: Observation, table: NetworkTable) -> str:
    """Why an observation tells nothing; empty where it does."""
    workload = observation.workload
    try:
        operations = table.of(workload).kernels[workload.task]
    except (UsageError, KeyError):
        return f"what {workload.network} computes is not known to the model"
    least = fastest_seconds(operations, workload.precision, observation.gpu, workload.batch_size)
    return "it is faster than its GPU can compute" if observation.seconds < least else ""


def _layers(fingerprints: Iterable[Any], sheets: Mapping[str, Gpu]) -> Iterator[ProbedLayer]:
    """The layer timings of each probe, once; each is stored with every trial that was measured after it."""
    probes = {
        (probe.get("probed_at"), names[0]): probe
        for probe in fingerprints
        if isinstance(probe, dict) and isinstance(names := probe.get("gpus"), list) and names
        if isinstance(names[0], str)
    }
    for (_, name), probe in sorted(probes.items(), key=str):
        with suppress(UsageError):
            yield from layers_of(probe, sheet_of(name, sheets))


# Log standard deviation of carrying rates to another CPU of the same architecture by the ratio of PassMark's
# single-thread marks: how far its other mark strays from that ratio (benchmarks/ vcpu_truth,
# internals/processors.md). Judgement where the CPU has no mark.
KNOWN_SIGMA = 0.10
UNKNOWN_SIGMA = 0.30
# What the kernel calls it, and what clouds do.
_ARCHITECTURES = {"aarch64": "arm64", "AMD64": "x86_64"}

# Cloud hypervisors hide some names. "AMD EPYC" with AVX-512 is Zen 4 in family 25, the generation of AWS m7a
# (EPYC 9R14), and Zen 5 in family 26, that of m8a (EPYC 9R45).
_HIDDEN = {("AMD EPYC", "25"): "AMD EPYC 9R14", ("AMD EPYC", "26"): "AMD EPYC 9R45"}
_AS_BUNDLED = "AMD EPYC 9R14"


def reference_cpu(measurement: Measurement) -> ReferenceCpu:
    """The mark of the CPU a trial ran on: from the catalogue's servers with a CPU of that name. A CPU that
    nobody scored counts as fast as the one of the bundled sweep, and its rates are carried to other CPUs with
    the doubt that this deserves."""
    environment, scores = measurement.environment, _scores()
    kernel = str(environment.get("architecture") or "x86_64")
    architecture = _ARCHITECTURES.get(kernel, kernel)
    given = str(environment.get("cpu_model", ""))
    hidden = _HIDDEN.get((given, str(environment.get("cpu_family"))))
    name = hidden if hidden and "avx512f" in environment.get("cpu_flags", ()) else plain_cpu_name(given)
    score, sigma = scores.get(name, scores[_AS_BUNDLED]), KNOWN_SIGMA if name in scores else UNKNOWN_SIGMA
    return ReferenceCpu(score=score, sigma=sigma, architecture=architecture, model=name)


@cache  # an adaptive sweep asks after each trial, and it takes a look at every type
def _scores() -> Mapping[str, float]:
    """Median mark of the catalogue's servers, by the name of their CPU."""
    marks = defaultdict[str, list[float]](list)
    for instance in load_catalog().instances():
        if instance.cpu.single_thread_score:
            marks[instance.cpu.model].append(instance.cpu.single_thread_score)
    return {name: round(statistics.median(each), 1) for name, each in marks.items()}
