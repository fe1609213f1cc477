"""Fits the predictor on a user's measurements; after a scheduled sweep, keeps the new model or the last one.

Both models are scored on the run's measurements, by five-fold cross-validation: each is fitted again without
a fifth of them, the last model on what the store held before the run, the new one on what it holds now. A
last model that was not fitted on the store's earlier rows (it ships, or came from a file) is scored as it is,
and `last_is_held_out` is false."""

from __future__ import annotations

import math
import shutil
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.catalog.gpus import sheet_of
from advisor.catalog.instances import plain_cpu_name
from advisor.domain import Gpu, Measurement, Observation, Status
from advisor.errors import DataError, UsageError
from advisor.files import own_model_path, user_folder
from advisor.models.bundled import FOLDER
from advisor.models.performance import PerformanceModel, load_model, save_model
from advisor.models.performance.gpu_observations import ProbedLayer, layers_of
from advisor.models.performance.machines import ReferenceCpu
from advisor.models.performance.networks import NetworkTable, bundled_networks
from advisor.models.performance.step_times import fastest_seconds
from advisor.models.performance.usable import sort_out
from advisor.runs.probing import kept_fingerprints
from advisor.sweeps.anchors import observed
from advisor.sweeps.formats import read_file
from advisor.sweeps.quality.issues import is_stale, refusal
from advisor.sweeps.quality.rates import rate_interval
from advisor.sweeps.trial.formatting import trial_name

if TYPE_CHECKING:
    from advisor.models.bayes import Floats
    from advisor.models.performance.fit import FitResult, TakenSteps


def measurements_from(path: Path) -> list[Measurement]:
    """The measurements in a JSONL file; `DataError` names a bad line."""
    read = read_file(path)
    for refused in read.refused:
        raise DataError(f"{path}, line {refused.line}: {refused.reason}")
    return list(read.measurements)


def fit_user_model(
    measurements: Iterable[Measurement], fingerprints: Iterable[Mapping[str, Any]] = ()
) -> FitResult:
    """The bundled model conditioned on measurements and `fingerprints` of probes: host, storage, join and
    step times.

    Rows are sorted by trial, so that the result does not depend on the order of measuring. With too few rows
    the bundled pipeline is kept. `DataError` where nothing can be learnt."""
    from advisor.models.performance.fit import conditioned, fit, kept_pipeline  # loads scikit-learn

    shipped = load_model()
    rows = sorted(measurements, key=lambda row: row.trial.trial_id)
    gpu = _taken_steps(rows, fingerprints, shipped)
    sound = [row for row in rows if not refusal(row)]  # their GPU was neither shared nor throttled
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
        if not any(gpu.observations):
            raise
        result = kept_pipeline(shipped, sound, too_few)
    refused = Counter(reason for row in rows if (reason := refusal(row)))
    result = replace(result, left_out=tuple(sorted((*result.left_out, *refused.items()))))
    return conditioned(result, gpu, shipped.step_times)


@cache
def shipped_rows() -> tuple[Measurement, ...]:
    """The OK measurements on which the bundled model was fitted."""
    return tuple(row for row in measurements_from(FOLDER / "measurements.jsonl") if row.status is Status.OK)


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
        reason = _defect(observation, table) if isinstance(observation, Observation) else observation.reason
        if isinstance(observation, Observation) and not reason:
            steps.append(observation)
        else:
            left_out[reason] += 1
    kept = [row.environment.get("fingerprint") for row in on_gpus]
    layers = list(_layers([*kept, *fingerprints], sheets))
    return taken_steps(steps, layers, shipped.step_times, table, left_out)


def _defect(observation: Observation, table: NetworkTable) -> str:
    """The reason why nothing can be learnt from an observation; empty if it is usable."""
    workload = observation.workload
    try:
        least = fastest_seconds(observation, table.of(workload))
    except (UsageError, KeyError):
        return f"what {workload.network} computes is not known to the model"
    return "it is faster than its GPU can compute" if observation.seconds < least else ""


def _layers(fingerprints: Iterable[Any], sheets: Mapping[str, Gpu]) -> Iterator[ProbedLayer]:
    """The layer timings of each probe, once, though every later trial has stored a copy."""
    probes = {
        (probe.get("probed_at"), names[0]): probe
        for probe in fingerprints
        if isinstance(probe, dict) and isinstance(names := probe.get("gpus"), list) and names
        if isinstance(names[0], str)
    }
    for (_, name), probe in sorted(probes.items(), key=str):
        with suppress(UsageError):
            yield from layers_of(probe, sheet_of(name, sheets))


# Log standard deviation of rates translated to another CPU of the same architecture by the ratio of
# PassMark's single-thread marks: how far the multi-thread marks deviate from that ratio (benchmarks/
# vcpu_truth, internals/processors.md). For a CPU without a mark it is a judgement.
KNOWN_SIGMA = 0.10
UNKNOWN_SIGMA = 0.30
# The kernel's names of architectures -> the catalogue's.
_ARCHITECTURES = {"aarch64": "arm64", "AMD64": "x86_64"}

