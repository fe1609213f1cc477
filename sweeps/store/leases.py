"""Leases in the database: see `contract.LeaseBook`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sql

from sweeps.store.contract import Held
from sweeps.store.database import Database
from sweeps.store.dialects import DatabaseSeconds, insert_if_absent
from sweeps.store.schema import LEASES
from sweeps.trial.ownership import Owner, columns_of, place, process_has_gone

LEASE_SECONDS = 120.0
_NO_PATIENCE = 0.0


class Leases:
    """The `leases` table of a database."""

    def __init__(self, database: Database, seconds: float = LEASE_SECONDS) -> None:
        self._database = database
        self._seconds = seconds

    def take(self, trial_id: str, owner: Owner, label: str = "") -> bool:
        """See `LeaseBook`."""
        row = self._row(trial_id, owner, label)
        return self._database.write(lambda connection: _take(connection, row))

    def renew(self, owner: Owner) -> None:
        """See `LeaseBook`; does not wait for a database that is away, the next beat comes soon."""
        renewed = (
            LEASES.update()
            .where(LEASES.c.owner == owner.name)
            .values(expires_at=DatabaseSeconds() + self._seconds)
        )
        self._database.write(
            lambda connection: connection.execute(renewed), patience_seconds=_NO_PATIENCE
        )

    def give_back(self, owner: Owner, trial_ids: Iterable[str] | None = None) -> None:
        """See `LeaseBook`; all of them are given back without waiting, since they end by
        themselves with their driver. One that goes on would keep the others from them."""
        patience = _NO_PATIENCE if trial_ids is None else None
        ended = LEASES.delete().where(LEASES.c.owner == owner.name)
        if trial_ids is not None:
            ended = ended.where(LEASES.c.trial_id.in_(list(trial_ids)))
        self._database.write(
            lambda connection: connection.execute(ended), patience_seconds=patience
        )

    def held(self) -> dict[str, Held]:
        """See `LeaseBook`."""
        rows = self._database.read(lambda connection: connection.execute(_query()).all())
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
            for row in rows
            if _is_in_force(row)
        }

    def _row(self, trial_id: str, owner: Owner, label: str) -> dict[str, Any]:
        return {
            **columns_of(owner),
            "trial_id": trial_id,
            "expires_at": DatabaseSeconds() + self._seconds,
            "taken_at": DatabaseSeconds(),
            "label": label,
        }


def _take(connection: sql.Connection, row: dict[str, Any]) -> bool:
    existing = connection.execute(
        _query().where(LEASES.c.trial_id == row["trial_id"])
    ).one_or_none()
    if existing is not None:
        if existing.owner != row["owner"] and _is_in_force(existing):
            return False
        # By its owner too: another driver may be taking it over at this very moment.
        end(connection, row["trial_id"], existing.owner)
    return insert_if_absent(connection, LEASES, row)


def end(connection: sql.Connection, trial_id: str, owner_name: str) -> bool:
    """End the lease within a transaction; False when that owner has it no more."""
    here = (LEASES.c.trial_id == trial_id) & (LEASES.c.owner == owner_name)
    return connection.execute(LEASES.delete().where(here)).rowcount == 1


def _query() -> sql.Select[Any]:
    left = (LEASES.c.expires_at - DatabaseSeconds()).label("left")
    held = (DatabaseSeconds() - LEASES.c.taken_at).label("held")
    return sql.select(LEASES, left, held)


def _is_in_force(row: Any) -> bool:
    return row.left > 0 and not process_has_gone(row.place, row.pid, row.started)
