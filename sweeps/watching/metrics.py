"""Metrics of one sweep, by Prometheus' conventions: base units, counters end in `_total`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from advisor.domain import Status
from sweeps.watching.tally import SweepProgress

_PREFIX = "advisor_sweep_"
_OUTCOMES = ("ok", "failed")


def sweep_registry(standing: Callable[[], SweepProgress]) -> CollectorRegistry:
    """A registry of this sweep alone: it asks where the sweep stands at every scrape."""
    registry = CollectorRegistry()
    registry.register(_OfSweep(standing))
    return registry


class _OfSweep(Collector):
    def __init__(self, standing: Callable[[], SweepProgress]) -> None:
        self._standing = standing

    def collect(self) -> Iterator[Metric]:
        """Every label is there from the beginning, so that rates have a start."""
        now = self._standing()
        ended = {status.value: now.counts.get(status, 0) for status in Status}
        yield _counts("trials", "Trials that have ended, by how they ended.", "status", ended)
        yield _counter("attempts", "Attempts, with those that neighbours spoiled.", now.attempts)
        yield _counter(
            "trial_seconds", "Seconds from a trial's beginning to its storing.", now.trial_seconds
        )
        yield _gauge("elapsed_seconds", "Seconds since the sweep began.", now.elapsed_seconds)
        yield _gauge(
            "remaining_seconds", "Seconds until all trials have ended, expected.", now.rest_seconds
        )
        yield _gauge("trials_left", "Trials that have not ended yet.", now.left)
        yield _gauge(
            "trials_running", "Trials that are being measured by this driver.", len(now.running)
        )
        yield _gauge(
            "trials_skipped", "Trials that were measured before the sweep began.", now.skipped
        )
        renewals = {outcome: now.heartbeats.get(outcome, 0) for outcome in _OUTCOMES}
        yield _counts("heartbeats", "Renewals of this driver's leases.", "outcome", renewals)
        if now.last_heartbeat_at is not None:
            text = "When the leases were last renewed, in seconds since 1970."
            yield _gauge("last_heartbeat_timestamp_seconds", text, now.last_heartbeat_at)
        if now.usd is not None:
            yield _counter("cost_usd", "Cost of the host so far, by the price given.", now.usd)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(_PREFIX + name, text, value=value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(_PREFIX + name, text, value=value)


def _counts(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
