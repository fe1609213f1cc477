"""Candidates: options with a disk and a batch size, and what is predicted for them."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain import Candidate, Disk, Latency, Spec
from advisor.engine.candidates import Runnable
from advisor.engine.rows import Asked, Rows


def predicted(
    rows: Rows, options: Sequence[Runnable], *, with_latency: bool = False
) -> list[Candidate]:
    """Every spec and batch size of the options with its prediction, in one call of the model.

    Latencies take a second call; without them candidates have none.
    """
    rows.add(options)
    specs = [
        (option, Spec(offer=option.offer, disk=disk)) for option in options for disk in option.disks
    ]
    asked = [Asked(spec.offer, w, spec.disk) for option, spec in specs for w in option.workloads]
    pairs = [(option.note, spec, w) for option, spec in specs for w in option.workloads]
    latencies: Sequence[Latency | None] = [None] * len(asked)
    if with_latency:
        latencies = rows.latencies([one[:2] for one in asked])
    answers = zip(pairs, rows.predictions(asked), latencies, strict=True)
    return [
        Candidate(
            spec=spec, workload=workload, prediction=prediction, latency=latency, note=note
        )
        for (note, spec, workload), prediction, latency in answers
    ]  # fmt: skip


def with_disks(rows: Rows, asked: Sequence[tuple[Candidate, Disk]]) -> list[Candidate]:
    """One instance of each candidate with another disk, which changes no latency: requests arrive
    in memory."""
    found = rows.predictions(
        [Asked(one.spec.offer, one.workload, disk) for one, disk in asked]
    )  # fmt: skip
    return [
        Candidate(
            spec=Spec(offer=one.spec.offer, disk=disk),
            workload=one.workload,
            prediction=prediction,
            latency=one.latency,
            note=one.note,
        )
        for (one, disk), prediction in zip(asked, found, strict=True)
    ]
