"""What the machine itself did to a measurement: heat, credits, neighbours, its clock; pure.

From what `sweeps.worker.machine_state` and `pace` left in the environment; measurements without
(older ones, a campaign's) give no doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SUSTAINED = 0.05
STOLEN = 0.02
CLOCK_FELL = 0.10
# A power cap is how a GPU of that size works; heat and brakes are this machine's.
_HARMLESS = "power cap"


def machine_issues(environment: Mapping[str, Any]) -> list[QualityIssue]:
    """Every doubt that the environment of a measurement gives."""
    tests: tuple[Callable[[Mapping[str, Any]], QualityIssue | None], ...] = (
        _not_sustained,
        _stolen,
        _held_back,
        _clock_jumped,
    )
    return [issue for test in tests if (issue := test(environment))]


def _not_sustained(environment: Mapping[str, Any]) -> QualityIssue | None:
    """Slower at the end than in the first minute; faster counts too: neither is the rate."""
    pace = environment.get("pace")
    if not pace:
        return None
    first, last = pace["first_minute_samples_per_second"], pace["sustained_samples_per_second"]
    change = last / first - 1
    if abs(change) <= SUSTAINED:
        return None
    kind = "throttled or burst" if change < 0 else "slow first minute"
    return QualityIssue(
        kind=kind,
        detail=f"{last:.4g} samples/s at the end, {first:.4g} in the first minute "
        f"({100 * change:+.0f} %){_clocks(environment)}",
        advice="the end is what lasts: measure it again now, or longer with --iterations",
    )


def _clocks(environment: Mapping[str, Any]) -> str:
    """'; CPU clock 3000 to 2100 MHz', where it fell by more than a tenth."""
    before, after = environment.get("cpu_mhz") or (0, 0)
    if after >= (1 - CLOCK_FELL) * before:
        return ""
    return f"; CPU clock {before:.0f} to {after:.0f} MHz"


def _stolen(environment: Mapping[str, Any]) -> QualityIssue | None:
    share = environment.get("steal_share") or 0.0
    if share <= STOLEN:
        return None
    return QualityIssue(
        kind="stolen CPU time",
        detail=f"the hypervisor took {100 * share:.0f} % of the CPU time (neighbours, or CPU "
        "credits spent)",
        advice="measure on an instance that is not burstable, or with unlimited credits",
    )


def _held_back(environment: Mapping[str, Any]) -> QualityIssue | None:
    causes = [cause for cause in environment.get("gpu_held_back_by") or () if cause != _HARMLESS]
    throttles = environment.get("cpu_thermal_throttles") or 0
    if throttles:
        causes.append(f"{throttles:.0f} thermal throttles of the CPU")
    if not causes:
        return None
    return QualityIssue(
        kind="clocks held back",
        detail=f"by {', '.join(causes)}",
        advice="look after cooling and power; then measure again",
    )


def _clock_jumped(environment: Mapping[str, Any]) -> QualityIssue | None:
    suspended = environment.get("suspended_seconds")
    if suspended:
        return QualityIssue(
            kind="suspended",
            detail=f"the machine slept for {suspended:.1f} s while it was measured",
            advice="measure again, on a machine that stays awake",
        )
    jump = environment.get("wall_clock_jump_seconds")
    if not jump:
        return None
    return QualityIssue(
        kind="clock jumped",
        detail=f"the wall clock was set by {jump:+.1f} s meanwhile; steps are timed by another "
        "clock and stay right, only started_at may be wrong",
        advice="nothing to do for the rate; let the clock be slewed (chrony), not stepped",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityIssue:
    """Its kind, its number in words, and the way out."""

    kind: str
    detail: str
    advice: str
