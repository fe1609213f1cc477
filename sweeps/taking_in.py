"""Rows that were measured elsewhere come into a store, also in the place of older ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from advisor.domain import Measurement
from sweeps.age import began_before
from sweeps.repeating import renewed, run_facts
from sweeps.store.contract import Combine, MeasurementStore


def take_in(
    rows: Sequence[Measurement], store: MeasurementStore, since: datetime | None = None
) -> None:
    """Keep rows as `MeasurementStore.append_all` does; where `since` is given, one that began then
    or later takes the place of an older one, which stays among the `earlier`.

    The same rows again change nothing."""
    summaries = store.summaries({row.trial.trial_id for row in rows}) if since else {}
    old = {name for name, one in summaries.items() if began_before(one.started_at, since)}
    others = []
    for row in rows:
        name = row.trial.trial_id
        if name in old and not began_before(row.started_at, since):
            store.join(row, _in_place_of_older(since))
            old.remove(name)
        else:
            others.append(row)
    store.append_all(others)


def _in_place_of_older(since: datetime | None) -> Combine:
    def combined(row: Measurement | None, fresh: Measurement) -> Measurement | None:
        if row is None:
            return fresh
        if not began_before(row.started_at, since) or run_facts(fresh) in row.attempts:
            return None
        return renewed(row, fresh)

    return combined
