"""What a section stands on: which facts were measured, published or modelled, and how old each
is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from advisor.answers.reporting.subject import Subject
from advisor.domain import Provenance, Task


def evidence(subject: Subject, explanation: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """How each fact that the prediction stands on is known, and how far it lies from what was
    measured; first the GPU's own rate, where somebody published the very cell."""
    rows = [] if explanation is None else [dict(one) for one in explanation["measured_range"]]
    published = _published(subject)
    return [*([published] if published else []), *rows]


def _published(subject: Subject) -> dict[str, Any] | None:
    card = subject.ground.catalog.gpu_of(subject.instance)
    if card is None or subject.one.workload.task is Task.PREPROCESSING:
        return None
    model, workload = subject.ground.model, subject.one.workload
    provenance = model.step_times.provenance(workload, card, model.table.of(workload))
    if provenance is Provenance.MODELLED:
        return None
    return {
        "subject": "gpu_rate",
        "stage": "accelerator",
        "matters": True,
        "inside": True,
        "times": 1.0,
        "detail": f"the rate on a {card.name} is {provenance}",
    }


def ages(
    subject: Subject, measured: Sequence[Mapping[str, Any]], regions: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The dates of what decided, oldest first: prices, the instance's facts, measurements."""
    spec, today = subject.one.spec, subject.as_of
    price, disk = spec.offer.price, spec.disk.price
    rows = [_age("instance_price", price.as_of, today, price.kind, price.source)]
    if disk:
        rows.append(_age("disk_price", disk.as_of, today, disk.kind, disk.source))
    facts = subject.instance
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
