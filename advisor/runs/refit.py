"""After a scheduled sweep: fit anew, keep the better model, and say what has drifted.

The two models are scored on the same fresh measurements, and neither has seen those trials: each is fitted
again without a fifth of them, five times, one on what the store held before the run, one on what it holds
now. Where the last model was not fitted on what the store held before (it is the one that ships, or came from
a file), it is scored as it is, and that is said."""

from __future__ import annotations

import math
import shutil
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from advisor.domain import Measurement, Status
from advisor.errors import DataError
from advisor.files import own_model_path, user_folder
from advisor.models.performance import load_model, save_model
from advisor.models.performance.model import PerformanceModel
from advisor.models.performance.usable import sort_out
from advisor.runs.fitting import fit_user_model, reference_cpu, shipped_rows, sound_rows
from advisor.runs.probing import kept_fingerprints
from advisor.sweeps.quality.issues import is_stale
from advisor.sweeps.quality.rates import RateInterval, rate_interval
from advisor.sweeps.trial.formatting import trial_name

if TYPE_CHECKING:
    from advisor.models.performance.fit import FitResult

# Facts of a machine that explain another rate; `versions` has those of packages.
_TELLING = ("gpu", "cpu_model", "kernel", "python", "driver", "host")


class Shift(Struct, frozen=True):
    """One trial measured on two days, the earlier time at `started_at`: rates in samples per second with
    their 95 % intervals.

    `beyond` says whether each lies outside of where the other expects its next run."""

    trial_id: str
    trial: str
    before: RateInterval
    now: RateInterval
    started_at: str
    beyond: bool

    @property
    def change(self) -> float:
        """0.1 for a tenth more than last time."""
        return self.now.rate / self.before.rate - 1


class Drift(Struct, frozen=True):
    """The shifts of all trials that could be compared, and what is another machine or version."""

    shifts: tuple[Shift, ...]
    changed: tuple[str, ...]

    @property
    def beyond(self) -> tuple[Shift, ...]:
        """Those that drifted, the largest first."""
        drifted = [shift for shift in self.shifts if shift.beyond]
        return tuple(sorted(drifted, key=lambda shift: -abs(math.log1p(shift.change))))

    @property
    def median_change(self) -> float | None:
        """Of all trials together: a driver or a clock moves them all."""
        changes = [math.log1p(shift.change) for shift in self.shifts]
        return math.expm1(statistics.median(changes)) if changes else None


def drift_between(fresh: Iterable[Measurement], earlier: Sequence[Measurement]) -> Drift:
    """Each fresh measurement against the latest earlier one of the same trial; both must have ended
    well and tell how well their rate is known."""
    latest = {row.trial.trial_id: row for row in earlier if row.status is Status.OK}
    good = [row for row in fresh if row.status is Status.OK and row.trial.trial_id in latest]
    pairs = [(latest[row.trial.trial_id], row) for row in good]
    shifts = [shift for before, now in pairs if (shift := _shift(before, now))]
    changes: dict[str, None] = {}
    for before, now in pairs:
        old, new = _facts(before), _facts(now)
        changes |= {
            f"{name} {value} -> {new[name]}": None
            for name, value in old.items()
            if new.get(name, value) != value
        }
    return Drift(tuple(shifts), tuple(changes))


def is_fresh(row: Measurement, since_seconds: float) -> bool:
    """Whether it was measured at or after that moment (seconds since 1970)."""
    return not is_stale(row.started_at, datetime.fromtimestamp(since_seconds, UTC))


def _shift(before: Measurement, now: Measurement) -> Shift | None:
    old, new = rate_interval(before), rate_interval(now)
    if old is None or new is None:
        return None
    apart = not (old.lower <= new.rate <= old.upper or new.lower <= old.rate <= new.upper)
    return Shift(now.trial.trial_id, trial_name(now.trial), old, new, before.started_at, apart)


def _facts(row: Measurement) -> dict[str, str]:
    environment = row.environment
    facts = {name: environment.get(name) for name in _TELLING}
    versions = environment.get("versions")
    facts |= dict(versions) if isinstance(versions, Mapping) else {}
    return {name: str(value) for name, value in facts.items() if value}


CONFIDENCE = 0.9
_MOST_SHIFTS = 20
NEW, LAST = "new", "last"


class Rows(Struct, frozen=True):
    """The rows of the store now, those before the run, and those that the run measured."""

    now: tuple[Measurement, ...]
    before: tuple[Measurement, ...]
    fresh: tuple[Measurement, ...]


def after_sweep(since: float) -> dict[str, Any]:
    """The report on a sweep whose rows began at or after `since` (seconds since 1970): `fit`,
    `drift`; empty where there are none. The better model is the user's own from then on. Never
    raises for what the rows lack."""
    from advisor.store.measurements import open_store  # loads SQLAlchemy

    with closing(open_store(reading=True)) as store:
        now, earlier = store.read().measurements, store.earlier()
    rows = split_rows(now, earlier, since)
    if not rows.fresh:
        return {}
    drift = drift_between(rows.fresh, rows.before)
    try:
        fit, outside = _refitted(rows)
    except DataError as error:
        fit, outside = {"kept": LAST, "why": str(error)}, None
    return {"fit": fit, "drift": drift_document(drift, outside)}


