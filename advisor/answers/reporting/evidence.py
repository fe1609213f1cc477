"""The evidence behind a section: measurements beside its curves, and the source and age of its facts."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any

from advisor.answers.reporting.curving import Subject
from advisor.domain import Measurement, Provenance, Spec, Status, Task
from advisor.files import user_folder
from advisor.messages import Message
from advisor.models.bundled import FOLDER
from advisor.models.performance.usable import why_not
from advisor.sweeps.formats import measurement_from_dict
from advisor.sweeps.quality.issues import refusal

BUNDLED, STORE = "bundled", "store"
_FILE = FOLDER / "measurements.jsonl"
_RICH = ("vcpus", "memory_mib", "disk_read_mib_per_second")


def measured_rows(network: str, task: Task) -> list[dict[str, Any]]:
    """One row a good measurement of the network and task, with all its conditions, by vCPUs; the user's
    own take the place of bundled ones of the same trial."""
    key = network, str(task)
    by_trial = {row["trial_id"]: row for row in _bundled() if (row["network"], row["task"]) == key}
    by_trial |= {row["trial_id"]: row for row in _rows(_stored(*key), STORE)}
    return sorted(by_trial.values(), key=_order)


def bundled_measurements_sha256() -> str:
    """The digest of the measurements that ship, as `_bundled` reads them."""
    return hashlib.sha256(_FILE.read_bytes()).hexdigest()


def nearest_slice(
    rows: Sequence[Mapping[str, Any]], varied: str, spec: Mapping[str, float | None]
) -> list[str]:
    """Ids of the measurements that differ in `varied` alone, all else as near to `spec` as was
    measured: they may stand beside a curve of `varied`.

    Rows and `spec` have `vcpus`, `memory_mib` and `disk_read_mib_per_second`; None: no limit.
    """
    left = list(rows)
    for name in _RICH:
        if name != varied and left:
            near = min((_apart(row[name], spec[name]) for row in left), default=0.0)
            left = [row for row in left if _apart(row[name], spec[name]) == near]
    return [row["trial_id"] for row in left]


def _apart(number: float | None, other: float | None) -> float:
    """The ratio of one to the other, as a distance; no limit is far above all."""
    return abs(math.log(number or 1e6) - math.log(other or 1e6))


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    disk = row["disk_read_mib_per_second"] or math.inf
    return row["vcpus"], row["memory_mib"], disk, row["trial_id"]


@cache
def _bundled() -> list[dict[str, Any]]:
    lines = filter(None, _FILE.read_text().splitlines())
    return _rows((measurement_from_dict(json.loads(line)) for line in lines), BUNDLED)


def _stored(network: str, task: str) -> Sequence[Measurement]:
    """Measurements in the user's store, where there is one: most users have none."""
    own = user_folder() / "measurements.sqlite"
    if not os.environ.get("ADVISOR_DATABASE_URL") and not own.is_file():
        return ()
    from contextlib import closing

    from advisor.store.measurements import all_of, open_store

    wanted = {"network": network, "task": task, "status": str(Status.OK)}
    with closing(open_store(reading=True)) as store:
        return all_of(store, wanted).measurements


def _rows(measurements: Iterable[Measurement], origin: str) -> list[dict[str, Any]]:
    """Those that a fit would take: good ones, held to their limits, that read their data."""
    return [
        _row(measurement, rate, origin)
        for measurement in measurements
        if not refusal(measurement) and not why_not(measurement, (measurement.trial.workload.network,))
        if (rate := measurement.throughput_samples_per_second) is not None
    ]


def _row(measurement: Measurement, rate: float, origin: str) -> dict[str, Any]:
    workload, has = measurement.trial.workload, measurement.trial.resources
    return {
        "trial_id": measurement.trial.trial_id,
        "network": workload.network,
        "task": str(workload.task),
        "batch_size": workload.batch_size,
        "precision": str(workload.precision),
        "dataset": workload.dataset.name,
        "vcpus": has.vcpus,
        "memory_mib": has.memory_mib,
        "disk_type": has.disk.type,
        "disk_read_mib_per_second": has.disk.read_mib_per_second,
        "accelerator": str(measurement.trial.accelerator),
        "cpu_model": str(measurement.environment.get("cpu_model") or "unknown"),
        "samples_per_second": rate,
        "provenance": str(Provenance.MEASURED),
        "origin": origin,
        "measured_on": measurement.started_at[:10] or None,
    }


def evidence(subject: Subject, explanation: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The source of each fact behind the prediction, and its distance from the measured rows; first the
    GPU's own rate, where somebody published the very cell."""
    rows = [] if explanation is None else [dict(row) for row in explanation["measured_range"]]
    published = _published(subject)
    return [*([published] if published else []), *rows]


def _published(subject: Subject) -> dict[str, Any] | None:
    card = subject.context.catalog.gpu_of(subject.instance)
    if card is None or subject.candidate.workload.task is Task.PREPROCESSING:
        return None
    model, workload = subject.context.model, subject.candidate.workload
    provenance = model.step_times.provenance(workload, card, model.table.of(workload))
    if provenance is Provenance.MODELLED:
        return None
    return {
        "subject": "gpu_rate",
        "stage": "accelerator",
        "matters": True,
        "inside": True,
        "times": 1.0,
        "detail": Message(
            "the rate on a {card} is {provenance}", card=card.name, provenance=Message(str(provenance))
        ),
    }


def ages(
    spec: Spec, measured: Sequence[Mapping[str, Any]], regions: Sequence[Mapping[str, Any]], today: date
) -> list[dict[str, Any]]:
    """The dates of what decided, oldest first: prices, the instance's facts, measurements."""
    price, disk, facts = spec.offer.price, spec.disk.price, spec.offer.instance
    rows = [_age("instance_price", price.as_of, today, price.kind, price.source)]
    if disk:
        rows.append(_age("disk_price", disk.as_of, today, disk.kind, disk.source))
    rows.append(_age("instance_facts", facts.as_of, today, "published", facts.source))
    days = sorted(row["measured_on"] for row in measured if row["measured_on"])
    if days:
        newest = date.fromisoformat(days[-1])
        rows.append(_age("newest_measurement", newest, today, "measured", "sweep"))
    if regions:
        oldest = min(regions, key=lambda row: (row["as_of"], row["region"]))
        when = date.fromisoformat(oldest["as_of"])
        rows.append(_age("oldest_regional_price", when, today, oldest["kind"], oldest["source"]))
    return sorted(rows, key=lambda row: (row["as_of"], row["what"]))


def _age(what: str, as_of: date, today: date, kind: str, source: str) -> dict[str, Any]:
    return {
        "what": what,
        "as_of": as_of.isoformat(),
        "age_days": (today - as_of).days,
        "kind": kind,
        "source": source,
    }
