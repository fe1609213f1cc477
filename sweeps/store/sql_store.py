"""Measurements in SQLite or PostgreSQL, through the same code; see `contract` for the rules."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sql

from advisor.domain import Measurement, Status
from advisor.errors import DataError
from advisor.places import user_folder
from advisor.sweeps.formats.serialization import NewerFormatError
from advisor.sweeps.store.contract import Appended, Combine, Held, Stored, Summary
from advisor.sweeps.store.database import READING_PATIENCE_SECONDS, WRITING_PATIENCE_SECONDS, Database
from advisor.sweeps.store.dialects import DATABASE_VARIABLE as DATABASE_VARIABLE
from advisor.sweeps.store.dialects import insert_if_absent
from advisor.sweeps.store.leases import LEASE_SECONDS, Leases, end
from advisor.sweeps.store.rows import gives_way, in_parts, parsed, row_of, sorted_out
from advisor.sweeps.store.schema import has_tables, make_ready
from advisor.sweeps.store.tables import EARLIER
from advisor.sweeps.store.tables import MEASUREMENTS as ROWS
from advisor.sweeps.trial.ownership import Owner


def default_database_url() -> str:
    """`ADVISOR_DATABASE_URL`, else a SQLite file in the user's data folder."""
    configured = os.environ.get(DATABASE_VARIABLE)
    return configured or f"sqlite:///{user_folder() / 'measurements.sqlite'}"


def open_store(url: str | None = None, *, reading: bool = False) -> SqlStore:
    """The store at `url` (default: `default_database_url()`).

    Its tables are made, or migrated, where they have to be. `reading` changes nothing in the
    database, whatever it holds, and finds an empty store where there is none.
    """
    return SqlStore(url or default_database_url(), reading=reading)


