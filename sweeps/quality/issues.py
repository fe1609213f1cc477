"""Finds weaknesses of a measurement, each with its remedy; pure.

They concern limits, status, too few or unsteady steps, stalls, runs that differ, the machine meanwhile
(neighbours, throttling, stolen time, clocks) and age. Facts about the machine are in the row's environment,
written by `advisor.sweeps.worker.timed_run`, the GPU sampler and `sustained_rate`; a row without them has no
such issues."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from advisor.domain import LimitedBy, Measurement, Stage, Status
from advisor.domain.machines import is_positive
from advisor.domain.results import mean_step_seconds, stall_share
from advisor.messages import Message
from advisor.quantities import moment_of
from advisor.sweeps.quality.rates import is_steady, mean_error


def is_stale(started_at: str, since: datetime | None) -> bool:
    """Return whether a measurement that began at `started_at` (ISO 8601) is older than `since`. Without a
    start time it is older than any `since`; without a `since` no measurement is."""
    begun = moment_of(started_at)
    return since is not None and (begun is None or begun < since)


FEW_STEPS = 6
REPEATS_DIFFER = 0.06
_WIDE = 0.05
_BARELY = 1.25
_STALLED = 0.05
_SLOWED = 0.05
_STOLEN = 0.02
_CLOCK_FELL = 0.10
# PyTorch and drivers have a release every two to three months.
_OLD = timedelta(days=180)
# Throttling that is normal for the GPU or set by its owner, unlike heat and hardware brakes.
_HARMLESS = {"sw_power_cap", "gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost"}
# NVML's names of heat and hardware brakes. In more than this share of samples they explain the rate.
_SLOWDOWNS = {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
_SLOWED_SAMPLES = 0.05
_BUSY_PERCENT = 5  # of the last second before the trial's first step


class QualityIssue(Struct, frozen=True, kw_only=True):
    """A weakness of a measurement: `code` for programs, `detail` with its numbers as parameters, `advice`."""

    code: str
    detail: Message
    advice: Message


# A rate measured under one of these is not that of the named GPU: no fit and no anchor uses it.
REFUSED = {
    "gpu_shared": "other processes computed on its GPU",
    "gpu_throttled": "heat or a hardware brake held its GPU's clocks back",
}


def refusal(measurement: Measurement) -> str:
    """The reason, from any of its runs, why no fit and no anchor may use a measurement; "" if they may."""
    reasons = map(refusal_in, _environments(measurement))
    return next(filter(None, reasons), "")


def refusal_in(environment: Mapping[str, Any]) -> str:
    """The reason to refuse one run, from its environment (or its `gpu_state` in an anchor); "" if none."""
    codes = (issue.code for issue in _gpu_issues(environment))
    return next((REFUSED[code] for code in codes if code in REFUSED), "")


def _environments(measurement: Measurement) -> Iterator[Mapping[str, Any]]:
    """The environments of each counted run and of its separate run of the GPU stage."""
    for run in (measurement.environment, *(run.get("environment", {}) for run in measurement.repeats)):
        yield run
        if alone := (run.get("stage_runs") or {}).get(Stage.ACCELERATOR.value):
            yield alone


def is_gpu_shared(environment: Mapping[str, Any]) -> bool:
    """Return whether other processes computed on the GPU while steps were timed."""
    return is_positive(environment.get("gpu_other_processes"))


_AGAIN = "measure again on a quiet machine: advisor sweep run ... --retry-failed"
# Code: the weakness, and the advice.
_TEXTS: Mapping[str, tuple[str, str]] = {
    **{status.value: ("{reason}", _AGAIN) for status in Status},
    "stale": (
        "it was measured on {day}, with software of that time",
        "measure it again: advisor sweep run ... --fresh-since DATE",
    ),
    "not_limited": (
        "a limit was asked for and not held; it is never fitted",
        "run as root, or with delegated cgroups (advisor doctor), data on a block device",
    ),
    "few_steps": (
        "{steps} steady steps, too few for an interval of the rate",
        "ask for smaller --batch-sizes, or for more with --iterations",
    ),
    "wide_interval": (
        "known to {known_percent:.1f} %, asked for {wanted_percent:.3g} %",
        "measure it longer: --iterations 1000, or --repeats 3",
    ),
    "drift": (
        "the level of the step times still changed at the end",
        "measure it longer: --iterations 1000; look for other load on the machine",
    ),
    "throttled_or_burst": (
        "steps at the end took {slower_percent:.0f} % longer than at the start",
        "let the machine cool, or burst credits run out first; then --iterations 1000",
    ),
    "stalls": (
        "stalls took {stall_percent:.0f} % of the time (they count in the rate)",
        "look for other load, or a disk that stalls; then measure again",
    ),
    "repeats_differ": (
        "its {runs} runs differ by {spread_percent:.0f} %",
        "measure again on a quiet machine, with --repeats 3 or more",
    ),
    "stolen_cpu_time": (
        "the hypervisor took {stolen_percent:.0f} % of the CPU time (neighbours, or CPU credits spent)",
        "measure on an instance that is not burstable, or with unlimited credits",
    ),
    "throttled": ("clocks were held back by {causes}", "look after cooling and power; then measure again"),
    "side_by_side": (
        "other trials may have run on the machine's other cores meanwhile, which share its caches, memory "
        "bandwidth and power",
        "measure one trial at a time for the last per cent: --executor process",
    ),
    "disk_burst": (
        "{what} read the disk at more than the {baseline:.3g} MiB/s or {iops:,.0f} IOPS that last (lent by "
        "{causes}); a run that did is not fitted",
        "read until the credits are spent and measure again, or take a provisioned gp3 on an instance "
        "without burst",
    ),
    "gpu_shared": (
        "{others} other processes computed on the GPU meanwhile; it is not fitted, and no anchor",
        "end them (`nvidia-smi` names them), or take another GPU; then measure again",
    ),
    "gpu_busy_before": (
        "the GPU was {busy:.0f} % busy before the first step",
        "measure again when nobody else uses it",
    ),
    "gpu_throttled": (
        "{causes} held the GPU's clocks back for {percent:.0f} % of the time; it is not fitted, and no "
        "anchor",
        "look after cooling and power; then: advisor sweep run ... --fresh-since DATE",
    ),
    "suspended": (
        "the machine slept for {seconds:.1f} s while it was measured",
        "measure again, on a machine that stays awake",
    ),
    "clock_jumped": (
        "the wall clock was set by {seconds:+.1f} s meanwhile; steps are timed by another clock and stay "
        "right, only started_at may be wrong",
        "nothing to do for the rate; let the clock be slewed (chrony), not stepped",
    ),
}
_PACE_TEXTS = (
    "{last:.4g} samples/s at the end, {first:.4g} in the first minute ({change_percent:+.0f} %){clocks}",
    "the end is what lasts: measure it again now, or longer with --iterations",
)


def _issue(code: str, texts: tuple[str, str] | None = None, **numbers: Any) -> QualityIssue:
    detail, advice = texts or _TEXTS[code]
    return QualityIssue(code=code, detail=Message(detail, **numbers), advice=Message(advice))


def quality_issues(measurement: Measurement, now: datetime | None = None) -> tuple[QualityIssue, ...]:
    """The weaknesses of a measurement, each code once; its age is judged only if `now` is given."""
    issues = [*_status_issues(measurement)]
    if measurement.status is Status.OK:
        issues += [*_step_issues(measurement), *_run_issues(measurement)]
        for environment in _environments(measurement):
            issues += _machine_issues(environment)
    if now and measurement.started_at and is_stale(measurement.started_at, now.astimezone(UTC) - _OLD):
        issues.append(_issue("stale", day=measurement.started_at[:10]))
    return tuple({issue.code: issue for issue in reversed(issues)}.values())[::-1]


def _status_issues(measurement: Measurement) -> Iterator[QualityIssue]:
    status = measurement.status
    if status not in (Status.OK, Status.OUT_OF_MEMORY):
        yield _issue(status.value, reason=measurement.reason or status.value.replace("_", " "))
    if measurement.limited_by is LimitedBy.NONE and status is not Status.FAILED:
        yield _issue("not_limited")


def _step_issues(measurement: Measurement) -> Iterator[QualityIssue]:
    steps, period = measurement.step_seconds, measurement.trial.loader_period
    error, are_few = mean_error(steps, period), len(steps) < FEW_STEPS
    if are_few or error is None:
        yield _issue("few_steps", steps=len(steps))
    wanted = float(measurement.trial.plan.get("rel_error", _WIDE))
    if error is not None and error.half_width > _BARELY * wanted:
        yield _issue("wide_interval", known_percent=100 * error.half_width, wanted_percent=100 * wanted)
    if not (are_few or is_steady(steps, period)):
        yield _issue("drift")
    third = len(steps) // 3  # compares the median steps of the first and the last third
    if third >= FEW_STEPS:
        slower = statistics.median(steps[-third:]) / statistics.median(steps[:third]) - 1
        if slower > _SLOWED:
            yield _issue("throttled_or_burst", slower_percent=100 * slower)
    if steps and (share := stall_share(steps, period)) > _STALLED:
        yield _issue("stalls", stall_percent=100 * share)


def _run_issues(measurement: Measurement) -> Iterator[QualityIssue]:
    """Issues of runs that differ, and of a pace that changed after the first minute, unless that minute does
    not count in the rate."""
    seconds = [mean_step_seconds(run) for run in measurement.run_steps if run]
    if len(seconds) > 1 and (spread := max(seconds) / min(seconds) - 1) > REPEATS_DIFFER:
        yield _issue("repeats_differ", runs=len(seconds), spread_percent=100 * spread)
    pace = measurement.environment.get("pace")
    if not pace or measurement.trial.plan.get("warmup_seconds"):
        return
    first, last = pace["first_minute_samples_per_second"], pace["sustained_samples_per_second"]
    before, after = measurement.environment.get("cpu_mhz") or (0, 0)
    fell = after < (1 - _CLOCK_FELL) * before
    clocks = f"; CPU clock {before:.0f} to {after:.0f} MHz" if fell else ""
    if abs(change := last / first - 1) > _SLOWED:
        code = "throttled_or_burst" if change < 0 else "slow_first_minute"
        numbers = {"last": last, "first": first, "change_percent": 100 * change, "clocks": clocks}
        yield _issue(code, _PACE_TEXTS, **numbers)


def _machine_issues(environment: Mapping[str, Any]) -> Iterator[QualityIssue]:
    if (share := environment.get("steal_share") or 0.0) > _STOLEN:
        yield _issue("stolen_cpu_time", stolen_percent=100 * share)
    yield from _gpu_issues(environment)
    if causes := _throttle_reasons(environment):
        yield _issue("throttled", causes=causes)
    if environment.get("side_by_side"):
        yield _issue("side_by_side")
    if seconds := environment.get("suspended_seconds"):
        yield _issue("suspended", seconds=seconds)
    elif seconds := environment.get("wall_clock_jump_seconds"):
        yield _issue("clock_jumped", seconds=seconds)
    burst = environment.get("disk_burst") or {}
    if burst.get("above_baseline"):
        yield _issue(
            "disk_burst",
            what=" and ".join(burst["above_baseline"]),
            baseline=burst["baseline_mib_per_second"],
            iops=burst["baseline_iops"],
            causes=" and ".join(burst["lent_by"]),
        )


def _gpu_issues(environment: Mapping[str, Any]) -> Iterator[QualityIssue]:
    """Issues of the GPU in the main run and in the separate run of the GPU stage, on which answers rest."""
    alone = (environment.get("stage_runs") or {}).get(Stage.ACCELERATOR.value) or {}
    for meanwhile in (environment, alone):
        if is_gpu_shared(meanwhile):
            yield _issue("gpu_shared", others=meanwhile["gpu_other_processes"])
        if (busy := meanwhile.get("gpu_utilization_before_percent") or 0) > _BUSY_PERCENT:
            yield _issue("gpu_busy_before", busy=busy)
        if slowed := _slowdowns(meanwhile):
            causes = [name.replace("_", " ") for name in slowed]
            yield _issue("gpu_throttled", causes=causes, percent=100 * max(slowed.values()))


def _slowdowns(environment: Mapping[str, Any]) -> dict[str, float]:
    """The shares of samples of those heat and hardware brakes that held long enough to explain the rate."""
    shares = environment.get("gpu_throttle_reasons")
    if not isinstance(shares, dict):
        return {}
    known = {name: shares[name] for name in sorted(_SLOWDOWNS & set(shares))}
    return {n: share for n, share in known.items() if is_positive(share) and share > _SLOWED_SAMPLES}


def _throttle_reasons(environment: Mapping[str, Any]) -> list[str]:
    codes, reported = environment.get("gpu_throttle_reasons") or (), _HARMLESS | set(_slowdowns(environment))
    reasons = [code.replace("_", " ") for code in codes if code not in reported]
    throttles = environment.get("cpu_thermal_throttles") or 0
    return [*reasons, *([f"{throttles:.0f} thermal throttles of the CPU"] if throttles else ())]
