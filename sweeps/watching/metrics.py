"""Metrics of one sweep, by Prometheus' conventions: base units, counters end in `_total`."""

from __future__ import annotations

from advisor.domain import Status
from sweeps.watching.exposition import Family
from sweeps.watching.tally import Standing

_PREFIX = "advisor_sweep_"
_OUTCOMES = ("ok", "failed")


def metrics_of(standing: Standing) -> list[Family]:
    """What a sweep shows; every label is there from the beginning, so that rates have a start."""
    families = [
        _family("trials_total", "counter", "Trials that have ended, by how they ended.", {
            status.value: standing.counts.get(status, 0) for status in Status
        }, "status"),
        _one("attempts_total", "counter", "Attempts, with those that neighbours spoiled.",
             standing.attempts),
        _one("trial_seconds_total", "counter", "Seconds from a trial's beginning to its storing.",
             standing.trial_seconds),
        _one("elapsed_seconds", "gauge", "Seconds since the sweep began.",
             standing.elapsed_seconds),
        _one("remaining_seconds", "gauge", "Seconds until all trials have ended, expected.",
             standing.rest_seconds),
        _one("trials_left", "gauge", "Trials that have not ended yet.", standing.left),
        _one("trials_running", "gauge", "Trials that are being measured by this driver.",
             len(standing.running)),
        _one("trials_skipped", "gauge", "Trials that were measured before the sweep began.",
             standing.skipped),
        _family("heartbeats_total", "counter", "Renewals of this driver's leases.", {
            outcome: standing.heartbeats.get(outcome, 0) for outcome in _OUTCOMES
        }, "outcome"),
    ]  # fmt: skip
    if standing.last_heartbeat_at is not None:
        text = "When the leases were last renewed, in seconds since 1970."
        families.append(
            _one("last_heartbeat_timestamp_seconds", "gauge", text, standing.last_heartbeat_at)
        )
    if standing.usd is not None:
        text = "Cost of the host so far, by the price that was given."
        families.append(_one("cost_usd_total", "counter", text, standing.usd))
    return families


def _one(name: str, kind: str, text: str, value: float) -> Family:
    return Family(_PREFIX + name, kind, text, (({}, float(value)),))


def _family(name: str, kind: str, text: str, values: dict[str, int], label: str) -> Family:
    samples = tuple(({label: key}, float(value)) for key, value in values.items())
    return Family(_PREFIX + name, kind, text, samples)
