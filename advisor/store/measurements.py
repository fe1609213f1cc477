"""Measurements in SQLite or PostgreSQL. `MeasurementStore` documents what each method promises."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any

import sqlalchemy as sql
from msgspec import Struct

from advisor.domain import Measurement, Status
from advisor.errors import DataError
from advisor.store.database import DatabaseSeconds, insert_if_absent
from advisor.store.locks import LEASE_SECONDS, Leases, end_lease
from advisor.store.schema import EARLIER, HEAD, LEASES, MEASUREMENTS, OpenTables
from advisor.store.schema import MEASUREMENTS as ROWS
from advisor.sweeps.formats import (
    SCHEMA_VERSION,
    NewerFormatError,
    measurement_from_dict,
    measurement_to_dict,
)
from advisor.sweeps.measurement_store import Appended, Combine, Damaged, Held, Stored, Summary, in_parts
from advisor.sweeps.quality.issues import is_stale
from advisor.sweeps.trial.ownership import Owner


def describe(url: str, *, patience_seconds: float) -> Mapping[str, Any]:
    """Facts about a database: name, program and version, tables (`nothing` or `head`), number of rows, clock
    (seconds since 1970), drivers with leases in force (`held`), number of expired leases (`left_leases`).
    `DataError` or `UsageError` where it cannot be reached or belongs to another program."""
    with closing(SqlStore(url, reading=True, patience_seconds=patience_seconds)) as store:
        now, rows, leases, held = None, 0, 0, store.running()
        if store.is_ready or store.file is None:
            now = store.view(lambda connection: connection.scalar(sql.select(DatabaseSeconds())))
        if store.is_ready:
            counts = [sql.select(sql.func.count()).select_from(table) for table in (MEASUREMENTS, LEASES)]
            (rows,), (leases,) = (store.rows(count)[0] for count in counts)
        program = "SQLite" if store.engine.dialect.name == "sqlite" else "PostgreSQL"
        version = getattr(store.engine.dialect, "server_version_info", None) or sqlite3.sqlite_version_info
        return {
            "name": store.name,
            "tables": "head" if store.is_ready else "nothing",
            "newest_version": HEAD,
            "rows": rows,
            "held": sorted({entry.driver for entry in held.values()}),
            "left_leases": leases - len(held),
            "program": f"{program} {'.'.join(map(str, version))}",
            "now": now,
        }


_ROWS_AT_ONCE = 200
# A filter of rows: the value that each named column must have.
Wanted = Mapping[str, str]


def open_store(url: str | None = None, *, reading: bool = False) -> SqlStore:
    """The store at `url` (default: `default_database_url()`); see `OpenTables`."""
    return SqlStore(url, reading=reading)


class SqlStore(OpenTables):
    """Measurements and leases in a SQL database."""

    def __init__(
        self,
        url: str | None = None,
        *,
        reading: bool = False,
        patience_seconds: float | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        super().__init__(url, reading=reading, patience_seconds=patience_seconds)
        self.leases = Leases(self, lease_seconds)

    def append_all(self, measurements: Sequence[Measurement], *, since: datetime | None = None) -> Appended:
        rows = [_row_of(measurement) for measurement in measurements]

        def work(connection: sql.Connection) -> Appended:
            added = replaced = 0
            for row in rows:
                if insert_if_absent(connection, ROWS, row):
                    added += 1
                    continue
                existing = _stored_row(connection, row["trial_id"])
                if existing is not None and _is_superseded(existing, row, since):
                    _replace_row(connection, existing, row)
                    replaced += 1
            return Appended(added, replaced)

        return self.write(work)

    def join(self, fresh: Measurement, combine: Combine, *, owner: Owner | None = None) -> Measurement | None:
        trial_id = fresh.trial.trial_id
        written: list[str] = []  # payloads of attempts whose commit may have succeeded unseen

        def work(connection: sql.Connection) -> Measurement | None:
            has_lease = owner is None or end_lease(connection, trial_id, owner.name)
            existing = _stored_row(connection, trial_id)
            if existing is not None and existing.payload in written:
                return _parsed(existing.payload)
            if existing is not None and not has_lease:
                return None
            whole = combine(_undamaged(existing), fresh)
            if whole is not None:
                row = _row_of(whole)
                written.append(row["payload"])
                if existing is not None:
                    _replace_row(connection, existing, row)
                elif not insert_if_absent(connection, ROWS, row):
                    return None  # an import stored this trial a moment earlier
            return whole

        return self.write(work)

    def summaries(self, trial_ids: Iterable[str] | None = None) -> dict[str, Summary]:
        rows = self._rows_of(ROWS, trial_ids, ROWS.c.status, ROWS.c.started_at)
        return {row.trial_id: Summary(row.status, row.started_at) for row in rows}

    def read(self, trial_ids: Iterable[str] | None = None, wanted: Wanted | None = None) -> Stored:
        return self._stored(ROWS, trial_ids, wanted)

    def earlier(self, trial_ids: Iterable[str] | None = None) -> list[Measurement]:
        return list(self._stored(EARLIER, trial_ids).measurements)

    def all(self) -> list[Measurement]:
        stored = self.read()
        for entry in stored.damaged:
            raise DataError(entry.reason)
        return list(stored.measurements)

    def running(self) -> dict[str, Held]:
        """The leases in force, by trial id; empty where there are no tables."""
        return self.leases.held()

    def _stored(
        self, table: sql.Table, trial_ids: Iterable[str] | None, wanted: Wanted | None = None
    ) -> Stored:
        rows = self._rows_of(table, trial_ids, table.c.payload, table.c.number, wanted=wanted)
        rows.sort(key=lambda row: row.number)
        return _parsed_rows(rows, self.name)

    def _rows_of(
        self,
        table: sql.Table,
        trial_ids: Iterable[str] | None,
        *columns: sql.Column[Any],
        wanted: Wanted | None = None,
    ) -> list[Any]:
        query = sql.select(table.c.trial_id, *columns).where(*_conditions(wanted or {}))
        if trial_ids is None:
            return self.rows(query)
        return [
            row
            for part in in_parts(sorted(set(trial_ids)))
            for row in self.rows(query.where(table.c.trial_id.in_(part)))
        ]


class Page(Struct, frozen=True):
    """Some rows, and the `after` that gets the next page; None on the last page."""

    stored: Stored
    next_after: int | None


def page_of(store: SqlStore, wanted: Wanted, *, after: int = 0, limit: int) -> Page:
    """The first `limit` matching rows whose number is above `after`. A row keeps its number when a newer
    measurement replaces it, so a reader of all pages gets each trial once, whatever is stored meanwhile."""
    query = sql.select(ROWS.c.trial_id, ROWS.c.payload, ROWS.c.number)
    query = query.where(ROWS.c.number > after, *_conditions(wanted)).order_by(ROWS.c.number)
    rows = store.rows(query.limit(limit + 1))
    return Page(_parsed_rows(rows[:limit], store.name), rows[limit - 1].number if len(rows) > limit else None)


def pages_of(store: SqlStore, wanted: Wanted) -> Iterator[Stored]:
    """All matching rows in pages, so that few are in memory at once."""
    after: int | None = 0
    while after is not None:
        page = page_of(store, wanted, after=after, limit=_ROWS_AT_ONCE)
        yield page.stored
        after = page.next_after


def _conditions(wanted: Wanted) -> list[sql.ColumnElement[bool]]:
    return [ROWS.c[name] == value for name, value in wanted.items()]


def _stored_row(connection: sql.Connection, trial_id: str) -> Any:
    """The trial's row, locked until the transaction ends; None if nothing is stored."""
    columns = (ROWS.c.status, ROWS.c.started_at, ROWS.c.payload)
    query = sql.select(*columns).where(ROWS.c.trial_id == trial_id)
    return connection.execute(query.with_for_update()).one_or_none()


