"""Leases in the database: see `LeaseBook`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sql

from advisor.errors import DataError
from advisor.store.database import Database
from advisor.store.dialects import DatabaseSeconds, insert_if_absent
from advisor.store.tables import LEASES
from advisor.sweeps.measurement_store import Held
from advisor.sweeps.trial.ownership import Owner, columns_of, place, process_has_gone

LEASE_SECONDS = 120.0
_NO_PATIENCE = 0.0


class Leases:
    """The `leases` table of a database."""

    def __init__(self, database: Database, seconds: float = LEASE_SECONDS) -> None:
        self._database = database
        self._seconds = seconds

    def take(self, labels: Mapping[str, str], owner: Owner) -> set[str]:
        """See `LeaseBook`. In the order of their names: two that take the same do not wait for each other."""
        rows = [self._row(name, owner, label) for name, label in sorted(labels.items())]
        return self._database.write(lambda connection: _take(connection, rows)) if rows else set()

    def begin(self, trial_id: str, owner: Owner, label: str) -> None:
        begun = (
            LEASES.update().where(_of(trial_id, owner.name)).values(taken_at=DatabaseSeconds(), label=label)
        )
        with suppress(DataError):
            self._database.execute(begun, patience_seconds=_NO_PATIENCE)

    def renew(self, owner: Owner) -> None:
        """See `LeaseBook`; does not wait for a database that is away, the next beat comes soon."""
        renewed = (
            LEASES.update()
            .where(LEASES.c.owner == owner.name)
            .values(expires_at=DatabaseSeconds() + self._seconds)
        )
        self._database.execute(renewed, patience_seconds=_NO_PATIENCE)

    def give_back(self, owner: Owner, trial_ids: Iterable[str] | None = None) -> None:
        """See `LeaseBook`; all of them are given back without waiting, since they end by themselves with
        their driver. One that goes on would keep the others from them."""
        patience = _NO_PATIENCE if trial_ids is None else None
        ended = LEASES.delete().where(LEASES.c.owner == owner.name)
        if trial_ids is not None:
            ended = ended.where(LEASES.c.trial_id.in_(list(trial_ids)))
        self._database.execute(ended, patience_seconds=patience)

    def held(self) -> dict[str, Held]:
        return {
            row.trial_id: Held(
                row.trial_id,
                row.host,
                row.pid,
                row.left,
                row.held,
                row.label or "",
                here=bool(row.place) and row.place == place(),
            )
            for row in self._database.rows(_query())
            if _is_in_force(row)
        }

    def _row(self, trial_id: str, owner: Owner, label: str) -> dict[str, Any]:
        return {
            **columns_of(owner),
            "trial_id": trial_id,
            "expires_at": DatabaseSeconds() + self._seconds,
            "label": label,
        }


def _take(connection: sql.Connection, rows: Sequence[dict[str, Any]]) -> set[str]:
    names = [row["trial_id"] for row in rows]
    there = connection.execute(_query().where(LEASES.c.trial_id.in_(names))).all()
    existing = {lease.trial_id: lease for lease in there}
    taken = set()
    for row in rows:
        name = row["trial_id"]
        if name in existing:
            if existing[name].owner != row["owner"] and _is_in_force(existing[name]):
                continue
            # By its owner too: another driver may be taking it over at this very moment.
            end(connection, name, existing[name].owner)
        if insert_if_absent(connection, LEASES, row):
            taken.add(name)
    return taken


def end(connection: sql.Connection, trial_id: str, owner_name: str) -> bool:
    """End the lease within a transaction; False when that owner has it no more."""
    return connection.execute(LEASES.delete().where(_of(trial_id, owner_name))).rowcount == 1


def _of(trial_id: str, owner_name: str) -> sql.ColumnElement[bool]:
    return (LEASES.c.trial_id == trial_id) & (LEASES.c.owner == owner_name)


def _query() -> sql.Select[Any]:
    left = (LEASES.c.expires_at - DatabaseSeconds()).label("left")
    held = (DatabaseSeconds() - LEASES.c.taken_at).label("held")
    return sql.select(LEASES, left, held)


def _is_in_force(row: Any) -> bool:
    return row.left > 0 and not process_has_gone(row.place, row.pid, row.started)