# Cloud hypervisors hide some names. "AMD EPYC" with AVX-512 is Zen 4 in family 25, the generation of AWS m7a
# (EPYC 9R14), and Zen 5 in family 26, that of m8a (EPYC 9R45).
_HIDDEN = {("AMD EPYC", "25"): "AMD EPYC 9R14", ("AMD EPYC", "26"): "AMD EPYC 9R45"}
_AS_BUNDLED = "AMD EPYC 9R14"


def reference_cpu(measurement: Measurement) -> ReferenceCpu:
    """The CPU on which a trial ran, with its mark."""
    return cpu_of_machine(measurement.environment)


def cpu_of_machine(environment: Mapping[str, Any]) -> ReferenceCpu:
    """A machine's CPU with its mark in the catalogue. A CPU without a mark gets that of the bundled sweep's
    CPU, and the larger `UNKNOWN_SIGMA`."""
    scores, kernel = _scores(), str(environment.get("architecture") or "x86_64")
    given = str(environment.get("cpu_model", ""))
    hidden = _HIDDEN.get((given, str(environment.get("cpu_family"))))
    name = hidden if hidden and "avx512f" in environment.get("cpu_flags", ()) else plain_cpu_name(given)
    return ReferenceCpu(
        score=scores.get(name, scores[_AS_BUNDLED]),
        sigma=KNOWN_SIGMA if name in scores else UNKNOWN_SIGMA,
        architecture=_ARCHITECTURES.get(kernel, kernel),
        model=name,
    )


@cache  # it goes through every instance type, and an adaptive sweep needs it after each trial
def _scores() -> Mapping[str, float]:
    """Median single-thread mark of the catalogue's instances, by CPU name."""
    marks = defaultdict[str, list[float]](list)
    for instance in load_catalog().instances():
        if instance.cpu.single_thread_score:
            marks[instance.cpu.model].append(instance.cpu.single_thread_score)
    return {name: round(statistics.median(each), 1) for name, each in marks.items()}


# Facts of a machine that may explain a changed rate, besides the package versions in `versions`.
_EXPLAINING = ("gpu", "cpu_model", "kernel", "python", "driver", "host")
_CONFIDENCE = 0.9
_MOST_SHIFTS = 20


def after_sweep(since: float) -> dict[str, Any]:
    """Keep the better model (`fit`), and report the `drift` of rows that began at or after `since` (seconds
    since 1970); empty without such rows. Bad rows raise nothing."""
    from advisor.store.measurements import open_store  # loads SQLAlchemy

    with closing(open_store(reading=True)) as store:
        now, earlier = store.read().measurements, store.earlier()
    before, fresh = split_rows(now, earlier, since)
    if not fresh:
        return {}
    outside = None
    try:
        fit, outside = _refitted(now, before, fresh)
    except DataError as error:
        fit = {"kept": "last", "why": str(error)}
    return {"fit": fit, "drift": {**drift_between(fresh, before), "last_model": outside}}


def split_rows(
    now: Sequence[Measurement], earlier: Sequence[Measurement], since: float
) -> tuple[list[Measurement], list[Measurement]]:
    """The rows as they were before a run that began at `since`, and the rows that it measured."""
    fresh = [row for row in now if is_fresh(row, since)]
    names = {row.trial.trial_id for row in fresh}
    replaced = {
        row.trial.trial_id: row
        for row in earlier
        if row.trial.trial_id in names and row.status is Status.OK and not is_fresh(row, since)
    }
    return [*(row for row in now if row.trial.trial_id not in names), *replaced.values()], fresh


def is_fresh(row: Measurement, since_seconds: float) -> bool:
    """True if the row was measured at or after that time (seconds since 1970)."""
    return not is_stale(row.started_at, datetime.fromtimestamp(since_seconds, UTC))


def drift_between(fresh: Iterable[Measurement], earlier: Sequence[Measurement]) -> dict[str, Any]:
    """Changes of fresh rates against the latest earlier ones of the same trials, for JSON.

    A pair is beyond its interval where each rate lies outside of the other's interval for a next run. The
    document lists the largest shifts, and which machine facts and versions changed."""
    latest = {row.trial.trial_id: row for row in earlier if row.status is Status.OK}
    good = [row for row in fresh if row.status is Status.OK and row.trial.trial_id in latest]
    changes: list[float] = []
    beyond: list[dict[str, Any]] = []
    changed: dict[str, None] = {}
    for now in good:
        before = latest[now.trial.trial_id]
        facts = _facts(now)
        changed |= {
            f"{name} {value} -> {facts[name]}": None
            for name, value in _facts(before).items()
            if facts.get(name, value) != value
        }
        old, new = rate_interval(before), rate_interval(now)
        if old is None or new is None:
            continue
        changes.append(new.rate / old.rate - 1)
        if old.lower <= new.rate <= old.upper or new.lower <= old.rate <= new.upper:
            continue
        rates = [{"lower": each.lower, "rate": each.rate, "upper": each.upper} for each in (old, new)]
        shift = {
            "trial_id": now.trial.trial_id,
            "trial": trial_name(now.trial),
            "change_percent": round(100 * changes[-1], 2),
            "before": {**rates[0], "started_at": before.started_at},
            "now": rates[1],
        }
        beyond.append(shift)
    beyond.sort(key=lambda shift: -abs(math.log(shift["now"]["rate"] / shift["before"]["rate"])))
    # The median over all trials, since a driver or a clock moves them all.
    median = math.expm1(statistics.median(map(math.log1p, changes))) if changes else None
    return {
        "compared": len(changes),
        "beyond_interval": len(beyond),
        "median_change_percent": None if median is None else round(100 * median, 2),
        "changed": list(changed),
        "trials": beyond[:_MOST_SHIFTS],
    }