def _replace_row(connection: sql.Connection, existing: Any, row: dict[str, Any]) -> None:
    """Overwrite a row. A good one is copied to `earlier_measurements`, unless the new one continues it."""
    if existing.status == Status.OK.value and existing.started_at != row["started_at"]:
        kept = {"trial_id": row["trial_id"], "started_at": existing.started_at}
        connection.execute(EARLIER.insert().values(kept | {"payload": existing.payload}))
    connection.execute(ROWS.update().where(ROWS.c.trial_id == row["trial_id"]).values(row))


def _undamaged(existing: Any) -> Measurement | None:
    try:
        return _parsed(existing.payload) if existing is not None else None
    except NewerFormatError:
        raise
    except DataError:
        return None


def _row_of(measurement: Measurement) -> dict[str, Any]:
    """A measurement as a row without its number; the payload holds raw values only."""
    trial, payload = measurement.trial, measurement_to_dict(measurement)
    del payload["throughput_samples_per_second"]
    return {
        "trial_id": trial.trial_id,
        "network": trial.workload.network,
        "task": trial.workload.task.value,
        "accelerator": str(trial.accelerator),
        "status": measurement.status.value,
        "limited_by": measurement.limited_by.value,
        "started_at": measurement.started_at,
        "schema_version": SCHEMA_VERSION,
        "payload": json.dumps(payload),
    }


def _parsed(payload: str) -> Measurement:
    """The measurement in a payload; `DataError` where it is damaged or from a later version."""
    try:
        return measurement_from_dict(json.loads(payload))
    except NewerFormatError:
        raise
    except (ValueError, AttributeError, RecursionError, DataError) as error:
        raise DataError(f"damaged ({error})") from error


def _parsed_rows(rows: Iterable[Any], database: str) -> Stored:
    """The measurements in the rows, and the damaged rows; `NewerFormatError` for a later version's."""
    good: list[Measurement] = []
    damaged: list[Damaged] = []
    for row in rows:
        try:
            good.append(_parsed(row.payload))
        except NewerFormatError:
            raise
        except DataError as error:
            reason = (
                f"measurement {row.trial_id} in the database '{database}' is {error}; measure it again with "
                "`advisor sweep run .. --retry-failed`, or delete that row"
            )
            damaged.append(Damaged(row.trial_id, reason))
    return Stored(tuple(good), tuple(damaged))


def _is_superseded(existing: Any, row: Mapping[str, Any], since: datetime | None) -> bool:
    """True if the incoming `row` replaces the stored one (`status`, `started_at`, `payload`). The incoming
    row must be OK, and the stored one not OK, or older than `since` while the incoming one is not, or only
    the first of the incoming row's runs."""
    if row["status"] != Status.OK.value:
        return False
    if existing.status != Status.OK.value:
        return True
    if is_stale(existing.started_at, since) and not is_stale(row["started_at"], since):
        return True
    incoming, stored = _step_seconds_of_runs(row["payload"]), _step_seconds_of_runs(existing.payload)
    return len(incoming) > len(stored) and incoming[: len(stored)] == stored


def _step_seconds_of_runs(payload: str) -> list[Any]:
    try:
        document = json.loads(payload)
        return [entry["step_seconds"] for entry in (document, *document.get("repeats", ()))]
    except (ValueError, AttributeError, TypeError, KeyError):
        return []