def split_rows(now: Sequence[Measurement], earlier: Sequence[Measurement], since: float) -> Rows:
    """Of each trial that the run measured, the latest good row from before it is among the
    `before`, if there was one; every other row is there as it is."""
    fresh = tuple(row for row in now if is_fresh(row, since))
    names = {row.trial.trial_id for row in fresh}
    replaced = {
        row.trial.trial_id: row
        for row in earlier
        if row.trial.trial_id in names and row.status is Status.OK and not is_fresh(row, since)
    }
    kept = [row for row in now if row.trial.trial_id not in names]
    return Rows(tuple(now), (*kept, *replaced.values()), fresh)


def _refitted(rows: Rows) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The new fit against the last model, and how the fresh rows lie in the last one's interval. Raises
    `DataError` where nothing can be fitted, or kept."""
    from advisor.models.performance.fit import errors_of  # loads scikit-learn
    from advisor.models.performance.throughput import outside_interval, residuals_of, unseen_residuals

    result, last = fit_user_model(rows.now, kept_fingerprints()), _last_model()
    if result.kept_pipeline:
        return _with_gpu_steps(result, last, result.kept_pipeline), None
    table = result.model.table
    usable = _usable(rows.now, table.names)
    names = {row.trial.trial_id for row in rows.fresh}
    scored = [row for row in usable if row.trial.trial_id in names]
    if not scored:
        raise DataError("the run measured nothing that can be fitted, so the last model stays")
    by_last = residuals_of(last.pipeline, scored, table, reference_cpu)
    outside = {
        "rows": len(scored),
        "outside": outside_interval(by_last, last.pipeline, CONFIDENCE),
        "expected": round(2 * (1 - CONFIDENCE) * len(scored), 1),
        "confidence": CONFIDENCE,
    }
    # Score both, and keep the better: the new one where they are equally good.
    before = _usable_of(rows.before, last)
    if before:
        by_last = unseen_residuals(before, scored, table, reference_cpu, shipped_rows())
    unseen = unseen_residuals(usable, scored, table, reference_cpu, shipped_rows())
    new, old = errors_of(unseen), errors_of(by_last)
    assert new is not None  # some were scored
    assert old is not None
    better, same = new.median <= old.median, result.model.id == last.id
    if not better:
        _with_gpu_steps(result, last, "")
    elif not same:
        _keep(result.model)
    fit = {
        "kept": NEW if better else LAST,
        "why": _why(new.median, old.median, len(scored), same=same),
        "new_model": result.model.id,
        "last_model": last.id,
        "held_out_rows": len(scored),
        "fitted": result.fitted,
        "new_error_percent": {"median": new.median, "p90": new.p90},
        "last_error_percent": {"median": old.median, "p90": old.p90},
        "last_is_held_out": bool(before),
    }
    return fit, outside


def _with_gpu_steps(result: FitResult, last: PerformanceModel, why: str) -> dict[str, Any]:
    """The last model's pipeline stays; what was measured of GPUs is taken all the same."""
    from advisor.models.performance.fit import with_gpu

    observations = result.gpu.observations
    if observations != last.gpu_observations:
        _keep(with_gpu(last, observations, load_model().step_times))
    return {"kept": LAST, "why": why}


def _usable_of(before: Sequence[Measurement], last: PerformanceModel) -> list[Measurement]:
    """The rows that the last model was fitted on; none where it was not on these."""
    with suppress(DataError):
        if fit_user_model(before, kept_fingerprints()).model.id == last.id:
            return _usable(before, last.table.names)
    return []


def _usable(rows: Iterable[Measurement], networks: Collection[str]) -> list[Measurement]:
    return list(sort_out(sorted(sound_rows(rows), key=lambda row: row.trial.trial_id), networks).usable)


def _why(new: float, old: float, rows: int, *, same: bool) -> str:
    if same:
        return "the fit is the same as the last one"
    than = "no worse than" if new <= old else "worse than"
    return (
        f"on {rows} fresh trials that neither was fitted on the new one is off by {new:.1f} % "
        f"(median), {than} the last one's {old:.1f} %"
    )


def _last_model() -> PerformanceModel:
    """The user's own, else the one that ships; the latter too where the own is damaged."""
    path = own_model_path()
    with suppress(DataError):
        if path.exists():
            return load_model(path)
    return load_model()


def _keep(model: PerformanceModel) -> None:
    """Make it the user's own; the one before it stays under its id, to go back to."""
    path, folder = own_model_path(), user_folder() / "models"
    with suppress(DataError, OSError):
        if path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / f"{load_model(path).id}.json")
    save_model(model, path)


def drift_document(drift: Drift, outside: dict[str, Any] | None) -> dict[str, Any]:
    """JSON-ready values; the largest shifts by name."""
    median = drift.median_change
    return {
        "compared": len(drift.shifts),
        "beyond_interval": len(drift.beyond),
        "median_change_percent": None if median is None else round(100 * median, 2),
        "changed": list(drift.changed),
        "trials": [_shift_document(shift) for shift in drift.beyond[:_MOST_SHIFTS]],
        "last_model": outside,
    }


def _shift_document(shift: Shift) -> dict[str, Any]:
    before, now = (
        {"lower": interval.lower, "rate": interval.rate, "upper": interval.upper}
        for interval in (shift.before, shift.now)
    )
    return {
        "trial_id": shift.trial_id,
        "trial": shift.trial,
        "change_percent": round(100 * shift.change, 2),
        "before": {**before, "started_at": shift.started_at},
        "now": now,
    }
