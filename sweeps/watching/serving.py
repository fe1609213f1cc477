"""Metrics of one sweep, by Prometheus' conventions: base units, counters end in `_total`.

For those who ask (HTTP) and for the node exporter's textfile collector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from advisor.domain import Status
from advisor.errors import DataError, MeasuringError
from advisor.sweeps.events import WARNING, emit
from advisor.sweeps.watching.tally import SweepProgress


@contextmanager
def served(registry: CollectorRegistry, port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """`http://HOST:PORT/metrics` meanwhile; port 0 takes a free one, which is yielded.

    `MeasuringError` where the port is taken.
    """
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MeasuringError(
            "cannot serve metrics at {host}:{port} ({reason})",
            hint="name another port: --metrics-port, where 0 takes a free one",
            host=host,
            port=port,
            reason=reason,
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class TextFile:
    """The metrics in a file, whole at any moment; a file that cannot be written later on is logged
    once in the log, and the sweep goes on."""

    def __init__(self, path: Path, registry: CollectorRegistry) -> None:
        # A link keeps pointing; what is no regular file (/dev/null) must not be replaced by one.
        self._path, self._registry, self._reported = path.resolve(), registry, False
        if self._path.exists() and not self._path.is_file():
            raise DataError("'{path}' is no file", hint="name another place: --metrics-file", path=path)
        try:
            self._write()
        except OSError as error:
            raise DataError(
                "cannot write '{path}' ({strerror})",
                hint="name another place: --metrics-file",
                path=path,
                strerror=error.strerror,
            ) from error

    def update(self) -> None:
        """Write what the metrics are now."""
        try:
            self._write()
        except OSError as error:
            if not self._reported:
                self._reported = True
                emit("metrics_file_failed", level=WARNING, reason=str(error))

    def _write(self) -> None:
        # Each thread has a part of its own: the runner's and that of the heartbeat write.
        write_to_textfile(str(self._path), self._registry)


_PREFIX = "advisor_sweep_"
_OUTCOMES = ("ok", "failed")


def sweep_registry(progress: Callable[[], SweepProgress]) -> CollectorRegistry:
    """A registry of this sweep alone: it asks where the sweep stands at every scrape."""
    registry = CollectorRegistry()
    registry.register(_OfSweep(progress))
    return registry


class _OfSweep(Collector):
    def __init__(self, progress: Callable[[], SweepProgress]) -> None:
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        """Every label is there from the beginning, so that rates have a start."""
        now = self._progress()
        ended = {status.value: now.counts.get(status, 0) for status in Status}
        yield _counts("trials", "Trials that have ended, by how they ended.", "status", ended)
        yield _counter("attempts", "Attempts, with those that neighbours spoiled.", now.attempts)
        yield _counter("trial_seconds", "Seconds from a trial's beginning to its storing.", now.trial_seconds)
        yield _gauge("elapsed_seconds", "Seconds since the sweep began.", now.elapsed_seconds)
        yield _gauge("remaining_seconds", "Seconds until all trials have ended, expected.", now.rest_seconds)
        yield _gauge("trials_left", "Trials that have not ended yet.", now.left)
        yield _gauge("trials_running", "Trials that are being measured by this driver.", len(now.running))
        yield _gauge("trials_skipped", "Trials that were measured before the sweep began.", now.skipped)
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
