"""Stored measurements as documents: lists, imports, exports, checks; and the questions that filter them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from advisor.domain import LimitedBy, Measurement, Status, Task
from advisor.domain.results import stall_indices
from advisor.files import csv_lines, csv_of
from advisor.messages import Message
from advisor.questions.fields import Choice, Flag, Number, Text
from advisor.questions.question import Question, ask
from advisor.sweeps.formats import SUMMARY_COLUMNS, ReadLines, summary_row, to_jsonl
from advisor.sweeps.measurement_store import Appended, Stored
from advisor.sweeps.quality.issues import QualityIssue
from advisor.sweeps.quality.rates import (
    CONFIDENCE,
    RateInterval,
    first_minute_rate,
    mean_error,
    rate_interval,
    run_intervals,
)

FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_MOST_ROWS = 1000


class Measurements(Question):
    """A filter of measurements; all given fields must match."""

    model: str | None = ask("Only this network.", Text("NAME"))
    task: Task | None = ask("Only this task.", Choice("task", Task))
    accelerator: str | None = ask("Only this accelerator: emulated:T4.", Text("KIND"))
    status: Status | None = ask("Only this status: ok, failed.", Choice("status", Status))
    limited_by: LimitedBy | None = ask(
        "Only this kind of limit: cgroup-v2, none.", Choice("limited by", LimitedBy)
    )

    def wanted(self) -> dict[str, str]:
        """The values that columns of the stored rows must have."""
        columns = {"network": self.model, "task": self.task, "accelerator": self.accelerator}
        columns |= {"status": self.status, "limited_by": self.limited_by}
        return {name: value for name, value in columns.items() if value is not None}


class MeasurementPage(Measurements):
    """One page of filtered measurements; `cursor` comes from the link to the next page."""

    spread: bool = ask("Add intervals and percentiles of steps.", Flag(), default=False)
    limit: int = ask(
        "Measurements of a page.", Number(whole=True, client_most=_MOST_ROWS), where="http", default=100
    )
    cursor: int | None = ask("Where the page begins.", Number(whole=True, client_most=10**18), where="http")


class MeasurementExport(Measurements):
    """An export of filtered measurements."""

    format: str = ask(
        "jsonl: every raw value; csv: a summary row each.", Choice("format", FORMATS), default="jsonl"
    )


class ScheduleDetails(Question):
    """The most runs of a schedule that are shown."""

    runs: int = ask("How many of its latest runs.", Number(whole=True, client_most=_MOST_ROWS), default=10)


LIST_SCHEMA, IMPORT_SCHEMA = "advisor.measurements/1", "advisor.measurements-import/1"
CHECK_SCHEMA = "advisor.measurements-check/1"
_PERCENTILES = (5, 25, 50, 75, 95)


def list_document(stored: Stored, *, spread: bool) -> dict[str, Any]:
    """`advisor.measurements/1`: one flat, unrounded row for each measurement; `spread` is slow."""
    rows = [summary_row(row) for row in stored.measurements]
    if spread:
        spreads = map(spread_document, stored.measurements)
        rows = [{**row, "spread": each} for row, each in zip(rows, spreads, strict=True)]
    damaged = [{"trial_id": row.trial_id, "reason": row.reason} for row in stored.damaged]
    return {"schema": LIST_SCHEMA, "measurements": rows, "damaged": damaged}


def import_document(read: ReadLines, done: Appended) -> dict[str, Any]:
    """`advisor.measurements-import/1`: how many rows were stored, and each refused line."""
    return {
        "schema": IMPORT_SCHEMA,
        "added": done.added,
        "replaced": done.replaced,
        "known": len(read.measurements) - done.added - done.replaced,
        "repeated": read.repeated,
        "refused": [{"line": row.line, "reason": row.reason} for row in read.refused],
    }


def exported(pages: Iterable[Stored], form: str) -> Iterator[str]:
    """The export in pieces; for a damaged row it has a line that an import will refuse."""
    if form == "csv":
        yield csv_of((), SUMMARY_COLUMNS)
    for stored in pages:
        if form == "csv":
            damaged = [
                {"trial_id": row.trial_id, "status": "damaged", "reason": row.reason}
                for row in stored.damaged
            ]
            yield csv_lines([*map(summary_row, stored.measurements), *damaged], SUMMARY_COLUMNS)
        else:
            lines = [json.dumps({"damaged": row.trial_id, "reason": row.reason}) for row in stored.damaged]
            yield to_jsonl(stored.measurements) + "".join(f"{line}\n" for line in lines)


def check_document(checked: Sequence[tuple[Measurement, Sequence[QualityIssue]]]) -> dict[str, Any]:
    """`advisor.measurements-check/1`: all measurements with their issues, unrounded."""
    return {
        "schema": CHECK_SCHEMA,
        "measurements": len(checked),
        "weak": sum(bool(issues) for _, issues in checked),
        "checked": [_checked(row, issues) for row, issues in checked],
    }


def _checked(row: Measurement, issues: Sequence[QualityIssue]) -> dict[str, Any]:
    error = mean_error(row.step_seconds, row.trial.loader_period)
    return {
        "trial_id": row.trial.trial_id,
        "network": row.trial.workload.network,
        "task": row.trial.workload.task.value,
        "status": row.status.value,
        "throughput_samples_per_second": row.throughput_samples_per_second,
        **_bounds(rate_interval(row)),
        "steps": len(row.step_seconds),
        "runs": 1 + len(row.repeats),
        "relative_error": error.half_width if error else None,
        **_stalls(row),
        "weak": [
            {
                "code": issue.code,
                "kind": issue.code.replace("_", " "),
                "numbers": {name: _plain(value) for name, value in issue.detail.parameters.items()},
                "detail": str(issue.detail),
                "advice": str(issue.advice),
            }
            for issue in issues
        ],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [str(item) for item in value]
    return str(value) if isinstance(value, Message) else value


def spread_document(row: Measurement) -> dict[str, Any] | None:
    """Rates of each run, the 95 % interval of a next run, and percentiles of single steps (samples/s); None
    without steps."""
    import numpy as np

    runs = [run for run in row.run_steps if run]
    if not runs:
        return None
    steps = [seconds for run in runs for seconds in run]
    # Percentiles of times, not of rates: the rate of a very short step may be infinite.
    times = np.percentile(steps, [100 - name for name in _PERCENTILES]).tolist()
    rates = [min(row.trial.samples_per_step / seconds, sys.float_info.max) for seconds in times]
    return {
        "confidence": CONFIDENCE,
        **_bounds(rate_interval(row)),
        "runs": [
            {
                "steps": len(run),
                "throughput_samples_per_second": len(run) * row.trial.samples_per_step / sum(run),
                **_bounds(interval),
                "relative_error": interval.relative_error if interval else None,
            }
            for run, interval in zip(runs, run_intervals(row), strict=True)
        ],
        "median_samples_per_second": row.median_samples_per_second,
        "first_minute_samples_per_second": first_minute_rate(row),
        "step_rates": {f"p{name}": rate for name, rate in zip(_PERCENTILES, rates, strict=True)},
        **_stalls(row),
    }


def _bounds(interval: RateInterval | None) -> dict[str, float | None]:
    return {"lower": interval.lower if interval else None, "upper": interval.upper if interval else None}


def _stalls(row: Measurement) -> dict[str, float | None]:
    period, steps = row.trial.loader_period, sum(map(len, row.run_steps))
    stalls = sum(len(stall_indices(run, period)) for run in row.run_steps)
    return {"outlier_share": stalls / steps if steps else 0.0, "stall_share": row.stall_share}
