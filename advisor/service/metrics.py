"""The metrics at /metrics, in the text format of Prometheus.

Each worker process counts separately. Several workers keep their counts in files of one folder
(PROMETHEUS_MULTIPROC_DIR, which `advisor serve` creates), and any worker can add them all up."""

from __future__ import annotations

import os
import platform
from datetime import UTC, date, datetime, time
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# In seconds: from answers kept in memory to questions with very many candidates.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
REGISTRY = CollectorRegistry()
_counter = partial(Counter, registry=REGISTRY)
_latest = partial(Gauge, registry=REGISTRY, multiprocess_mode="max")

# The label `route` is the route's template, never a path that a client sent.
REQUESTS = _counter(
    "advisor_http_requests", "Requests answered, by route and status.", ("route", "method", "status")
)
SECONDS = Histogram(
    "advisor_http_request_seconds",
    "Seconds from the request to its whole answer, by route.",
    ("route",),
    buckets=_BUCKETS,
    registry=REGISTRY,
)
RECOMMENDATIONS = _counter(
    "advisor_recommendations", "Recommendations, by whether an offer met the question.", ("outcome",)
)
TOOL_CALLS = _counter("advisor_tool_calls", "Calls of tools by agents, by tool.", ("tool",))
IN_PROGRESS = Gauge(
    "advisor_answers_in_progress",
    "Answers that are computed or wait for it, by queue.",
    ("queue",),
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
_catalog = _latest(
    "advisor_catalog_timestamp_seconds", "The day of the catalogue's latest prices, in Unix time."
)
_build = _latest("advisor_build_info", "1; its labels say what runs.", ("version", "python"))


@cache
def product_version() -> str:
    """The version of the installed advisor; 'unknown' if it is not installed as a package."""
    try:
        return version("instance-sizing-advisor")
    except PackageNotFoundError:
        return "unknown"


def note_start(catalog_as_of: date) -> None:
    """Set the metrics that describe this process: the catalogue's date and the versions."""
    _catalog.set(datetime.combine(catalog_as_of, time.min, UTC).timestamp())
    _build.labels(product_version(), platform.python_version()).set(1)


def metrics_text() -> bytes:
    """All metrics, summed over all workers, in the text format of Prometheus."""
    if os.environ.get(FOLDER_VARIABLE):
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
    return generate_latest(REGISTRY)
