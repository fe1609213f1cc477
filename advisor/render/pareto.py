"""The Pareto front of price and rate: as the document's `pareto`, and as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from advisor.domain import Candidate, Disk, Recommendation
from advisor.records import replace
from advisor.units import floor_rate, format_usd

TITLE = "Pareto front"
# What is free has no logarithm.
_LEAST_USD = 1e-6
COLUMNS = ("gpu", "disk", "batch", "per hour", "surely/s", "per 1M")


def pareto_documents(answer: Recommendation) -> list[dict[str, Any]]:
    """The document's `pareto`, cheapest first; numbers are not rounded."""
    return [_document(one) for one in answer.pareto]


def _document(one: Candidate) -> dict[str, Any]:
    offer = one.spec.offer
    return {
        "instance_type": offer.instance.name,
        "cloud": offer.instance.cloud,
        "region": offer.region,
        "gpu": offer.instance.gpu_name,
        "disk": str(one.spec.disk.choice),
        "batch_size": one.workload.batch_size,
        "total_usd_per_hour": one.spec.total_usd_per_hour,
        "lower": one.prediction.lower,
        "usd_per_million_samples": one.usd_per_million_samples,
    }


def pareto_rows(front: Sequence[Candidate]) -> list[list[str]]:
    """A row a spec: `COLUMNS` after its name."""
    return [
        [
            f"  {one.spec.offer.instance.name}",
            short_gpu_text(one),
            short_disk_text(one.spec.disk),
            str(one.workload.batch_size),
            format_usd(one.spec.total_usd_per_hour),
            f"{floor_rate(one.prediction.lower):,g}",
            format_usd(one.usd_per_million_samples),
        ]
        for one in front
    ]


def short_gpu_text(one: Candidate) -> str:
    """'H100' of an H100-SXM5-80GB; a dash where there is none."""
    return (one.spec.offer.instance.gpu_name or "").partition("-")[0] or "-"


def short_disk_text(disk: Disk) -> str:
    """Without the size, which is the same for all; `--disk` takes it too."""
    return "local" if disk.price is None else str(replace(disk.choice, size_gib=None))


def thinned(front: Sequence[Candidate], most: int) -> list[Candidate]:
    """At most so many of a front, about the same ratio of prices apart; the ends stay."""
    if len(front) <= most:
        return list(front)
    logs = [math.log(max(one.spec.total_usd_per_hour, _LEAST_USD)) for one in front]
    step = (logs[-1] - logs[0]) / (most - 1)
    marks = [logs[0] + step * place for place in range(most - 1)]
    kept = {next(at for at, log in enumerate(logs) if log >= mark) for mark in marks}
    return [front[at] for at in sorted({*kept, len(front) - 1})]