def _facts(row: Measurement) -> dict[str, str]:
    environment = row.environment
    facts = {name: environment.get(name) for name in _EXPLAINING}
    versions = environment.get("versions")
    facts |= dict(versions) if isinstance(versions, Mapping) else {}
    return {name: str(value) for name, value in facts.items() if value}


def _refitted(
    now: Sequence[Measurement], before: Sequence[Measurement], fresh: Sequence[Measurement]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The result of a new fit, and how many fresh rows lie outside of the last model's intervals. `DataError`
    where nothing can be fitted or scored."""
    from advisor.models.performance.throughput import outside_interval, residuals_of, unseen_residuals

    result, last = fit_user_model(now, kept_fingerprints()), _last_model()
    if result.kept_pipeline:
        _keep_gpu_steps(result, last)
        return {"kept": "last", "why": result.kept_pipeline}, None
    table = result.model.table
    usable, names = _usable(now, table), {row.trial.trial_id for row in fresh}
    scored = [row for row in usable if row.trial.trial_id in names]
    if not scored:
        raise DataError("the run measured nothing that can be fitted, so the last model stays")
    by_last = residuals_of(last.pipeline, scored, table, reference_cpu)
    outside = {
        "rows": len(scored),
        "outside": outside_interval(by_last, last.pipeline, _CONFIDENCE),
        "expected": round(2 * (1 - _CONFIDENCE) * len(scored), 1),
        "confidence": _CONFIDENCE,
    }
    if seen := _fitted_on(last, before):
        by_last = unseen_residuals(seen, scored, table, reference_cpu, shipped_rows())
    unseen = unseen_residuals(usable, scored, table, reference_cpu, shipped_rows())
    fit = _better_kept(result, last, unseen, by_last)
    return fit | {"held_out_rows": len(scored), "last_is_held_out": bool(seen)}, outside


def _better_kept(
    result: FitResult, last: PerformanceModel, unseen: Floats, by_last: Floats
) -> dict[str, Any]:
    """Keep the model with the smaller residuals (of logarithms), the new one if they are equal."""
    from advisor.models.performance.fit import errors_of  # loads scikit-learn

    new, old = errors_of(unseen), errors_of(by_last)
    assert new is not None  # some were scored
    assert old is not None
    better, same = new.median <= old.median, result.model.id == last.id
    if not better:
        _keep_gpu_steps(result, last)
    elif not same:
        _keep(result.model)
    than = f"{'no worse' if better else 'worse'} than the last one's {old.median:.1f} %"
    trials = f"{len(unseen)} fresh trials that neither was fitted on"
    why = f"on {trials} the new one is off by {new.median:.1f} % (median), {than}"
    return {
        "kept": "new" if better else "last",
        "why": "the fit is the same as the last one" if same else why,
        "new_model": result.model.id,
        "last_model": last.id,
        "fitted": result.fitted,
        "new_error_percent": {"median": new.median, "p90": new.p90},
        "last_error_percent": {"median": old.median, "p90": old.p90},
    }


def _fitted_on(last: PerformanceModel, rows: Sequence[Measurement]) -> list[Measurement]:
    """Those of `rows` on which the last model was fitted; empty if it was fitted on others."""
    with suppress(DataError):
        if fit_user_model(rows, kept_fingerprints()).model.id == last.id:
            return _usable(rows, last.table)
    return []


def _keep_gpu_steps(result: FitResult, last: PerformanceModel) -> None:
    """Keep the last model's pipeline, but take the new measurements of GPU steps."""
    from advisor.models.performance.fit import with_gpu

    observations = result.gpu.observations
    if observations != last.gpu_observations:
        _keep(with_gpu(last, observations, load_model().step_times))


def _usable(rows: Iterable[Measurement], table: NetworkTable) -> list[Measurement]:
    ordered = sorted((row for row in rows if not refusal(row)), key=lambda row: row.trial.trial_id)
    return list(sort_out(ordered, table.names).usable)


def _last_model() -> PerformanceModel:
    """The user's model; the bundled one where there is none, or it is damaged."""
    path = own_model_path()
    with suppress(DataError):
        if path.exists():
            return load_model(path)
    return load_model()


def _keep(model: PerformanceModel) -> None:
    """Save it as the user's model; a copy of the previous one is kept under its id."""
    path, folder = own_model_path(), user_folder() / "models"
    with suppress(DataError, OSError):
        if path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / f"{load_model(path).id}.json")
    save_model(model, path)