class SqlStore:
    """Measurements and leases in a SQL database."""

    def __init__(
        self,
        url: str,
        *,
        reading: bool = False,
        patience_seconds: float | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        usual = READING_PATIENCE_SECONDS if reading else WRITING_PATIENCE_SECONDS
        self._database = Database(url, usual if patience_seconds is None else patience_seconds)
        self.leases = Leases(self._database, lease_seconds)
        self._ready = not reading
        try:
            if reading:
                self._there()
            else:
                make_ready(self._database)
        except BaseException:
            self.close()
            raise

    def append(self, measurement: Measurement, *, replace: bool = False) -> bool:
        """See `MeasurementStore`."""
        row = row_of(measurement)

        def work(connection: sql.Connection) -> bool:
            if insert_if_absent(connection, ROWS, row):
                return True
            if replace:
                _put(connection, row)
                return True
            existing = _stored_row(connection, row["trial_id"])
            # The same to the last digit: kept by a commit whose answer was lost.
            return existing is not None and existing.payload == row["payload"]

        return self._database.write(work)

    def append_all(self, measurements: Sequence[Measurement], *, since: datetime | None = None) -> Appended:
        """See `MeasurementStore`."""
        rows = [row_of(measurement) for measurement in measurements]

        def work(connection: sql.Connection) -> Appended:
            added = replaced = 0
            for row in rows:
                if insert_if_absent(connection, ROWS, row):
                    added += 1
                    continue
                existing = _stored_row(connection, row["trial_id"])
                if existing is not None and gives_way(existing, row, since):
                    _keep_earlier(connection, existing, row)
                    _put(connection, row)
                    replaced += 1
            return Appended(added, replaced)

        return self._database.write(work)

    def join(self, fresh: Measurement, combine: Combine, *, owner: Owner | None = None) -> Measurement | None:
        """See `MeasurementStore`."""
        trial_id = fresh.trial.trial_id
        written: list[str] = []  # by an attempt whose answer was lost

        def work(connection: sql.Connection) -> Measurement | None:
            holds = owner is None or end(connection, trial_id, owner.name)
            existing = _stored_row(connection, trial_id)
            if existing is not None and existing.payload in written:
                return parsed(existing.payload)
            if existing is not None and not holds:
                return None
            whole = combine(_readable(existing), fresh)
            if whole is not None:
                row = row_of(whole)
                written.append(row["payload"])
                if existing is not None:
                    _keep_earlier(connection, existing, row)
                    _put(connection, row)
                elif not insert_if_absent(connection, ROWS, row):
                    return None  # an import was faster by a moment
            return whole

        return self._database.write(work)

    def statuses(self) -> dict[str, str]:
        """See `MeasurementStore`."""
        query = sql.select(ROWS.c.trial_id, ROWS.c.status)
        return {row.trial_id: row.status for row in self.rows(query)}

    def summaries(self, trial_ids: Iterable[str] | None = None) -> dict[str, Summary]:
        """See `MeasurementStore`."""
        query = sql.select(ROWS.c.trial_id, ROWS.c.status, ROWS.c.started_at)
        rows = self.rows(query) if trial_ids is None else self._rows_of(query, trial_ids)
        return {row.trial_id: Summary(row.status, row.started_at) for row in rows}

    def done_ids(self) -> set[str]:
        """See `MeasurementStore`."""
        return {row.trial_id for row in self.rows(sql.select(ROWS.c.trial_id))}

    def read(self, trial_ids: Iterable[str] | None = None) -> Stored:
        """See `MeasurementStore`."""
        query = sql.select(ROWS.c.trial_id, ROWS.c.payload, ROWS.c.number)
        rows = self.rows(query) if trial_ids is None else self._rows_of(query, trial_ids)
        rows.sort(key=lambda row: row.number)
        return sorted_out(((row.trial_id, row.payload) for row in rows), self._database.name)

    def earlier(self, trial_ids: Iterable[str] | None = None) -> list[Measurement]:
        """See `MeasurementStore`."""
        query = sql.select(EARLIER.c.trial_id, EARLIER.c.payload, EARLIER.c.number)
        column = EARLIER.c.trial_id
        rows = self.rows(query) if trial_ids is None else self._rows_of(query, trial_ids, column)
        rows.sort(key=lambda row: row.number)
        kept = ((row.trial_id, row.payload) for row in rows)
        return list(sorted_out(kept, self._database.name).measurements)

    def all(self) -> list[Measurement]:
        """See `MeasurementStore`."""
        stored = self.read()
        for entry in stored.damaged:
            raise DataError(entry.reason)
        return list(stored.measurements)

    @property
    def name(self) -> str:
        """What a message calls the database; never with its password."""
        return self._database.name

    @property
    def identity(self) -> str:
        """Which database that is: the same however its URL is written, of no other one."""
        return self._database.identity()

    def running(self) -> dict[str, Held]:
        """The leases in force, by trial_id; none where there are no tables."""
        return self.leases.held() if self._there() else {}

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()

    def rows(self, query: sql.Select[Any]) -> list[Any]:
        """What the query finds; nothing where there are no tables. For modules of the store."""
        if not self._there():
            return []
        return list(self._database.read(lambda connection: connection.execute(query).all()))

    def _rows_of(
        self, query: sql.Select[Any], trial_ids: Iterable[str], column: sql.Column[str] = ROWS.c.trial_id
    ) -> list[Any]:
        rows = []
        for part in in_parts(sorted(set(trial_ids))):
            rows += self.rows(query.where(column.in_(part)))
        return rows

    def _there(self) -> bool:
        """Whether there are tables to read."""
        self._ready = self._ready or has_tables(self._database)
        return self._ready


def _stored_row(connection: sql.Connection, trial_id: str) -> Any:
    """What is known of the trial's row, which nobody else changes meanwhile; or None."""
    columns = (ROWS.c.status, ROWS.c.started_at, ROWS.c.payload)
    query = sql.select(*columns).where(ROWS.c.trial_id == trial_id)
    return connection.execute(query.with_for_update()).one_or_none()


def _put(connection: sql.Connection, row: dict[str, Any]) -> None:
    connection.execute(ROWS.update().where(ROWS.c.trial_id == row["trial_id"]).values(row))


def _keep_earlier(connection: sql.Connection, existing: Any, row: dict[str, Any]) -> None:
    """A good row goes on record when another measurement takes its place, and does not go on in
    it: a further run leaves the beginning of the first one."""
    if existing.status == Status.OK.value and existing.started_at != row["started_at"]:
        kept = {"trial_id": row["trial_id"], "started_at": existing.started_at}
        connection.execute(EARLIER.insert().values(kept | {"payload": existing.payload}))


def _readable(existing: Any) -> Measurement | None:
    try:
        return parsed(existing.payload) if existing is not None else None
    except NewerFormatError:
        raise
    except DataError:
        return None
