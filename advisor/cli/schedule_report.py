"""What followed a scheduled sweep, in words: the fit that was kept, and what has drifted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.units import format_rate

_MOST_TRIALS = 5


def report_words(report: Mapping[str, Any]) -> str:
    """The one thing that a list should say: rates that drifted; empty where none did."""
    drift = report.get("drift") or {}
    beyond = drift.get("beyond_interval", 0)
    if not beyond:
        return ""
    why = f" ({', '.join(drift['changed'][:2])})" if drift.get("changed") else ""
    return f"{beyond} of {drift['compared']} rates drifted beyond their interval{why}"


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """All of it, a line each."""
    return [
        *_fit_lines(report.get("fit") or {}),
        *_drift_lines(report.get("drift") or {}),
        *_sizing_lines(report.get("sizing_report") or {}),
    ]


_STATES = {
    "arrived": "sent to {target}",
    "kept": "kept, to be tried again: {error}",
    "failed": "not sent: {error}",
}


def _sizing_lines(sizing: Mapping[str, Any]) -> list[str]:
    """What changed, and where the report went."""
    if not sizing:
        return []
    if sizing["error"]:
        return [f"no report: {sizing['error'].removeprefix('no report: ')}"]
    lines = [sizing["headline"] or "the first report; there is nothing to compare it with"]
    told = (f"  {_STATES[one['state']].format(**one)}" for one in sizing["deliveries"])
    return [*lines, *told]


def _fit_lines(fit: Mapping[str, Any]) -> list[str]:
    if not fit:
        return []
    name = fit.get("new_model") if fit["kept"] == "new" else fit.get("last_model")
    kept = f"model {name} ({fit['kept']})" if name else f"the {fit['kept']} model"
    return [f"kept {kept}: {fit['why']}"]


def _drift_lines(drift: Mapping[str, Any]) -> list[str]:
    if not drift:
        return []
    if not drift["compared"]:
        return ["drift: no earlier measurement of these trials"]
    median = drift["median_change_percent"]
    lines = [
        f"drift: {drift['beyond_interval']} of {drift['compared']} rates beyond their interval; "
        f"all together {median:+.1f} % (median)"
    ]
    if model := drift.get("last_model"):
        lines.append(
            f"{model['outside']} of {model['rows']} outside of the last model's interval "
            f"({model['expected']:g} by chance)"
        )
    lines += [f"changed: {', '.join(drift['changed'])}"] if drift["changed"] else []
    return lines + [_trial_line(one) for one in drift["trials"][:_MOST_TRIALS]]


def _trial_line(one: Mapping[str, Any]) -> str:
    before, now = format_rate(one["before"]["rate"]), format_rate(one["now"]["rate"])
    return f"  {one['change_percent']:+.1f} %  {before} -> {now}/s  {one['trial']}"
